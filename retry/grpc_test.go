package retry_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/retry"
)

// A grpcStatus is the end of a gRPC call, as grpc-go tells it.
type grpcStatus struct {
	Code      string
	NotSent   bool
	RetryInfo time.Duration
	Pushback  *time.Duration
}

// A grpcError stands for an error of grpc-go's status package.
type grpcError struct{ grpcStatus }

func (e *grpcError) Error() string { return e.Code }

func classifyGRPC(_ int, err error) retry.Verdict {
	var failed *grpcError
	if !errors.As(err, &failed) {
		return retry.Classify(0, err)
	}
	return retry.GRPCVerdict(failed.Code, failed.NotSent, failed.RetryInfo, failed.Pushback)
}

// Row by row: what a call comes to that always ends so, and how often it is made.
func TestDo_everyGRPCStatus(t *testing.T) {
	t.Parallel()
	after := func(d time.Duration) *time.Duration { return &d }
	tests := []struct {
		name   string
		status grpcStatus
		want   retry.Outcome
		made   int
		waits  time.Duration // before the second attempt at least; 0: as by the backoff
	}{
		{"cancelled", grpcStatus{Code: "CANCELLED"}, retry.Unknown, 1, 0},
		{"unknown", grpcStatus{Code: "UNKNOWN"}, retry.Unknown, 4, 0},
		{"invalid argument", grpcStatus{Code: "INVALID_ARGUMENT"}, retry.Rejected, 1, 0},
		{"deadline of the attempt", grpcStatus{Code: "DEADLINE_EXCEEDED"}, retry.Unknown, 4, 0},
		{"not found", grpcStatus{Code: "NOT_FOUND"}, retry.Rejected, 1, 0},
		{"already exists", grpcStatus{Code: "ALREADY_EXISTS"}, retry.Rejected, 1, 0},
		{"permission denied", grpcStatus{Code: "PERMISSION_DENIED"}, retry.Rejected, 1, 0},
		{"failed precondition", grpcStatus{Code: "FAILED_PRECONDITION"}, retry.Rejected, 1, 0},
		{"aborted without a reason", grpcStatus{Code: "ABORTED"}, retry.Unknown, 1, 0},
		{"out of range", grpcStatus{Code: "OUT_OF_RANGE"}, retry.Rejected, 1, 0},
		{"unimplemented", grpcStatus{Code: "UNIMPLEMENTED"}, retry.Rejected, 1, 0},
		{"internal", grpcStatus{Code: "INTERNAL"}, retry.Unknown, 4, 0},
		{"data loss", grpcStatus{Code: "DATA_LOSS"}, retry.Unknown, 1, 0},
		{"unauthenticated", grpcStatus{Code: "UNAUTHENTICATED"}, retry.Rejected, 1, 0},
		{"unheard of", grpcStatus{Code: "TEAPOT"}, retry.Unknown, 1, 0},
		{"unavailable", grpcStatus{Code: "UNAVAILABLE"}, retry.Unknown, 4, 0},
		{"unavailable, not sent", grpcStatus{Code: "UNAVAILABLE", NotSent: true}, retry.NotSent, 4, 0},
		{"unavailable, pushed back", grpcStatus{Code: "UNAVAILABLE", Pushback: after(5 * time.Second)}, retry.Unknown, 4, 5 * time.Second},
		{"unavailable, come at once", grpcStatus{Code: "UNAVAILABLE", Pushback: after(0)}, retry.Unknown, 4, 0},
		{"unavailable, no retries", grpcStatus{Code: "UNAVAILABLE", Pushback: after(-1)}, retry.Unknown, 1, 0},
		{"exhausted", grpcStatus{Code: "RESOURCE_EXHAUSTED"}, retry.Rejected, 1, 0},
		{"exhausted for a while", grpcStatus{Code: "RESOURCE_EXHAUSTED", RetryInfo: 3 * time.Second}, retry.Rejected, 4, 3 * time.Second},
		{"exhausted, pushed back", grpcStatus{Code: "RESOURCE_EXHAUSTED", Pushback: after(2 * time.Second)}, retry.Rejected, 4, 2 * time.Second},
		{"exhausted, no retries", grpcStatus{Code: "RESOURCE_EXHAUSTED", RetryInfo: time.Second, Pushback: after(-1)}, retry.Rejected, 1, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var begun []time.Time
				_, err := retry.Do(t.Context(), newClient(t, retry.Config{Rand: exact, MaxAttempts: 4}), retry.Task{Key: key},
					func(context.Context, retry.Attempt) (int, error) {
						begun = append(begun, time.Now())
						return 0, &grpcError{tt.status}
					}, classifyGRPC)
				var failed *retry.Error
				require.ErrorAs(t, err, &failed)
				require.Equal(t, tt.want, failed.Outcome)
				require.Len(t, begun, tt.made)
				require.Equal(t, tt.status.Pushback != nil && *tt.status.Pushback < 0, errors.Is(err, wire.ErrNotRetryable))
				if tt.waits > 0 {
					require.Equal(t, tt.waits, begun[1].Sub(begun[0]))
				}
			})
		})
	}
	value, err := retry.Do(t.Context(), newClient(t, retry.Config{}), retry.Task{Key: key},
		func(context.Context, retry.Attempt) (int, error) { return 7, nil }, classifyGRPC)
	require.NoError(t, err)
	require.Equal(t, 7, value)
}
