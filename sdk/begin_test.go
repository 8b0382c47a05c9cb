package sdk_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/sdk"
	"github.com/fanonce/fanonce/sdk/sdktest"
)

var yesterday = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func intents() *sdktest.Intents {
	return &sdktest.Intents{Now: func() time.Time { return yesterday }}
}

func beginOrder(tb testing.TB, store sdk.IntentStore) context.Context {
	tb.Helper()
	ctx, err := sdk.Begin(tb.Context(), store, "checkout", "order-42", "rev-1")
	require.NoError(tb, err)
	return ctx
}

// The process dies when the call may have arrived. The next one sends the same
// key and bytes, and says when the first one was.
func TestBegin_restart(t *testing.T) {
	t.Parallel()
	d := sdktest.New(t, nil)
	d.Script("/charges", sdktest.DropResponse())
	store := intents()

	dies, err := sdk.New(sdk.Config{
		Services: map[string]sdk.Service{"payment": {URL: d.URL()}}, Retry: retry.Config{MaxAttempts: 1},
	})
	require.NoError(t, err)
	_, err = sdk.Call(beginOrder(t, store), dies, pay, amount{5})
	require.ErrorIs(t, err, retry.ErrUnknown)

	_, err = sdk.Call(beginOrder(t, store), newClient(t, d), pay, amount{5})
	require.NoError(t, err)
	got := d.Requests()
	require.Len(t, got, 2)
	require.Equal(t, got[0].Key, got[1].Key)
	require.Equal(t, got[0].Body, got[1].Body)
	for _, r := range got {
		require.Equal(t, wire.FormatFirstSent(yesterday), r.Header.Get(wire.HeaderFirstSent))
	}
	require.Equal(t, map[string]int{got[0].Key: 1}, d.Effects())
}

// Some refusals prove nothing by themselves. Their meaning depends on whether another process may
// have sent the call before.
func TestBegin_whetherItWasBegunBefore(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		store sdk.IntentStore
		runs  []error
	}{
		{"stored", intents(), []error{retry.ErrRejected, retry.ErrUnknown}},
		{"no store", nil, []error{retry.ErrUnknown, retry.ErrUnknown}},
	} {
		d := sdktest.New(t, nil)
		d.Script("/charges", slices.Repeat([]sdktest.Fault{sdktest.Status(http.StatusForbidden, "")}, 2*quick.MaxAttempts)...)
		for i, want := range tt.runs {
			_, err := sdk.Call(beginOrder(t, tt.store), newClient(t, d), pay, amount{5})
			require.ErrorIs(t, err, want, "%s, run %d", tt.name, i)
		}
		if tt.store == nil {
			require.Empty(t, d.Requests()[0].Header.Values(wire.HeaderFirstSent))
		}
	}
}

func TestBegin_key(t *testing.T) {
	t.Parallel()
	want, err := childkey.FromParts("checkout", "order-42", "rev-1")
	require.NoError(t, err)
	for _, store := range []sdk.IntentStore{nil, intents()} {
		got, ok := childkey.FromContext(beginOrder(t, store))
		require.True(t, ok)
		require.Equal(t, want, got)
	}
}

// Begin keeps what an inbound request without a key says of time and retries.
func TestBegin_keepsTheInboundBounds(t *testing.T) {
	t.Parallel()
	in := wire.Inbound{CallerRetries: true, Attempt: 3, Deadline: yesterday}
	ctx, err := sdk.Begin(wire.NewContext(t.Context(), in), intents(), "checkout", "order-42")
	require.NoError(t, err)
	got, _ := wire.FromContext(ctx)
	in.FirstSent = yesterday
	require.Equal(t, in, got)

	got, _ = wire.FromContext(beginOrder(t, intents()))
	require.False(t, got.CallerRetries, "nobody said so")
}

// Past the callee's retention nothing is sent, whichever process began.
func TestBegin_retention(t *testing.T) {
	t.Parallel()
	d := sdktest.New(t, nil)
	store := &sdktest.Intents{Now: func() time.Time { return time.Now().Add(-23 * time.Hour) }}
	client, err := sdk.New(sdk.Config{Services: map[string]sdk.Service{
		"payment": {URL: d.URL(), Profile: &retry.Profile{Retention: 24 * time.Hour}},
	}})
	require.NoError(t, err)
	first := beginOrder(t, store)
	_, err = sdk.Call(beginOrder(t, store), client, pay, amount{5})
	require.ErrorIs(t, err, retry.ErrKeyExpired)
	require.Empty(t, d.Requests())
	// The first process, should it have been asleep, knows that it had sent nothing.
	_, err = sdk.Call(first, client, pay, amount{5})
	require.NoError(t, err)
}

// forgetful breaks what a store promises.
type forgetful struct{}

func (forgetful) Begin(context.Context, childkey.Key, string, []string) (time.Time, bool, error) {
	return time.Time{}, false, nil
}

func TestBegin_refused(t *testing.T) {
	t.Parallel()
	down := errors.New("connection refused")
	broken := intents()
	broken.Fail(down)
	parent := childkey.NewContext(t.Context(), childkey.MustNew())
	for _, tt := range []struct {
		name      string
		ctx       context.Context
		store     sdk.IntentStore
		namespace string
		parts     []string
		want      error
	}{
		{"has a parent", parent, intents(), "checkout", []string{"order-42"}, sdk.ErrHasParent},
		{"no namespace", t.Context(), intents(), "", []string{"order-42"}, childkey.ErrEmpty},
		{"bad namespace", t.Context(), intents(), "check out", []string{"order-42"}, childkey.ErrBadName},
		{"no parts", t.Context(), intents(), "checkout", nil, childkey.ErrEmpty},
		{"empty part", t.Context(), intents(), "checkout", []string{""}, childkey.ErrEmpty},
		{"store is down", t.Context(), broken, "checkout", []string{"order-42"}, down},
		{"store is down, by its sentinel", t.Context(), broken, "checkout", []string{"order-42"}, sdk.ErrIntentStore},
		{"store says nothing", t.Context(), forgetful{}, "checkout", []string{"order-42"}, sdk.ErrIntentStore},
	} {
		ctx, err := sdk.Begin(tt.ctx, tt.store, tt.namespace, tt.parts...)
		require.ErrorIs(t, err, tt.want, tt.name)
		require.Nil(t, ctx, tt.name)
	}
	ctx, err := sdk.Begin(childkey.NewContext(parent, childkey.Key{}), intents(), "checkout", "order-42")
	require.NoError(t, err, "a hidden parent is none")
	require.NotNil(t, ctx)
}
