package retry_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/retry"
)

var discardLog = log.New(io.Discard, "", 0)

// A recorder keeps the ends of attempts and calls.
type recorder struct {
	mu              sync.Mutex
	attempts, calls []retry.Event
}

func (*recorder) CallStarted(ctx context.Context, _ retry.Event) context.Context    { return ctx }
func (*recorder) AttemptStarted(ctx context.Context, _ retry.Event) context.Context { return ctx }

func (r *recorder) AttemptEnded(_ context.Context, e retry.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.attempts = append(r.attempts, e)
}

func (r *recorder) CallEnded(_ context.Context, e retry.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, e)
}

func TestObserver_hearsAttemptsAndCalls(t *testing.T) {
	t.Parallel()
	events := &recorder{}
	cfg := over(script(fails(errBroken), problem(wire.InProgress), answer(201, "", wire.HeaderReplayed+": true")))
	cfg.Observer = events
	client := newClient(t, cfg)
	_, err := client.Send(t.Context(), post(stubURL))
	require.NoError(t, err)
	require.Len(t, events.attempts, 3)
	for i, want := range []struct {
		action retry.Action
		status int
		code   wire.Code
		failed bool
	}{{retry.Retry, 0, "", true}, {retry.Wait, 409, wire.InProgress, true}, {retry.Stop, 201, "", false}} {
		got := events.attempts[i]
		require.Equal(t, want.action, got.Action)
		require.Equal(t, want.status, got.Status)
		require.Equal(t, want.code, got.Code)
		require.Equal(t, want.failed, got.Err != nil)
		require.Equal(t, i+1, got.Number)
		require.Equal(t, i+1, got.Attempts)
		require.Equal(t, 1, got.Deliveries)
		require.Equal(t, want.failed, got.Wait > 0)
		require.Equal(t, "payment.charge", got.Service+"."+got.Operation)
		require.Equal(t, key, got.Key)
	}
	require.Len(t, events.calls, 1)
	got := events.calls[0]
	require.Equal(t, retry.Completed, got.Outcome)
	require.True(t, got.Replayed)
	require.Equal(t, 3, got.Attempts)
	require.NoError(t, got.Err)

	bad := post("ftp://payment.test")
	failure(t, client, bad)
	require.Len(t, events.calls, 2, "also of a call that was never sent")
	require.Equal(t, retry.NotSent, events.calls[1].Outcome)
}

// Neither log nor error may show a key, a body or a URL.
func TestLogger_showsDigestsOnly(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	cfg := over(script(fails(errBroken), problem(wire.KeyReused)))
	cfg.Logger = slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
	call := post("http://payment.test/charges?token=url-secret")
	call.Key, call.Body = mustKey("key-secret-1"), []byte("body-secret")
	failed := failure(t, newClient(t, cfg), call)
	for _, text := range []string{out.String(), failed.Error()} {
		require.NotContains(t, text, "secret")
		require.Contains(t, text, call.Key.Digest())
	}
	require.Contains(t, out.String(), `"level":"DEBUG"`)
	require.Contains(t, out.String(), `"level":"ERROR"`) // a reused key is an alarm
	require.Contains(t, failed.Error(), "payment.charge: Rejected after 2 attempts")
	require.ErrorIs(t, failed, retry.ErrKeyReused)
}

// A client that was given no logger writes nowhere, not even to standard error,
// as go-retryablehttp does by default: the URL may hold a secret.
func TestLogger_nilIsSilent(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestSend_notRetryableStops$", "-test.v").CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "--- PASS: TestSend_notRetryableStops")
	require.NotContains(t, string(out), "payment.test")
	require.NotContains(t, string(out), key.String())
}

type spanKey struct{}

func spanOf(ctx context.Context) string {
	span, _ := ctx.Value(spanKey{}).(string)
	return span
}

// A tracer opens spans, and notes in which one everything happens.
type tracer struct {
	mu  sync.Mutex
	log []string
}

func (t *tracer) note(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.log = append(t.log, fmt.Sprintf(format, args...))
}

func (t *tracer) CallStarted(ctx context.Context, e retry.Event) context.Context {
	t.note("call of %s.%s in %s", e.Service, e.Operation, spanOf(ctx))
	return context.WithValue(ctx, spanKey{}, "call")
}

func (t *tracer) AttemptStarted(ctx context.Context, e retry.Event) context.Context {
	t.note("attempt %d, caller retries: %v, in %s", e.Number, e.CallerRetries, spanOf(ctx))
	return context.WithValue(ctx, spanKey{}, fmt.Sprintf("attempt %d", e.Number))
}

func (t *tracer) AttemptEnded(ctx context.Context, e retry.Event) {
	t.note("attempt ended with %d in %s", e.Status, spanOf(ctx))
}

func (t *tracer) CallEnded(ctx context.Context, e retry.Event) {
	t.note("call ended %v in %s", e.Outcome, spanOf(ctx))
}

