package retry_test

import (
	"fmt"
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/retry"
)

// wantStatus is the table of statuses, written a second time: outcome, and
// whether the call is sent again.
func wantStatus(status int) (retry.Outcome, bool) {
	switch status {
	case 302, 303, 511:
		return retry.Unknown, false
	case 408, 460, 499:
		return retry.Unknown, true
	case 421, 425, 429:
		return retry.Rejected, true
	case 501, 505:
		return retry.Rejected, false
	}
	switch {
	case status == http.StatusLocked:
		return retry.Unknown, false
	case status >= 200 && status < 300:
		return retry.Completed, false
	case status >= 300 && status < 500:
		return retry.Rejected, false
	case status >= 100 && status < 200:
		return retry.Unknown, false
	default:
		return retry.Unknown, true
	}
}

func TestStatusVerdict_isTotal(t *testing.T) {
	t.Parallel()
	for _, status := range append([]int{-1, 0, 1, 99, 600, 601, 999, 1000}, between(100, 599)...) {
		v := retry.StatusVerdict(status)
		outcome, again := wantStatus(status)
		if got := v.Action == retry.Retry; v.Outcome != outcome || got != again || v.Action == retry.Wait {
			t.Errorf("StatusVerdict(%d) = %v %v, want %v again=%v", status, v.Outcome, v.Action, outcome, again)
		}
		if v.Evidence == "" || v.Proven {
			t.Errorf("StatusVerdict(%d) = %+v, want evidence and nothing proven", status, v)
		}
	}
}

func between(from, to int) (all []int) {
	for i := from; i <= to; i++ {
		all = append(all, i)
	}
	return all
}

// TestSend_everyStatus sends every status that a server can answer over the
// wire, and those that only a broken transport can.
func TestSend_everyStatus(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, p protocol) {
		srv, cfg := serve(t, p, func(w http.ResponseWriter, r *http.Request) {
			status, _ := strconv.Atoi(r.URL.Query().Get("status"))
			w.WriteHeader(status)
		})
		cfg.MaxAttempts = 2
		client := newClient(t, cfg)
		for _, status := range append(between(100, 599), 600, 999) {
			want := status
			if status < 200 && (status != http.StatusSwitchingProtocols || p == http2) {
				want = http.StatusOK // an interim answer, before that of a handler that says no more
			}
			checkStatus(t, client, fmt.Sprintf("%s/?status=%d", srv.URL, status), want)
		}
	})
	t.Run("stub", func(t *testing.T) {
		t.Parallel()
		for _, code := range []int{-1, 0, 99, 100, 101, 199, 600, 999, 1000} {
			cfg := over(script(status(code)))
			cfg.MaxAttempts = 2
			checkStatus(t, newClient(t, cfg), stubURL, code)
		}
	})
}

func checkStatus(t *testing.T, client *retry.Client, url string, status int) {
	t.Helper()
	outcome, again := wantStatus(status)
	if status == http.StatusConflict { // the call has a key
		outcome, again = retry.Unknown, true
	}
	attempts := 1
	if again {
		attempts = 2
	}
	call := post(url)
	call.Service = strconv.Itoa(status) // a budget of its own
	resp, err := client.Send(t.Context(), call)
	if outcome == retry.Completed {
		require.NoError(t, err, "status %d", status)
		require.Equal(t, status, resp.Status)
		require.Equal(t, 1, resp.Attempts)
		return
	}
	var failed *retry.Error
	require.ErrorAs(t, err, &failed, "status %d", status)
	require.Equal(t, outcome, failed.Outcome, "outcome of status %d", status)
	require.Equal(t, attempts, failed.Attempts, "attempts of status %d", status)
	require.Equal(t, status, failed.Status)
	require.Equal(t, again, failed.Retryable, "retryable, status %d", status)
}

