package sdk_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/sdk"
	"github.com/fanonce/fanonce/sdk/sdktest"
)

func TestCallUndo_hasAKeyOfItsOwnAndNamesTheForwardOne(t *testing.T) {
	t.Parallel()
	d := sdktest.New(t, nil)
	c := newClient(t, d)
	ctx := parent(t, "p")
	for _, sku := range []string{"a", "b"} {
		in := lines{[]string{sku}}
		_, err := sdk.Call(ctx, c, reserve.For(sku), in)
		require.NoError(t, err)
		require.NoError(t, sdk.CallUndo(ctx, c, reserve.For(sku), contract.Undo[lines, hold]{Input: in, Output: &hold{sku}}))
	}
	seen := d.Requests()
	require.Len(t, seen, 4)
	for i, sku := range []string{"a", "b"} {
		forward, undo := seen[2*i], seen[2*i+1]
		require.Equal(t, strconv.Quote(forward.Key), undo.Header.Get(wire.HeaderCancels))
		require.Equal(t, child(ctx, t, "inventory", "release", sku).String(), undo.Key)
		require.JSONEq(t, `{"input":{"SKUs":["`+sku+`"]},"output":{"ID":"`+sku+`"}}`, string(undo.Body))
		require.Empty(t, forward.Header.Get(wire.HeaderCancels))
	}
}

// An undo says whether its caller has the answer of the call. If not, it is as old as that call may be. A service that is
// told nothing of calls that are undone gets neither.
func TestCallUndo_saysWhatTheCallerKnows(t *testing.T) {
	t.Parallel()
	own, forward := time.Unix(2000, 0), time.Unix(1000, 0)
	for _, tt := range []struct {
		name    string
		profile *retry.Profile
		output  *hold
		sent    time.Time // of the forward call
		want    time.Time
		ran     string
	}{
		{"answered", nil, &hold{"a"}, forward, own, "ran"},
		{"unknown", nil, nil, forward, forward, ""},
		{"unknown, and younger", nil, nil, own.Add(time.Hour), own, ""},
		{"unknown, outside of a saga", nil, nil, time.Time{}, own, ""},
		{"a vendor's, answered", &retry.Profile{Headers: []string{wire.HeaderFirstSent}}, &hold{"a"}, forward, own, ""},
		{"a vendor's, unknown", &retry.Profile{Headers: []string{wire.HeaderFirstSent}}, nil, forward, own, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := sdktest.New(t, nil)
			c, err := sdk.New(sdk.Config{Services: map[string]sdk.Service{"inventory": {URL: d.URL(), Profile: tt.profile}}})
			require.NoError(t, err)
			ctx := wire.NewContext(parent(t, "p"), wire.Inbound{FirstSent: own, ForwardSent: tt.sent})
			require.NoError(t, sdk.CallUndo(ctx, c, reserve, contract.Undo[lines, hold]{Output: tt.output}))
			header := d.Requests()[0].Header
			require.Equal(t, wire.FormatFirstSent(tt.want), header.Get(wire.HeaderFirstSent))
			require.Equal(t, tt.ran, header.Get(wire.HeaderForward))
		})
	}
}

func TestCallUndo_refuses(t *testing.T) {
	t.Parallel()
	d := sdktest.New(t, nil)
	c := newClient(t, d)
	elsewhere := contract.Post[contract.Undo[lines, hold], struct{}]("payment", "release", "/x")
	err := sdk.CallUndo(parent(t, "p"), c, reserve.UndoneBy(elsewhere), contract.Undo[lines, hold]{})
	require.ErrorIs(t, err, contract.ErrInvalid)
	require.ErrorIs(t, err, retry.ErrNotSent)
	require.ErrorIs(t, sdk.CallUndo(t.Context(), c, reserve, contract.Undo[lines, hold]{}), sdk.ErrNoParent)
	err = sdk.CallUndo(parent(t, "p"), c, capture, contract.Undo[amount, charge]{})
	require.ErrorIs(t, err, sdk.ErrNoUndo)
	require.False(t, sdk.Resumable(err))
	require.Empty(t, d.Requests())
}
