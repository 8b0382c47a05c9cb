package sdk_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/sdk"
	"github.com/fanonce/fanonce/sdk/sdktest"
)

func TestCall_onceWhateverHappensOnTheWay(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		faults []sdktest.Fault
	}{
		{"nothing", nil},
		{"request lost", []sdktest.Fault{sdktest.DropRequest()}},
		{"answer lost", []sdktest.Fault{sdktest.DropResponse()}},
		{"answer cut off", []sdktest.Fault{sdktest.Truncate(3)}},
		{"delivered twice", []sdktest.Fault{sdktest.Duplicate()}},
		{"shed, then lost", []sdktest.Fault{sdktest.Status(503, ""), sdktest.DropResponse()}},
		{"in progress", []sdktest.Fault{sdktest.Problem(wire.InProgress), sdktest.Problem(wire.InProgress)}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := sdktest.New(t, answering(hold{"h-1"}))
			d.Script("/reservations", tt.faults...)
			ctx := parent(t, "p-1")

			got, err := sdk.Call(ctx, newClient(t, d), reserve, lines{[]string{"a"}})
			require.NoError(t, err)
			require.Equal(t, hold{"h-1"}, got)
			key := child(ctx, t, "inventory", "reserve")
			require.Equal(t, map[string]int{key.String(): 1}, d.Effects())
			for _, r := range d.Requests() {
				require.Equal(t, key.String(), r.Key)
				require.JSONEq(t, `{"SKUs":["a"]}`, string(r.Body))
				require.Equal(t, "application/json", r.Header.Get("Content-Type"))
				require.NotContains(t, fmt.Sprint(r.Path, r.Header, string(r.Body)), "p-1", "the parent key was forwarded")
			}
		})
	}
}

// The caller dies between its attempts; another process runs the same code.
func TestCall_sendsTheSameAfterARestart(t *testing.T) {
	t.Parallel()
	d := sdktest.New(t, answering(hold{"h-1"}))
	faults := make([]sdktest.Fault, 0, 8)
	for range 4 {
		faults = append(faults, sdktest.DropResponse())
	}
	d.Script("/reservations", faults...)

	_, err := sdk.Call(parent(t, "p-1"), newClient(t, d), reserve, lines{[]string{"a", "b"}})
	require.Equal(t, retry.Unknown, outcome(t, err))
	require.True(t, sdk.Resumable(err))

	d.Script("/reservations")
	got, err := sdk.Call(parent(t, "p-1"), newClient(t, d), reserve, lines{[]string{"a", "b"}}, sdk.Resumed())
	require.NoError(t, err)
	require.Equal(t, "h-1", got.ID)
	seen := d.Requests()
	for _, r := range seen {
		require.Equal(t, seen[0].Key, r.Key)
		require.Equal(t, seen[0].Body, r.Body)
	}
	require.Equal(t, map[string]int{seen[0].Key: 1}, d.Effects())
}

// The payload is not part of the key. The callee refuses another process that charges another
// amount, so the charge happens once.
func TestCall_changedPayloadKeepsItsKey(t *testing.T) {
	t.Parallel()
	d := sdktest.New(t, answering(charge{"c-1"}))
	_, err := sdk.Call(parent(t, "p"), newClient(t, d), pay, amount{500})
	require.NoError(t, err)
	_, err = sdk.Call(parent(t, "p"), newClient(t, d), pay, amount{501})
	require.ErrorIs(t, err, retry.ErrKeyReused)
	require.ErrorIs(t, err, retry.ErrRejected)
	require.False(t, sdk.Resumable(err), "neither a retry nor a new key is the remedy")
	require.Len(t, d.Requests(), 2)
	require.Equal(t, map[string]int{child(parent(t, "p"), t, "payment", "charge").String(): 1}, d.Effects())
}

// An answer of 401 is as final as any, but for the next run, which asks for
// other credentials.
func TestCall_unauthorizedIsResumable(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		status    int
		resumable bool
	}{{401, true}, {403, false}} {
		d := sdktest.New(t, answering(charge{}))
		d.Script("/charges", sdktest.Status(tt.status, ""))
		_, err := sdk.Call(parent(t, "p"), newClient(t, d), pay, amount{1})
		require.ErrorIs(t, err, retry.ErrRejected)
		require.Len(t, d.Requests(), 1)
		require.Equal(t, tt.resumable, sdk.Resumable(err), "status %d", tt.status)
	}
}