func TestSend_everyCode(t *testing.T) {
	t.Parallel()
	rows := []struct {
		code    wire.Code
		outcome retry.Outcome
		action  retry.Action
	}{
		{wire.ScopeMissing, retry.Rejected, retry.Stop},
		{wire.ScopeUnavailable, retry.Rejected, retry.Retry},
		{wire.KeyMissing, retry.Rejected, retry.Stop},
		{wire.KeyInvalid, retry.Rejected, retry.Stop},
		{wire.FirstSentInvalid, retry.Rejected, retry.Stop},
		{wire.BodyIncomplete, retry.Rejected, retry.Retry},
		{wire.BodyTimeout, retry.Rejected, retry.Retry},
		{wire.KeyReused, retry.Rejected, retry.Stop},
		{wire.InProgress, retry.Unknown, retry.Wait},
		{wire.KeyExpired, retry.Unknown, retry.Stop},
		{wire.ResponseGone, retry.Completed, retry.Stop},
		{wire.KeyCancelled, retry.Rejected, retry.Stop},
		{wire.OutcomeUnknown, retry.Unknown, retry.Stop},
		{wire.LeaseLost, retry.Unknown, retry.Wait},
		{wire.BodyTooLarge, retry.Rejected, retry.Stop},
		{wire.NotStorable, retry.Unknown, retry.Stop},
		{wire.RecordUnreadable, retry.Unknown, retry.Stop},
		{wire.Poisoned, retry.Unknown, retry.Stop},
		{wire.TransactionFailed, retry.Unknown, retry.Stop},
		{wire.NotClaimed, retry.Rejected, retry.Retry},
		{wire.StoreUnavailable, retry.Unknown, retry.Retry},
		{wire.KeyNotFound, retry.Unknown, retry.Stop},
		{wire.MethodNotAllowed, retry.Rejected, retry.Stop},
	}
	require.Len(t, rows, len(wire.Situations()), "every code has a row")
	for _, row := range rows {
		t.Run(string(row.code), func(t *testing.T) {
			t.Parallel()
			overEach(t, func(t *testing.T, p protocol) { checkCode(t, p, row.code, row.outcome, row.action) })
		})
	}
}

func checkCode(t *testing.T, p protocol, code wire.Code, outcome retry.Outcome, action retry.Action) {
	t.Helper()
	var hits atomic.Int32
	srv, cfg := serve(t, p, func(w http.ResponseWriter, r *http.Request) {
		drain(r)
		hits.Add(1)
		writeProblem(w, code)
	})
	cfg.MaxAttempts, cfg.MaxPolls = 2, 3
	failed := failure(t, newClient(t, cfg), post(srv.URL))
	require.Equal(t, outcome, failed.Outcome)
	require.Equal(t, code, failed.Code)
	want := map[retry.Action]int{retry.Stop: 1, retry.Retry: 2, retry.Wait: 4}[action]
	require.Equal(t, want, failed.Attempts)
	require.EqualValues(t, want, hits.Load())
	v, ok := retry.CodeVerdict(code)
	require.True(t, ok)
	require.Equal(t, action, v.Action)
}

func TestCodeVerdict_knowsOnlyItsOwn(t *testing.T) {
	t.Parallel()
	_, ok := retry.CodeVerdict("teapot")
	require.False(t, ok)
}

func TestGRPCVerdict_isTotal(t *testing.T) {
	t.Parallel()
	rows := []struct {
		name    string
		outcome retry.Outcome
		action  retry.Action
	}{
		{"OK", retry.Completed, retry.Stop},
		{"CANCELLED", retry.Unknown, retry.Stop},
		{"UNKNOWN", retry.Unknown, retry.Retry},
		{"INVALID_ARGUMENT", retry.Rejected, retry.Stop},
		{"DEADLINE_EXCEEDED", retry.Unknown, retry.Retry},
		{"NOT_FOUND", retry.Rejected, retry.Stop},
		{"ALREADY_EXISTS", retry.Rejected, retry.Stop},
		{"PERMISSION_DENIED", retry.Rejected, retry.Stop},
		{"RESOURCE_EXHAUSTED", retry.Rejected, retry.Stop},
		{"FAILED_PRECONDITION", retry.Rejected, retry.Stop},
		{"ABORTED", retry.Unknown, retry.Stop},
		{"OUT_OF_RANGE", retry.Rejected, retry.Stop},
		{"UNIMPLEMENTED", retry.Rejected, retry.Stop},
		{"INTERNAL", retry.Unknown, retry.Retry},
		{"UNAVAILABLE", retry.Unknown, retry.Retry},
		{"DATA_LOSS", retry.Unknown, retry.Stop},
		{"UNAUTHENTICATED", retry.Rejected, retry.Stop},
		{"", retry.Unknown, retry.Stop},
		{"unavailable", retry.Unknown, retry.Stop}, // names are upper case
	}
	for _, row := range rows {
		v := retry.GRPCVerdict(row.name, false, 0, nil)
		if v.Outcome != row.outcome || v.Action != row.action || v.Proven || v.Evidence == "" {
			t.Errorf("GRPCVerdict(%q) = %+v, want %v %v", row.name, v, row.outcome, row.action)
		}
	}
}