func TestObserver_opensSpans(t *testing.T) {
	t.Parallel()
	tr := &tracer{}
	rt := script(status(503), status(200))
	cfg := over(rt)
	cfg.Observer = tr
	cfg.Prepare = func(_ int, r *http.Request) error {
		r.Header.Set("Traceparent", spanOf(r.Context()))
		return nil
	}
	_, err := newClient(t, cfg).Send(context.WithValue(t.Context(), spanKey{}, "root"), post(stubURL))
	require.NoError(t, err)
	require.Equal(t, []string{
		"call of payment.charge in root",
		"attempt 1, caller retries: true, in call", "attempt ended with 503 in attempt 1",
		"attempt 2, caller retries: true, in call", "attempt ended with 200 in attempt 2",
		"call ended Completed in call",
	}, tr.log)
	require.Equal(t, "attempt 1 attempt 2", rt.header("Traceparent"))
	require.Equal(t, "attempt 2", spanOf(rt.requests[1].Context()), "for a transport that traces by itself")
}

// A call that is never sent begins and ends all the same.
func TestObserver_invalidCall(t *testing.T) {
	t.Parallel()
	tr := &tracer{}
	cfg := over(script(status(200)))
	cfg.Observer = tr
	failure(t, newClient(t, cfg), retry.Call{Service: "payment", Operation: "charge"})
	require.Equal(t, []string{"call of payment.charge in ", "call ended NotSent in call"}, tr.log)
}

func TestObserver_do(t *testing.T) {
	t.Parallel()
	tr := &tracer{}
	cfg := quick
	cfg.Observer = tr
	var spans []string
	_, err := retry.Do(t.Context(), newClient(t, cfg), retry.Task{Service: "queue", Operation: "publish", Key: key},
		func(ctx context.Context, a retry.Attempt) (int, error) {
			spans = append(spans, spanOf(ctx))
			if a.Number == 1 {
				return 0, errBroken
			}
			return 0, nil
		}, nil)
	require.NoError(t, err)
	require.Equal(t, []string{"attempt 1", "attempt 2"}, spans)
	require.Equal(t, "call ended Completed in call", tr.log[len(tr.log)-1])
}

// An observer beside a logger gets the same events.
func TestObserver_besideLogger(t *testing.T) {
	t.Parallel()
	tr := &tracer{}
	cfg := over(script(status(200)))
	cfg.Observer, cfg.Logger = tr, slog.New(slog.DiscardHandler)
	_, err := newClient(t, cfg).Send(t.Context(), post(stubURL))
	require.NoError(t, err)
	require.Equal(t, "call ended Completed in call", tr.log[len(tr.log)-1])
}

// The events of an attempt say where it goes. A user, a query and a fragment may be secrets, and are not shown.
func TestObserver_target(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		url, host string
		want      retry.Target
	}{
		{"http://payment.test/charges?card=4242", "", retry.Target{Address: "payment.test", Port: 80, URL: "http://payment.test/charges"}},
		{"https://ann:secret@payment.test/a%2Fb", "", retry.Target{Address: "payment.test", Port: 443, URL: "https://payment.test/a%2Fb"}},
		{"http://[::1]:8080", "", retry.Target{Address: "::1", Port: 8080, URL: "http://[::1]:8080"}},
		{"http://10.0.0.7:8080/charges", "payment.test", retry.Target{Address: "payment.test", Port: 80, URL: "http://10.0.0.7:8080/charges"}},
	} {
		tt.want.Method = http.MethodPost
		for _, keyed := range []bool{true, false} { // a call, and a request that passes
			events := &recorder{}
			cfg := over(script(answer(200, "")))
			cfg.Observer = events
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, tt.url, http.NoBody)
			require.NoError(t, err)
			r.Host = tt.host
			if keyed {
				r.Header.Set(wire.HeaderKey, `"k"`)
			}
			resp, err := newClient(t, cfg).RoundTripper().RoundTrip(r)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.Equal(t, tt.want, events.attempts[0].Target, tt.url)
			require.Equal(t, tt.want, events.calls[0].Target, tt.url)
			require.Empty(t, events.attempts[0].RPCStatus)
		}
	}
}

// An rpcTransport says what its requests stand for.
type rpcTransport struct{ http.RoundTripper }

func (rpcTransport) Target(req *http.Request) retry.Target {
	return retry.Target{System: "thrift", Method: req.URL.Path, Address: req.Header.Get("Shard")}
}

func (rpcTransport) RPCStatus(to retry.Target, a retry.Answer) string {
	return fmt.Sprint(to.System, " ", a.Status)
}

func TestObserver_rpcTransport(t *testing.T) {
	t.Parallel()
	events := &recorder{}
	cfg := over(script(fails(errBroken), answer(200, "")))
	cfg.Observer, cfg.Transport = events, rpcTransport{cfg.Transport}
	call := post("http://rpc.invalid/Charge")
	call.Header = http.Header{"Shard": {"eu"}}
	_, err := newClient(t, cfg).Send(t.Context(), call)
	require.NoError(t, err)
	want := retry.Target{System: "thrift", Method: "/Charge", Address: "eu"}
	require.Len(t, events.attempts, 2)
	for i, status := range []string{"", "thrift 200"} {
		require.Equal(t, want, events.attempts[i].Target)
		require.Equal(t, status, events.attempts[i].RPCStatus)
	}
	require.Equal(t, "thrift 200", events.calls[0].RPCStatus)
	require.Equal(t, want, events.calls[0].Target)
}
