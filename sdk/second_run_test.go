package sdk_test

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/sdk"
	"github.com/fanonce/fanonce/sdk/sdktest"
)

func lose(n int) []sdktest.Fault {
	faults := make([]sdktest.Fault, n)
	for i := range faults {
		faults[i] = sdktest.DropResponse()
	}
	return faults
}

// A second run that reaches no callee leaves what the first one left Unknown as it is.
func TestFanout_secondRunKeepsUnknown(t *testing.T) {
	t.Parallel()
	d := sdktest.Start(answering(charge{}))
	d.Script("/charges", lose(8)...)
	ctx := parent(t, "p")
	c := newClient(t, d)
	run := func() error {
		f := c.Fanout(ctx)
		sdk.Add(f, pay, amount{1})
		sdk.AddFunc(f, "inside", func(ctx context.Context) (charge, error) {
			return sdk.Call(ctx, c, pay.For("2"), amount{1})
		})
		err := f.Wait()
		for _, r := range f.Results() {
			require.Equal(t, retry.Unknown, r.Outcome, r.Name)
		}
		return err
	}
	require.ErrorIs(t, run(), retry.ErrUnknown)
	d.Close()
	err := run()
	require.ErrorIs(t, err, retry.ErrUnknown)
	require.NotErrorIs(t, err, retry.ErrNotSent)
}

// A second run with a later deadline sends what the first one had no time for.
func TestFanout_secondRunWithANewDeadline(t *testing.T) {
	t.Parallel()
	d := sdktest.New(t, answering(charge{"c"}))
	ctx := parent(t, "p")
	c := newClient(t, d)
	short, cancel := context.WithCancel(ctx)
	cancel()
	f := c.Fanout(short)
	sdk.Add(f, pay, amount{1})
	err := f.Wait()
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, retry.ErrNotSent)
	require.True(t, sdk.Resumable(err))
	f = c.Fanout(ctx)
	charged := sdk.Add(f, pay, amount{1})
	require.NoError(t, f.Wait())
	got, err := charged.Get(ctx)
	require.NoError(t, err)
	require.Equal(t, "c", got.ID)
}

func TestFanout_inAnotherProcess(t *testing.T) {
	t.Parallel()
	d := sdktest.New(t, answering(map[string]string{"ID": "x"}))
	run := func(ctx context.Context) error { // the code that a user would run again
		f := newClient(t, d).Fanout(ctx)
		held := sdk.Add(f, reserve, lines{[]string{"a"}})
		sdk.AddEach(f, pay, []int{1, 2, 3}, strconv.Itoa, func(n int) amount { return amount{n} })
		sdk.AddFunc(f, "ship", func(ctx context.Context) (string, error) {
			h, err := held.Get(ctx)
			return h.ID, err
		})
		return f.Wait()
	}
	d.Script("/reservations", lose(4)...)
	d.Script("/charges", sdktest.Status(503, ""), sdktest.Status(503, ""), sdktest.Status(503, ""), sdktest.Status(503, ""))
	require.Error(t, run(parent(t, "p")))
	require.NoError(t, run(parent(t, "p")))
	effects := d.Effects()
	require.Len(t, effects, 4)
	bodies := make(map[string]string)
	for _, r := range d.Requests() {
		require.Equal(t, 1, effects[r.Key])
		if before, ok := bodies[r.Key]; ok {
			require.Equal(t, before, string(r.Body))
		}
		bodies[r.Key] = string(r.Body)
	}
}

func TestFanout_concurrentUse(t *testing.T) {
	t.Parallel()
	d := sdktest.New(t, answering(charge{"c"}))
	d.Script("/charges", sdktest.Status(402, ""))
	ctx := parent(t, "p")
	f := newClient(t, d).Fanout(ctx)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			future := sdk.Add(f, pay.For(strconv.Itoa(i)), amount{i})
			_, _ = future.Get(ctx)
			_ = f.Results()
		})
	}
	wg.Wait()
	for range 4 {
		wg.Go(func() { _ = f.Wait() })
		wg.Go(func() { _ = f.Results() })
	}
	wg.Wait()
	require.Len(t, f.Results(), 8)
}

// Each run asks HeaderFunc anew, so that a token that expired is not sent again.
func TestFanout_secondRunAsksHeaderFuncAgain(t *testing.T) {
	t.Parallel()
	d := sdktest.New(t, answering(charge{}))
	d.Script("/charges", lose(4)...)
	var asked atomic.Int32
	c, err := sdk.New(sdk.Config{Retry: quick, Services: map[string]sdk.Service{"payment": {
		URL: d.URL(),
		HeaderFunc: func(_ context.Context, header http.Header) error {
			header.Add("Authorization", "token "+strconv.Itoa(int(asked.Add(1))))
			return nil
		},
	}}})
	require.NoError(t, err)
	ctx := parent(t, "p")
	run := func() error {
		f := c.Fanout(ctx)
		sdk.Add(f, pay, amount{1})
		return f.Wait()
	}
	require.Error(t, run())
	require.NoError(t, run())
	seen := d.Requests()
	require.Equal(t, []string{"token 1"}, seen[0].Header.Values("Authorization"))
	require.Equal(t, []string{"token 2"}, seen[len(seen)-1].Header.Values("Authorization"))
}