func TestCall_refusesBeforeAnythingIsSent(t *testing.T) {
	t.Parallel()
	d := sdktest.New(t, nil)
	c := newClient(t, d)
	call := func(ctx context.Context, options ...sdk.CallOption) error {
		_, err := sdk.Call(ctx, c, pay, amount{1}, options...)
		return err
	}
	used := parent(t, "used")
	require.NoError(t, call(used))
	require.NoError(t, call(used), "the same call again is no mistake")
	sent := len(d.Requests())
	p := func() context.Context { return parent(t, "p") }
	nan := contract.Post[float64, struct{}]("payment", "nan", "/nan")
	elsewhere := contract.Post[amount, charge]("shipping", "book", "/bookings")
	tests := []struct {
		name string
		got  error
		want error
	}{
		{"no parent", call(t.Context()), sdk.ErrNoParent},
		{"other payload", second(sdk.Call(used, c, pay, amount{2})), childkey.ErrDuplicateChild},
		{"other path", second(sdk.Call(used, c, contract.Post[amount, charge]("payment", "charge", "/other"), amount{1})), childkey.ErrDuplicateChild},
		{"unset wildcard", second(sdk.Call(p(), c, capture, amount{1})), contract.ErrInvalid},
		{"bad declaration", second(sdk.Call(p(), c, contract.Post[amount, charge]("a:b", "c", "/"), amount{1})), contract.ErrInvalid},
		{"unknown service", second(sdk.Call(p(), c, elsewhere, amount{1})), sdk.ErrNoService},
		{"no JSON", second(sdk.Call(p(), c, nan, math.NaN())), contract.ErrBody},
		{"too many discriminators", second(sdk.Call(p(), c, pay.For("1", "2", "3", "4", "5", "6", "7", "8", "9"), amount{1})), childkey.ErrTooMany},
		{"own key", call(p(), sdk.Header("idempotency-key", "x")), sdk.ErrRequest},
		{"own allowance", call(p(), sdk.Header(wire.HeaderRetryAllowance, "0")), sdk.ErrRequest},
		{"framing", call(p(), sdk.Header("Content-Length", "1")), sdk.ErrRequest},
		{"split header", call(p(), sdk.Header("X-A", "a\r\nX-B: b")), sdk.ErrRequest},
		{"header name", call(p(), sdk.Header("", "a")), sdk.ErrRequest},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			require.ErrorIs(t, tt.got, tt.want)
			require.ErrorIs(t, tt.got, retry.ErrNotSent)
			require.False(t, sdk.Resumable(tt.got), "running it again cannot help")
		})
	}
	require.Len(t, d.Requests(), sent, "something was sent")
}

func second[T any](_ T, err error) error { return err }

func TestSend_refusesBadRequests(t *testing.T) {
	t.Parallel()
	d := sdktest.New(t, nil)
	c := newClient(t, d)
	tests := []struct {
		name string
		req  sdk.Request
		want error
	}{
		{"nothing", sdk.Request{}, sdk.ErrNoService},
		{"no operation", sdk.Request{Service: "payment", Path: "/"}, childkey.ErrEmpty},
		{"no path", sdk.Request{Service: "payment", Operation: "o"}, sdk.ErrRequest},
		{"relative path", sdk.Request{Service: "payment", Operation: "o", Path: "x"}, sdk.ErrRequest},
		{"other host", sdk.Request{Service: "payment", Operation: "o", Path: "@evil/"}, sdk.ErrRequest},
		{"fragment", sdk.Request{Service: "payment", Operation: "o", Path: "/#x"}, sdk.ErrRequest},
		{"bad escape", sdk.Request{Service: "payment", Operation: "o", Path: "/%zz"}, sdk.ErrRequest},
		{"control character", sdk.Request{Service: "payment", Operation: "o", Path: "/a\nb"}, sdk.ErrRequest},
		{"method", sdk.Request{Service: "payment", Operation: "o", Path: "/", Method: "PO ST"}, sdk.ErrRequest},
		{"word of a forward call that nobody names", sdk.Request{Service: "payment", Operation: "o", Path: "/", Ran: true}, sdk.ErrRequest},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := c.Send(parent(t, "p"), tt.req)
			require.ErrorIs(t, err, tt.want)
			require.ErrorIs(t, err, retry.ErrNotSent)
		})
	}
	require.Empty(t, d.Requests())
}

