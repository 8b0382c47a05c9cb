package sdk_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/sdk"
	"github.com/fanonce/fanonce/sdk/sdktest"
)

// A call without a client is refused, and is not resumable.
func TestClient_none(t *testing.T) {
	t.Parallel()
	var none *sdk.Client
	ctx := parent(t, "p")
	for name, call := range map[string]func() error{
		"Call": func() error {
			_, err := sdk.Call(ctx, none, pay, amount{1})
			return err
		},
		"Call of a bad path": func() error {
			_, err := sdk.Call(ctx, none, capture, amount{1}) // its wildcard has no value
			return err
		},
		"CallUndo": func() error {
			return sdk.CallUndo(ctx, none, reserve, contract.Undo[lines, hold]{})
		},
		"Send": func() error {
			_, err := none.Send(ctx, sdk.Request{Service: "payment", Operation: "charge", Path: "/"})
			return err
		},
		"Fanout": func() error {
			f := none.Fanout(ctx)
			sdk.Add(f, pay, amount{1})
			return f.Wait()
		},
		"Undo": func() error { return none.Fanout(ctx).Undo(ctx) },
		"Fanout of functions": func() error {
			f := none.Fanout(ctx)
			sdk.AddFunc(f, "f", func(context.Context) (int, error) {
				t.Error("it ran")
				return 0, nil
			})
			return f.Wait()
		},
	} {
		err := call()
		require.ErrorIs(t, err, retry.ErrNotSent, name)
		require.False(t, sdk.Resumable(err), name)
		if name != "Call of a bad path" {
			require.ErrorIs(t, err, sdk.ErrConfig, name)
		}
	}
	_, err := none.ChildKey(childkey.MustParse("p"), "payment", "charge")
	require.ErrorIs(t, err, sdk.ErrConfig)
	_, err = sdk.KeyOf(ctx, none, pay)
	require.ErrorIs(t, err, sdk.ErrConfig)
}

// A branch of no fan-out fails, whoever waits for it, and is not begun.
func TestFanout_none(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]*sdk.Fanout{"nil": nil, "zero": {}} {
		one := func(string) string { return "x" }
		in := func(string) amount { return amount{1} }
		ctx := parent(t, "p")
		_, call := sdk.Add(f, pay, amount{1}).Get(ctx)
		_, fn := sdk.AddFunc(f, "f", func(context.Context) (int, error) {
			t.Error("it ran")
			return 0, nil
		}).Get(ctx)
		_, each := sdk.AddEach(f, pay, []string{"a"}, one, in)[0].Get(ctx)
		undo := f.Undo(ctx)
		for way, err := range map[string]error{
			"Add": call, "AddFunc": fn, "AddEach": each, "Undo": undo, "Wait": f.Wait(),
		} {
			require.ErrorIs(t, err, retry.ErrNotSent, "%s %s", name, way)
			require.False(t, sdk.Resumable(err), "%s %s: %v", name, way, err)
		}
		require.ErrorIs(t, f.Wait(), sdk.ErrBranch, name)
		f.Start()
		require.Empty(t, f.Results())
	}
}

func TestBegin_nilPointer(t *testing.T) {
	t.Parallel()
	var store *sdktest.Intents
	_, err := sdk.Begin(t.Context(), store, "shop", "order-1")
	require.ErrorIs(t, err, sdk.ErrConfig)
	require.False(t, sdk.Resumable(err))
	_, err = sdk.Begin(t.Context(), nil, "shop", "order-1")
	require.NoError(t, err)
}

// A mistake in the policy of all services is not said to be in that of one.
func TestNew_namesTheRetryField(t *testing.T) {
	t.Parallel()
	bad := retry.Config{Timeout: -1}
	_, err := sdk.New(sdk.Config{Retry: bad, Services: map[string]sdk.Service{"a": {URL: "http://a.test"}}})
	require.ErrorIs(t, err, sdk.ErrConfig)
	require.ErrorIs(t, err, retry.ErrConfig)
	require.EqualError(t, err, "sdk: bad config: Retry: Timeout: -1ns is negative")
	_, err = sdk.New(sdk.Config{Services: map[string]sdk.Service{"a": {URL: "http://a.test", Retry: &bad}}})
	require.EqualError(t, err, `sdk: bad config: Services["a"].Retry: Timeout: -1ns is negative`)
}
