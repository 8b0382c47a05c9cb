package sdk_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/sdk"
	"github.com/fanonce/fanonce/sdk/sdktest"
)

// undos returns the undos that arrived, in their order: path and body.
func undos(d *sdktest.Downstream) (seen []string) {
	for _, r := range d.Requests() {
		if r.Header.Get(wire.HeaderCancels) != "" {
			seen = append(seen, r.Path+" "+string(r.Body))
		}
	}
	return seen
}

// What took effect is undone with its output, what may have without one, and what was refused or not sent is left alone.
func TestUndo_byOutcome(t *testing.T) {
	t.Parallel()
	lost := sdktest.DropResponse()
	d := sdktest.New(t, answering(hold{"7"}))
	c := newClient(t, d)
	ctx := parent(t, "p")
	f := c.Fanout(ctx)
	sdk.Add(f, reserve.For("done"), lines{[]string{"done"}})
	require.NoError(t, f.Wait())
	require.NoError(t, f.Undo(ctx))
	require.Equal(t, []string{`/reservations/release {"input":{"SKUs":["done"]},"output":{"ID":"7"}}`}, undos(d))

	d.Script("/reservations", lost, lost, lost, lost)
	f = c.Fanout(ctx)
	sdk.Add(f, reserve.For("lost"), lines{[]string{"lost"}})
	require.ErrorIs(t, f.Wait(), retry.ErrUnknown)
	require.NoError(t, f.Undo(ctx))
	require.Equal(t, `/reservations/release {"input":{"SKUs":["lost"]}}`, undos(d)[1])

	d.Script("/charges", sdktest.Status(402, "{}"))
	f = c.Fanout(ctx)
	sdk.Add(f, pay, amount{1})
	require.ErrorIs(t, f.Wait(), retry.ErrRejected)
	require.NoError(t, f.Undo(ctx))
	require.Len(t, undos(d), 2)

	f = c.Fanout(ctx)
	sdk.Add(f, reserve.For("planned"), lines{})
	sdk.Add(f, reserve.For("planned"), lines{})
	require.ErrorIs(t, f.Wait(), childkey.ErrDuplicateChild)
	require.NoError(t, f.Undo(ctx), "nothing of a bad plan was sent")
	require.Len(t, undos(d), 2)
}

// The input that is undone is the one that was sent, whatever happened behind its pointers.
func TestUndo_inputThatWasSent(t *testing.T) {
	t.Parallel()
	d := sdktest.New(t, answering(hold{"7"}))
	ctx := parent(t, "p")
	f := newClient(t, d).Fanout(ctx)
	skus := []string{"tea"}
	sdk.Add(f, reserve, lines{skus})
	skus[0] = "coffee"
	require.NoError(t, f.Wait())
	skus[0] = "milk"
	require.NoError(t, f.Undo(ctx))
	require.Equal(t, []string{`/reservations/release {"input":{"SKUs":["tea"]},"output":{"ID":"7"}}`}, undos(d))
}

// The calls of functions are undone too, each before what it depends on.
func TestUndo_orderOfDependencies(t *testing.T) {
	t.Parallel()
	d := sdktest.New(t, answering(hold{"7"}))
	c := newClient(t, d)
	ctx := parent(t, "p")
	f := c.Fanout(ctx)
	first := sdk.Add(f, reserve.For("first"), lines{})
	sdk.AddFunc(f, "second", func(ctx context.Context) (hold, error) {
		if _, err := first.Get(ctx); err != nil {
			return hold{}, err
		}
		inner := c.Fanout(ctx)
		sdk.Add(inner, reserve.For("second"), lines{})
		if err := inner.Wait(); err != nil {
			return hold{}, err
		}
		return sdk.Call(ctx, c, reserve.For("third"), lines{})
	})
	require.NoError(t, f.Wait())
	require.NoError(t, f.Undo(ctx))
	var order []string
	for _, r := range d.Requests() {
		for _, name := range []string{"first", "second", "third"} {
			if r.Header.Get(wire.HeaderCancels) == child(ctx, t, "inventory", "reserve", name).Quoted() {
				order = append(order, name)
			}
		}
	}
	require.Equal(t, []string{"third", "second", "first"}, order)
}