func TestSend_untyped(t *testing.T) {
	t.Parallel()
	d := sdktest.New(t, answering("ok"))
	c, err := sdk.New(sdk.Config{Retry: quick, Services: map[string]sdk.Service{"s": {URL: d.URL() + "/v1/"}}})
	require.NoError(t, err)
	ctx := parent(t, "p")
	resp, err := c.Send(ctx, sdk.Request{
		Service: "s", Operation: "o", Discriminators: []string{"x"}, Method: http.MethodPatch,
		Path: "/things/a%2Fb?c=d", Body: []byte("<a/>"), ContentType: "application/xml",
	})
	require.NoError(t, err)
	require.Equal(t, `"ok"`, strings.TrimSpace(string(resp.Body)))
	got := d.Requests()[0]
	require.Equal(t, "/v1/things/a/b", got.Path)
	require.Equal(t, http.MethodPatch, got.Method)
	require.Equal(t, "application/xml", got.Header.Get("Content-Type"))
	require.Equal(t, child(ctx, t, "s", "o", "x").String(), got.Key)
}

func TestCall_undecodableAnswerIsCompleted(t *testing.T) {
	t.Parallel()
	for _, body := range []string{"", "<html>", `{"ID":`, `{"ID":1}`, `{"ID":"a"} x`} {
		t.Run(body, func(t *testing.T) {
			t.Parallel()
			d := sdktest.New(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body)) }))
			_, err := sdk.Call(parent(t, "p"), newClient(t, d), reserve, lines{})
			require.ErrorIs(t, err, retry.ErrCompleted)
			require.ErrorIs(t, err, contract.ErrBody)
			require.False(t, sdk.Resumable(err))
			require.Len(t, d.Requests(), 1)
		})
	}
}

func TestCall_ignoresMembersOfANewerCallee(t *testing.T) {
	t.Parallel()
	d := sdktest.New(t, answering(map[string]any{"ID": "h", "New": 1}))
	got, err := sdk.Call(parent(t, "p"), newClient(t, d), reserve, lines{})
	require.NoError(t, err)
	require.Equal(t, hold{"h"}, got)
}

func TestCall_emptyAnswerWhereNothingIsExpected(t *testing.T) {
	t.Parallel()
	d := sdktest.New(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	_, err := sdk.Call(parent(t, "p"), newClient(t, d), contract.Delete[struct{}, struct{}]("payment", "drop", "/x"), struct{}{})
	require.NoError(t, err)
}

// A DELETE without an input is sent without a body. A DELETE with an input is sent with its body,
// as is a POST.
func TestCall_deleteHasNoBody(t *testing.T) {
	t.Parallel()
	d := sdktest.New(t, nil)
	c, ctx := newClient(t, d), parent(t, "p")
	_, err := sdk.Call(ctx, c, contract.Delete[struct{}, struct{}]("payment", "drop", "/x"), struct{}{})
	require.NoError(t, err)
	_, err = sdk.Call(ctx, c, contract.Delete[amount, struct{}]("payment", "drop-part", "/x"), amount{1})
	require.NoError(t, err)
	_, err = sdk.Call(ctx, c, contract.Post[struct{}, struct{}]("payment", "poke", "/x"), struct{}{})
	require.NoError(t, err)
	seen := d.Requests()
	require.Empty(t, seen[0].Body)
	require.Empty(t, seen[0].Header.Values("Content-Type"))
	require.JSONEq(t, `{"Cents":1}`, string(seen[1].Body))
	require.Equal(t, "{}", string(seen[2].Body))
}

func TestCall_fillsThePath(t *testing.T) {
	t.Parallel()
	d := sdktest.New(t, answering(charge{"c"}))
	_, err := sdk.Call(parent(t, "p"), newClient(t, d), capture.At("id", "a/b"), amount{1})
	require.NoError(t, err)
	require.Equal(t, "/charges/a/b/capture", d.Requests()[0].Path)
}

func TestCall_rejectedSaysSo(t *testing.T) {
	t.Parallel()
	d := sdktest.New(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusPaymentRequired)
	}))
	_, err := sdk.Call(parent(t, "p"), newClient(t, d), pay, amount{1})
	require.ErrorIs(t, err, retry.ErrRejected)
	require.False(t, sdk.Resumable(err))
}

