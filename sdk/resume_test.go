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

func TestResume_runsAgainWhatCanChange(t *testing.T) {
	t.Parallel()
	d := sdktest.New(t, answering(map[string]string{"ID": "x"}))
	d.Script("/reservations", lose(4)...)
	d.Script("/charges", sdktest.Status(402, ""))
	ctx := parent(t, "p")
	c := newClient(t, d)
	var ran atomic.Int32
	f := c.Fanout(ctx)
	held := sdk.Add(f, reserve, lines{})
	rejected := sdk.Add(f, pay.For("poor"), amount{1})
	kept := sdk.AddFunc(f, "kept", func(context.Context) (int32, error) { return ran.Add(1), nil })
	ship := sdk.AddFunc(f, "ship", func(ctx context.Context) (string, error) {
		h, err := held.Get(ctx)
		return h.ID, err
	})
	err := f.Wait()
	require.ErrorIs(t, err, retry.ErrUnknown)
	require.True(t, sdk.Resumable(err))

	err = f.Resume(ctx)
	require.Equal(t, f.Wait(), err)
	require.False(t, sdk.Resumable(err))
	got, err := ship.Get(ctx)
	require.NoError(t, err)
	require.Equal(t, "x", got)
	_, err = held.Get(ctx)
	require.NoError(t, err)
	_, err = rejected.Get(ctx)
	require.ErrorIs(t, err, retry.ErrRejected)
	require.EqualValues(t, 1, ran.Load(), "a completed branch ran again")
	_, err = kept.Get(ctx)
	require.NoError(t, err)
	require.Equal(t, 1, d.Effects()[child(ctx, t, "inventory", "reserve").Quoted()])
	charges := 0
	for _, r := range d.Requests() {
		if r.Path == "/charges" {
			charges++
		}
	}
	require.Equal(t, 1, charges, "a rejected branch ran again")
}

// A later run that reaches no callee leaves the Unknown of an earlier run as it is.
func TestResume_unknownIsSticky(t *testing.T) {
	t.Parallel()
	d := sdktest.Start(answering(charge{}))
	d.Script("/charges", lose(4)...)
	ctx := parent(t, "p")
	c := newClient(t, d)
	f := c.Fanout(ctx)
	charged := sdk.Add(f, pay, amount{1})
	inside := sdk.AddFunc(f, "inside", func(ctx context.Context) (charge, error) {
		return sdk.Call(ctx, c, pay.For("2"), amount{1})
	})
	require.ErrorIs(t, f.Wait(), retry.ErrUnknown)
	d.Close()
	err := f.Resume(ctx)
	require.ErrorIs(t, err, retry.ErrUnknown)
	require.NotErrorIs(t, err, retry.ErrNotSent)
	for _, future := range []*sdk.Future[charge]{charged, inside} {
		_, err := future.Get(ctx)
		require.Equal(t, retry.Unknown, outcome(t, err))
	}
	// Not even where the run ends before anything is sent.
	done, cancel := context.WithCancel(ctx)
	cancel()
	err = f.Resume(done)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, retry.ErrUnknown)
	require.NotErrorIs(t, err, retry.ErrNotSent)
}

func TestResume_inAnotherProcess(t *testing.T) {
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

func TestResume_needsTheSameParent(t *testing.T) {
	t.Parallel()
	f := offline(t).Fanout(parent(t, "p"))
	sdk.AddFunc(f, "b", func(context.Context) (int, error) { return 0, context.DeadlineExceeded })
	for _, ctx := range []context.Context{t.Context(), parent(t, "other")} {
		err := f.Resume(ctx)
		require.ErrorIs(t, err, sdk.ErrNoParent)
		require.Equal(t, retry.Unknown, outcome(t, err))
	}
}

func TestResume_withANewDeadline(t *testing.T) {
	t.Parallel()
	d := sdktest.New(t, answering(charge{"c"}))
	ctx := parent(t, "p")
	short, cancel := context.WithCancel(ctx)
	cancel()
	f := newClient(t, d).Fanout(short)
	charged := sdk.Add(f, pay, amount{1})
	err := f.Wait()
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, retry.ErrNotSent)
	require.NoError(t, f.Resume(ctx))
	got, err := charged.Get(ctx)
	require.NoError(t, err)
	require.Equal(t, "c", got.ID)
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
		wg.Go(func() { _ = f.Resume(ctx) })
		wg.Go(func() { _ = f.Results() })
	}
	wg.Wait()
	require.Len(t, f.Results(), 8)
}

func TestResume_asksHeaderFuncAgain(t *testing.T) {
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
	f := c.Fanout(ctx)
	sdk.Add(f, pay, amount{1})
	require.Error(t, f.Wait())
	require.NoError(t, f.Resume(ctx))
	seen := d.Requests()
	require.Equal(t, []string{"token 1"}, seen[0].Header.Values("Authorization"))
	require.Equal(t, []string{"token 2"}, seen[len(seen)-1].Header.Values("Authorization"))
}