// An undo that fails leaves alone what the call depended on, so that the next run still finds it. The error names both.
func TestUndo_stopsBeforeWhatItDependsOn(t *testing.T) {
	t.Parallel()
	d := sdktest.New(t, answering(hold{"7"}))
	c := newClient(t, d)
	ctx := parent(t, "p")
	f := c.Fanout(ctx)
	sdk.Add(f, reserve, lines{})
	f.Start()
	for len(f.Results()) == 0 {
		_ = f.Results()
	}
	sdk.Add(f, pay, amount{1})
	require.NoError(t, f.Wait())

	down := sdktest.Status(http.StatusServiceUnavailable, "")
	d.Script("/refunds", down, down, down, down)
	err := f.Undo(ctx)
	var failed *sdk.FanoutError
	require.ErrorAs(t, err, &failed)
	require.True(t, sdk.Resumable(err))
	require.Len(t, failed.Results, 2)
	require.Equal(t, "payment.refund", failed.Results[0].Name)
	require.Equal(t, retry.NotSent, failed.Results[1].Outcome)
	require.Contains(t, err.Error(), "undo of inventory.reserve: NotSent")

	require.NoError(t, f.Undo(ctx), "once payment is back")
	require.True(t, strings.HasPrefix(undos(d)[len(undos(d))-1], "/reservations/release"))
	seen := len(d.Effects())
	require.NoError(t, f.Undo(ctx))
	require.Len(t, d.Effects(), seen, "the undos have no second effect")
}

// A call that nothing undoes is named. The others are undone nevertheless.
func TestUndo_operationWithoutOne(t *testing.T) {
	t.Parallel()
	d := sdktest.New(t, answering(hold{"7"}))
	ctx := parent(t, "p")
	f := newClient(t, d).Fanout(ctx)
	sdk.Add(f, reserve, lines{})
	sdk.Add(f, capture.At("id", "1"), amount{1})
	require.NoError(t, f.Wait())
	err := f.Undo(ctx)
	require.ErrorIs(t, err, sdk.ErrNoUndo)
	require.False(t, sdk.Resumable(err))
	require.Contains(t, err.Error(), "undo of payment.capture")
	require.Len(t, undos(d), 1)
}

// A request of a generated client names no undo either. One that was refused leaves nothing to undo.
func TestUndo_requestOfATransport(t *testing.T) {
	t.Parallel()
	d := sdktest.New(t, answering(hold{"7"}))
	d.Script("/refused", sdktest.Status(402, "{}"))
	ctx, c := parent(t, "p"), newClient(t, d)
	transport := &http.Client{Transport: c.RoundTripper("payment")}
	f := c.Fanout(ctx)
	sdk.Add(f, reserve, lines{})
	for _, path := range []string{"/taken", "/refused"} {
		sdk.AddFunc(f, path, func(ctx context.Context) (int, error) { return do(ctx, transport, "POST", d.URL()+path, "") })
	}
	require.NoError(t, f.Wait(), "a transport returns every answer")
	err := f.Undo(ctx)
	require.ErrorIs(t, err, sdk.ErrNoUndo)
	require.Contains(t, err.Error(), "undo of payment.POST[/taken]")
	require.NotContains(t, err.Error(), "/refused")
	require.Len(t, undos(d), 1)
}

// A fan-out that nobody started stands for the one of an earlier run.
func TestUndo_notStarted(t *testing.T) {
	t.Parallel()
	d := sdktest.New(t, answering(hold{"7"}))
	c := newClient(t, d)
	ctx := parent(t, "p")
	f := c.Fanout(ctx)
	held := sdk.Add(f, reserve, lines{[]string{"tea"}})
	down := sdktest.Status(http.StatusServiceUnavailable, "")
	d.Script("/reservations/release", down, down, down, down)
	require.Error(t, f.Undo(ctx))
	require.NoError(t, f.Undo(ctx), "it may be called again")
	_, err := held.Get(ctx)
	require.ErrorIs(t, err, sdk.ErrPlan)
	require.Equal(t, `/reservations/release {"input":{"SKUs":["tea"]}}`, undos(d)[len(undos(d))-1])
	for _, r := range d.Requests() {
		require.Equal(t, "/reservations/release", r.Path)
	}

	f = c.Fanout(ctx)
	sdk.Add(f, reserve.For("a"), lines{})
	sdk.AddFunc(f, "fn", func(context.Context) (int, error) { return 0, errors.New("it ran") })
	seen := len(d.Requests())
	require.ErrorIs(t, f.Undo(ctx), sdk.ErrBranch)
	require.Len(t, d.Requests(), seen)
}