func TestService_headerFuncIsAskedOncePerCall(t *testing.T) {
	t.Parallel()
	type userKey struct{}
	d := sdktest.New(t, nil)
	d.Script("/charges", sdktest.Status(503, ""), sdktest.Status(503, ""))
	var asked atomic.Int32
	c, err := sdk.New(sdk.Config{Retry: quick, Services: map[string]sdk.Service{"payment": {
		URL: d.URL(), Header: http.Header{"X-Tenant": {"t-1"}},
		HeaderFunc: func(ctx context.Context, header http.Header) error {
			asked.Add(1)
			header.Set("Authorization", "Bearer "+ctx.Value(userKey{}).(string))
			return nil
		},
	}}})
	require.NoError(t, err)
	_, err = sdk.Call(context.WithValue(parent(t, "p"), userKey{}, "ada"), c, pay, amount{1}, sdk.Header("X-One", "1"))
	require.NoError(t, err)
	require.EqualValues(t, 1, asked.Load())
	require.Len(t, d.Requests(), 3)
	for _, r := range d.Requests() {
		require.Equal(t, "Bearer ada", r.Header.Get("Authorization"))
		require.Equal(t, "t-1", r.Header.Get("X-Tenant"))
		require.Equal(t, "1", r.Header.Get("X-One"))
	}
	// The next call of the same key asks again, and another token is not another payload.
	_, err = sdk.Call(context.WithValue(parent(t, "p"), userKey{}, "eve"), c, pay, amount{1})
	require.NoError(t, err)
	require.EqualValues(t, 2, asked.Load())
}

