package retry_test

import (
	"bytes"
	"context"
	"io"
	"log"
	"log/slog"
	"os"
	"os/exec"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/retry"
)

var discardLog = log.New(io.Discard, "", 0)

// A recorder keeps events.
type recorder struct {
	mu       sync.Mutex
	attempts []retry.AttemptEvent
	calls    []retry.CallEvent
}

func (r *recorder) AttemptEnded(_ context.Context, e retry.AttemptEvent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.attempts = append(r.attempts, e)
}

func (r *recorder) CallEnded(_ context.Context, e retry.CallEvent) {
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