func TestUndo_ctx(t *testing.T) {
	t.Parallel()
	d := sdktest.New(t, answering(hold{"7"}))
	c := newClient(t, d)
	ctx := parent(t, "p")
	short, cancel := context.WithCancel(ctx)
	f := c.Fanout(short)
	sdk.Add(f, reserve, lines{})
	require.NoError(t, f.Wait())
	cancel()
	require.ErrorIs(t, f.Undo(parent(t, "q")), sdk.ErrRequest)
	require.ErrorIs(t, f.Undo(t.Context()), sdk.ErrNoParent)
	require.True(t, sdk.Resumable(f.Undo(short)))
	require.NoError(t, f.Undo(ctx))
	require.Len(t, undos(d), 1)

	f = c.Fanout(short) // nothing of it begins
	sdk.Add(f, reserve.For("b"), lines{})
	require.ErrorIs(t, f.Wait(), retry.ErrNotSent)
	require.NoError(t, f.Undo(ctx))
	require.Len(t, undos(d), 1)
}

// The values of the path are those of the call that is undone.
func TestUndo_path(t *testing.T) {
	t.Parallel()
	void := contract.Post[contract.Undo[amount, charge], struct{}]("payment", "void", "/charges/{id}/void")
	d := sdktest.New(t, answering(charge{"7"}))
	ctx := parent(t, "p")
	f := newClient(t, d).Fanout(ctx)
	sdk.Add(f, capture.UndoneBy(void).At("id", "a/b").For("a/b"), amount{1})
	require.NoError(t, f.Wait())
	require.NoError(t, f.Undo(ctx))
	require.True(t, slices.ContainsFunc(undos(d), func(u string) bool { return strings.HasPrefix(u, "/charges/a/b/void ") }), undos(d))
}

// The reason for the customer is that of the branch that was refused, in the order of the branches, and never that of one
// that is only undone.
func TestRefusalOf(t *testing.T) {
	t.Parallel()
	cancelled := &retry.Error{Outcome: retry.Rejected, Status: 410, Code: wire.KeyCancelled, Err: retry.ErrKeyCancelled}
	busy := &retry.Error{Outcome: retry.Rejected, Status: 429, Retryable: true}
	declined := &retry.Error{Outcome: retry.Rejected, Status: 402, Code: "card-declined"}
	unknown := &retry.Error{Outcome: retry.Unknown, Status: 500}
	fan := func(errs ...error) error {
		e := new(sdk.FanoutError)
		for _, err := range errs {
			e.Results = append(e.Results, sdk.Result{Err: err})
		}
		return errors.Join(errors.New("checkout"), e)
	}
	for _, tt := range []struct {
		name string
		err  error
		want *retry.Error
	}{
		{"nil", nil, nil},
		{"plain", errors.New("x"), nil},
		{"one call", declined, declined},
		{"behind an undone one", fan(cancelled, nil, declined), declined},
		{"behind one that may be repeated", fan(busy, unknown, declined), declined},
		{"undone alone", fan(cancelled), nil},
		{"unknown", fan(unknown), nil},
	} {
		require.Equal(t, tt.want, sdk.RefusalOf(tt.err), tt.name)
	}
	var first *retry.Error
	require.ErrorAs(t, fan(cancelled, unknown, declined), &first)
	require.Equal(t, declined, first)
	require.ErrorIs(t, fan(cancelled, declined), retry.ErrKeyCancelled)
}

// An order of many lines is undone in about the time that it took.
func TestUndo_manyCalls(t *testing.T) {
	t.Parallel()
	d := sdktest.New(t, answering(hold{"7"}))
	ctx := parent(t, "p")
	f := newClient(t, d).Fanout(ctx)
	ids := make([]string, 1000)
	for i := range ids {
		ids[i] = fmt.Sprint("line-", i)
	}
	sdk.AddEach(f, reserve, ids, func(id string) string { return id }, func(id string) lines { return lines{[]string{id}} })
	require.NoError(t, f.Wait())
	require.NoError(t, f.Undo(ctx))
	require.Len(t, undos(d), len(ids))
}

// A call that may have taken effect stays one to undo, also if it is refused before it could be sent once more.
func TestUndo_refusedAfterUnknown(t *testing.T) {
	t.Parallel()
	d := sdktest.New(t, answering(hold{"7"}))
	c := newClient(t, d)
	lost := sdktest.DropResponse()
	d.Script("/reservations", lost, lost, lost, lost)
	ctx := parent(t, "p")
	f := c.Fanout(ctx)
	first := sdk.AddFunc(f, "first", func(ctx context.Context) (hold, error) { return sdk.Call(ctx, c, reserve, lines{}) })
	sdk.AddFunc(f, "same", func(ctx context.Context) (hold, error) {
		if _, err := first.Get(ctx); err == nil {
			t.Error("error = nil, want that of an unknown call")
		}
		return sdk.Call(ctx, c, reserve, lines{}) // refused: it is another branch's
	})
	require.Error(t, f.Wait())
	require.NoError(t, f.Undo(ctx))
	require.Len(t, undos(d), 1)
}
