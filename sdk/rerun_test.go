package sdk_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/sdk"
	"github.com/fanonce/fanonce/sdk/sdktest"
)

// An earlier run of the handler may have made the call: that a gateway refuses it
// now proves nothing.
func TestCall_inARerun(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		rerun bool
		want  retry.Outcome
	}{
		{"the first run", false, retry.Rejected},
		{"a rerun", true, retry.Unknown},
	}
	for _, tt := range tests {
		d := sdktest.New(t, nil)
		refused := sdktest.Status(http.StatusForbidden, "") // without a guard's mark: a rerun asks again
		d.Script("/charges", refused, refused, refused, refused)
		ctx := wire.NewContext(parent(t, "p"), wire.Inbound{Rerun: tt.rerun})
		_, err := sdk.Call(ctx, newClient(t, d), pay, amount{1})
		require.Equal(t, tt.want, outcome(t, err), tt.name)
	}
}

// In a rerun, an earlier run of a branch's function may have taken another path. A refusal is inferred in the first
// run only; one that the function states counts in each.
func TestFanout_refusedFunctionInARerun(t *testing.T) {
	t.Parallel()
	for _, rerun := range []bool{false, true} {
		d := sdktest.New(t, nil)
		d.Script("/charges", slices.Repeat([]sdktest.Fault{
			sdktest.Answer(http.StatusPaymentRequired, http.Header{wire.HeaderReplayed: {"false"}}, ""),
		}, 3)...)
		d.Script("/items", sdktest.Status(http.StatusNotFound, ""))
		ctx := wire.NewContext(parent(t, "p"), wire.Inbound{Rerun: rerun})
		c := newClient(t, d)
		payFor := func(ctx context.Context, supplier string) (struct{}, error) {
			_, err := sdk.Call(ctx, c, pay.For(supplier), amount{1})
			return struct{}{}, err
		}
		f := c.Fanout(ctx)
		sdk.AddFunc(f, "inferred", func(ctx context.Context) (struct{}, error) { return payFor(ctx, "a") })
		sdk.AddFunc(f, "of a read", func(ctx context.Context) (struct{}, error) {
			_, err := c.Send(ctx, sdk.Request{Service: "payment", Operation: "look", Method: http.MethodGet, Path: "/items"})
			return struct{}{}, err
		})
		sdk.AddFunc(f, "stated", func(ctx context.Context) (struct{}, error) {
			_, err := payFor(ctx, "b")
			return struct{}{}, fmt.Errorf("pay: %w", sdk.Rejected(err))
		})
		sdk.AddFunc(f, "joined", func(ctx context.Context) (struct{}, error) {
			_, err := payFor(ctx, "c")
			return struct{}{}, errors.Join(sdk.Rejected(err), err)
		})
		require.Error(t, f.Wait())
		inferred := retry.Rejected
		if rerun {
			inferred = retry.Unknown
		}
		results := f.Results()
		require.Equal(t, retry.Rejected, results["stated"].Outcome, "rerun %v", rerun)
		for _, name := range []string{"inferred", "of a read", "joined"} {
			require.Equal(t, inferred, results[name].Outcome, "%s, rerun %v", name, rerun)
		}
	}
}

// What a function states keeps the callee's answer, but no code that speaks for one call.
func TestRejected(t *testing.T) {
	t.Parallel()
	require.NoError(t, sdk.Rejected(nil))
	cause := &retry.Error{Outcome: retry.Unknown, Status: 402, Code: "card_declined", Detail: "no", Body: []byte(`{}`)}
	var e *retry.Error
	require.ErrorAs(t, sdk.Rejected(fmt.Errorf("pay: %w", cause)), &e)
	require.Equal(t, retry.Rejected, e.Outcome)
	require.Equal(t, []any{402, cause.Code, "no", cause.Body}, []any{e.Status, e.Code, e.Detail, e.Body})
	require.False(t, sdk.Resumable(e))
	require.ErrorAs(t, sdk.Rejected(&retry.Error{Code: wire.KeyReused}), &e)
	require.Empty(t, e.Code)
	var none *retry.Error
	require.ErrorIs(t, sdk.Rejected(none), retry.ErrRejected)
}