// A header that one call's hook or the transport adds is not in another call. Calls without their
// own headers still begin with the same headers.
func TestService_headersOfCallsAreApart(t *testing.T) {
	t.Parallel()
	type userKey struct{}
	policy := quick
	policy.Transport = roundTrip(func(req *http.Request) (*http.Response, error) {
		req.Header["X-Tenant"][0] = "changed" // as no transport may, and some do
		resp, err := http.DefaultTransport.RoundTrip(req)
		req.Header.Set("X-Signature", "changed")
		return resp, err
	})
	d := sdktest.New(t, answering(charge{}))
	c, err := sdk.New(sdk.Config{Retry: policy, Services: map[string]sdk.Service{"payment": {
		URL: d.URL(), Header: http.Header{"X-Tenant": {"t-1"}},
		HeaderFunc: func(ctx context.Context, header http.Header) error {
			if len(header) != 2 || header.Get("X-Tenant") != "t-1" || header.Get("Content-Type") != "application/json" {
				t.Errorf("begins with %v", header)
			}
			header.Set("X-User-"+ctx.Value(userKey{}).(string), "1")
			header["X-Tenant"][0] = "t-2"
			return nil
		},
	}}})
	require.NoError(t, err)
	var all sync.WaitGroup
	for _, user := range []string{"Ada", "Eve", "Ida"} {
		all.Go(func() {
			for range 20 {
				_, err := sdk.Call(context.WithValue(parent(t, "p-"+user), userKey{}, user), c, pay, amount{1})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	require.Len(t, d.Requests(), 60)
	for _, r := range d.Requests() {
		users := 0
		for name := range r.Header {
			if strings.HasPrefix(name, "X-User-") {
				users++
			}
		}
		require.Equal(t, 1, users, r.Header)
		require.Empty(t, r.Header.Get("X-Signature"))
	}
}

// A call that is refused here is heard of as any other is, once.
func TestCall_refusalsAreObserved(t *testing.T) {
	t.Parallel()
	var heard observer
	policy := quick
	policy.Observer = &heard
	c, err := sdk.New(sdk.Config{Retry: policy, Services: map[string]sdk.Service{"payment": {
		URL: "http://payment.test", Profile: &retry.Profile{Retention: time.Hour},
		HeaderFunc: func(context.Context, http.Header) error { return errors.New("no token") },
	}}})
	require.NoError(t, err)
	for _, tt := range []struct {
		name string
		call func(ctx context.Context) error
		want error
	}{
		{"a path without its value", func(ctx context.Context) error { return second(sdk.Call(ctx, c, capture, amount{1})) }, contract.ErrInvalid},
		{"HeaderFunc", func(ctx context.Context) error { return second(sdk.Call(ctx, c, pay, amount{1})) }, sdk.ErrHeaderFunc},
		{"too old", func(ctx context.Context) error {
			return second(sdk.Call(ctx, c, pay, amount{1}, sdk.FirstSent(time.Now().Add(-2*time.Hour))))
		}, retry.ErrKeyExpired},
		{"header", func(ctx context.Context) error {
			return second(sdk.Call(ctx, c, pay, amount{1}, sdk.Header("Idempotency-Key", "mine")))
		}, sdk.ErrRequest},
		{"undo of another service", func(ctx context.Context) error {
			elsewhere := contract.Post[contract.Undo[amount, charge], struct{}]("inventory", "refund", "/refunds")
			return sdk.CallUndo(ctx, c, pay.UndoneBy(elsewhere), contract.Undo[amount, charge]{})
		}, contract.ErrInvalid},
	} {
		heard.calls = nil
		err := tt.call(parent(t, "p"))
		require.ErrorIs(t, err, tt.want, tt.name)
		require.Len(t, heard.calls, 1, tt.name)
		require.Equal(t, err, heard.calls[0].Err, tt.name)
		require.Equal(t, "payment", heard.calls[0].Service, tt.name)
		require.Zero(t, heard.calls[0].Attempts, tt.name)
	}
}

// An observer keeps the ends of calls.
type observer struct{ calls []retry.Event }

func (*observer) CallStarted(ctx context.Context, _ retry.Event) context.Context    { return ctx }
func (*observer) AttemptStarted(ctx context.Context, _ retry.Event) context.Context { return ctx }
func (*observer) AttemptEnded(context.Context, retry.Event)                         {}
func (o *observer) CallEnded(_ context.Context, e retry.Event)                      { o.calls = append(o.calls, e) }

func TestHeader_spelledTwice(t *testing.T) {
	t.Parallel()
	d := sdktest.New(t, nil)
	c, err := sdk.New(sdk.Config{Services: map[string]sdk.Service{"payment": {
		URL: d.URL(), Header: http.Header{"X-Tenant": {"replaced"}},
	}}})
	require.NoError(t, err)
	for range 8 { // maps are read in another order each time
		_, err = sdk.Call(parent(t, "p"), c, pay, amount{1}, sdk.Header("x-tenant", "a"), sdk.Header("X-Tenant", "b"))
		require.NoError(t, err)
	}
	for _, r := range d.Requests() {
		require.Equal(t, []string{"b", "a"}, r.Header.Values("X-Tenant"))
	}
}

func TestService_headerFuncErrors(t *testing.T) {
	t.Parallel()
	d := sdktest.New(t, nil)
	expired := errors.New("token expired")
	tests := []struct {
		name       string
		headerFunc func(context.Context, http.Header) error
		want       error
	}{
		{"error", func(context.Context, http.Header) error { return expired }, expired},
		{"sets the key", func(_ context.Context, h http.Header) error { h.Set(wire.HeaderKey, "mine"); return nil }, sdk.ErrRequest},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c, err := sdk.New(sdk.Config{Services: map[string]sdk.Service{"payment": {URL: d.URL(), HeaderFunc: tt.headerFunc}}})
			require.NoError(t, err)
			_, err = sdk.Call(parent(t, "p"), c, pay, amount{1})
			require.ErrorIs(t, err, tt.want)
			require.ErrorIs(t, err, retry.ErrNotSent)
		})
	}
	require.Empty(t, d.Requests())
}

func TestCall_firstSentComesFromTheParentsClaim(t *testing.T) {
	t.Parallel()
	d := sdktest.New(t, answering(charge{}))
	c := newClient(t, d)
	claimed := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	ctx := wire.NewContext(parent(t, "p"), wire.Inbound{FirstSent: claimed})
	_, err := sdk.Call(ctx, c, pay, amount{1})
	require.NoError(t, err)
	_, err = sdk.Call(ctx, c, pay.For("own"), amount{1}, sdk.FirstSent(claimed.Add(time.Hour)))
	require.NoError(t, err)
	_, err = sdk.Call(parent(t, "q"), c, pay, amount{1})
	require.NoError(t, err)
	seen := d.Requests()
	for i, want := range []time.Time{claimed, claimed.Add(time.Hour), {}} {
		got, _, err := wire.ParseFirstSent(seen[i].Header.Values(wire.HeaderFirstSent))
		require.NoError(t, err)
		require.True(t, got.Equal(want), "first sent %v, want %v", got, want)
	}
}

// A call may have limits of its own.
func TestCall_limits(t *testing.T) {
	t.Parallel()
	d := sdktest.New(t, answering(hold{"h-1"}))
	d.Script("/reservations", sdktest.Status(503, ""), sdktest.Status(503, ""), sdktest.Status(503, ""))
	c, ctx := newClient(t, d), parent(t, "p-1")
	_, err := sdk.Call(ctx, c, reserve, lines{[]string{"a"}}, sdk.Limits(retry.Limits{Timeout: -1}))
	require.ErrorIs(t, err, retry.ErrInvalid)
	require.ErrorIs(t, err, retry.ErrNotSent)
	for _, attempts := range []int{1, 2} {
		_, err := sdk.Call(ctx, c, reserve, lines{[]string{"a"}}, sdk.Limits(retry.Limits{MaxAttempts: attempts}))
		var failed *retry.Error
		require.ErrorAs(t, err, &failed)
		require.Equal(t, attempts, failed.Attempts)
	}
	_, err = sdk.Call(ctx, c, reserve, lines{[]string{"a"}})
	require.NoError(t, err)
}
