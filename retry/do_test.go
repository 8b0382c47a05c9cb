package retry_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/retry"
)

var task = retry.Task{Service: "ledger", Operation: "post", Key: key}

func doFailure(t *testing.T, err error) *retry.Error {
	t.Helper()
	var failed *retry.Error
	require.ErrorAs(t, err, &failed)
	return failed
}

func TestDo_retriesUnderTheSamePolicy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		events := &recorder{}
		c := newClient(t, retry.Config{Rand: exact, MaxAttempts: 4, Observer: events, AttemptTimeout: time.Second})
		start := time.Now()
		var seen []retry.Attempt
		got, err := retry.Do(t.Context(), c, task, func(ctx context.Context, a retry.Attempt) (string, error) {
			seen = append(seen, a)
			switch a.Number {
			case 1:
				return "", errBroken
			case 2:
				<-ctx.Done()
				return "", ctx.Err()
			}
			return "posted", nil
		}, nil)
		require.NoError(t, err)
		require.Equal(t, "posted", got)
		require.Equal(t, 100*ms+time.Second+200*ms, time.Since(start))
		require.Equal(t, []retry.Attempt{{1, time.Second, true}, {2, time.Second, true}, {3, time.Second, true}}, seen)
		require.Len(t, events.attempts, 3)
		require.ErrorIs(t, events.attempts[1].Err, retry.ErrAttemptTimeout)
		require.Equal(t, retry.Completed, events.calls[0].Outcome)
	})
}

func TestDo_classify(t *testing.T) {
	t.Parallel()
	verdict := func(v retry.Verdict) func(int, error) retry.Verdict {
		return func(int, error) retry.Verdict { return v }
	}
	tests := []struct {
		name     string
		verdict  retry.Verdict
		err      error
		want     retry.Outcome
		attempts int
	}{
		{"rejected", retry.Verdict{Outcome: retry.Rejected}, errBroken, retry.Rejected, 1},
		{"rejected without an error", retry.Verdict{Outcome: retry.Rejected}, nil, retry.Rejected, 1},
		{"unknown", retry.Verdict{Action: retry.Retry}, errBroken, retry.Unknown, 4},
		{"not sent", retry.Verdict{Outcome: retry.NotSent, Action: retry.Retry}, errBroken, retry.NotSent, 4},
		{"completed without an answer", retry.Verdict{Outcome: retry.Completed}, errBroken, retry.Completed, 1},
		{"waits", retry.Verdict{Action: retry.Wait}, errBroken, retry.Unknown, 4},
		{"no outcome that there is", retry.Verdict{Outcome: 9}, errBroken, retry.Unknown, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cfg := quick
			cfg.MaxPolls = 3
			got, err := retry.Do(t.Context(), newClient(t, cfg), task,
				func(context.Context, retry.Attempt) (int, error) { return 7, tt.err }, verdict(tt.verdict))
			failed := doFailure(t, err)
			require.Equal(t, tt.want, failed.Outcome)
			require.Equal(t, tt.attempts, failed.Attempts)
			require.Equal(t, 7, got)
			require.Error(t, failed.Err)
			if tt.err != nil {
				require.ErrorIs(t, err, tt.err)
			}
		})
	}
}

// A function that calls by another client, and returns its error, says what that one knows:
// how the last of its attempts ended is not how the call did.
func TestDo_errorOfAnotherClient(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		steps    []step
		want     retry.Outcome
		attempts int
	}{
		{"lost, then not connected", []step{fails(errBroken), fails(errDial)}, retry.Unknown, 2},
		{"not connected", []step{fails(errDial)}, retry.NotSent, 2},
		{"refused", []step{status(404)}, retry.Rejected, 1},
		{"not retryable", []step{status(503, wire.HeaderShouldRetry+": false")}, retry.Unknown, 1},
		{"done, and the answer is too long", []step{answer(200, strings.Repeat("x", 100))}, retry.Completed, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			inner := over(script(tt.steps...))
			inner.MaxAttempts, inner.MaxResponseBytes = 2, 10
			outer := quick
			outer.MaxAttempts = 2
			other := newClient(t, inner)
			_, err := retry.Do(t.Context(), newClient(t, outer), task, func(ctx context.Context, _ retry.Attempt) (int, error) {
				_, err := other.Send(ctx, post(stubURL))
				if err != nil {
					err = fmt.Errorf("charging: %w", err)
				}
				return 0, err
			}, nil)
			failed := doFailure(t, err)
			require.Equal(t, tt.want, failed.Outcome, "%v", failed)
			require.Equal(t, tt.attempts, failed.Attempts)
		})
	}
}

func TestDo_unkeyed(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		err      error
		attempts int
	}{{errBroken, 1}, {errDial, 4}} {
		_, err := retry.Do(t.Context(), newClient(t, quick), retry.Task{},
			func(context.Context, retry.Attempt) (int, error) { return 0, tt.err }, nil)
		require.Equal(t, tt.attempts, doFailure(t, err).Attempts)
	}
}

func TestDo_badInputAndContext(t *testing.T) {
	t.Parallel()
	c := newClient(t, quick)
	_, err := retry.Do[int](t.Context(), c, task, nil, nil)
	require.ErrorIs(t, err, retry.ErrInvalid)
	require.ErrorIs(t, err, retry.ErrNotSent)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = retry.Do(ctx, c, task, func(context.Context, retry.Attempt) (int, error) {
		return 0, errors.New("called")
	}, nil)
	require.ErrorIs(t, err, context.Canceled)
	require.Zero(t, doFailure(t, err).Attempts)
}

func TestDo_cancelDuringTheWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, retry.Config{Rand: exact})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(50*ms, cancel)
		_, err := retry.Do(ctx, c, task, func(context.Context, retry.Attempt) (int, error) { return 0, errBroken }, nil)
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, errBroken)
		require.Equal(t, retry.Unknown, doFailure(t, err).Outcome)
	})
}
