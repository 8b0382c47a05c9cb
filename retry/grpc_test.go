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

// A grpcError stands for what grpc-go's status package returns.
type grpcError struct{ retry.GRPCStatus }

func (e *grpcError) Error() string { return e.Code }

func classifyGRPC(_ int, err error) retry.Verdict {
	var failed *grpcError
	if !errors.As(err, &failed) {
		return retry.Classify(0, err)
	}
	return failed.Verdict()
}

// Row by row: what a call comes to that always ends so, and how often it is made.
func TestDo_everyGRPCStatus(t *testing.T) {
	t.Parallel()
	after := func(d time.Duration) *time.Duration { return &d }
	tests := []struct {
		name   string
		status retry.GRPCStatus
		want   retry.Outcome
		made   int
		waits  time.Duration // before the second attempt at least; 0: as by the backoff
	}{
		{"cancelled", retry.GRPCStatus{Code: "CANCELLED"}, retry.Unknown, 1, 0},
		{"unknown", retry.GRPCStatus{Code: "UNKNOWN"}, retry.Unknown, 4, 0},
		{"invalid argument", retry.GRPCStatus{Code: "INVALID_ARGUMENT"}, retry.Rejected, 1, 0},
		{"deadline of the attempt", retry.GRPCStatus{Code: "DEADLINE_EXCEEDED"}, retry.Unknown, 4, 0},
		{"not found", retry.GRPCStatus{Code: "NOT_FOUND"}, retry.Rejected, 1, 0},
		{"already exists", retry.GRPCStatus{Code: "ALREADY_EXISTS"}, retry.Rejected, 1, 0},
		{"permission denied", retry.GRPCStatus{Code: "PERMISSION_DENIED"}, retry.Rejected, 1, 0},
		{"failed precondition", retry.GRPCStatus{Code: "FAILED_PRECONDITION"}, retry.Rejected, 1, 0},
		{"aborted without a reason", retry.GRPCStatus{Code: "ABORTED"}, retry.Unknown, 1, 0},
		{"out of range", retry.GRPCStatus{Code: "OUT_OF_RANGE"}, retry.Rejected, 1, 0},
		{"unimplemented", retry.GRPCStatus{Code: "UNIMPLEMENTED"}, retry.Rejected, 1, 0},
		{"internal", retry.GRPCStatus{Code: "INTERNAL"}, retry.Unknown, 4, 0},
		{"data loss", retry.GRPCStatus{Code: "DATA_LOSS"}, retry.Unknown, 1, 0},
		{"unauthenticated", retry.GRPCStatus{Code: "UNAUTHENTICATED"}, retry.Rejected, 1, 0},
		{"unheard of", retry.GRPCStatus{Code: "TEAPOT"}, retry.Unknown, 1, 0},
		{"unavailable", retry.GRPCStatus{Code: "UNAVAILABLE"}, retry.Unknown, 4, 0},
		{"unavailable, not sent", retry.GRPCStatus{Code: "UNAVAILABLE", NotSent: true}, retry.NotSent, 4, 0},
		{"unavailable, pushed back", retry.GRPCStatus{Code: "UNAVAILABLE", Pushback: after(5 * time.Second)}, retry.Unknown, 4, 5 * time.Second},
		{"unavailable, come at once", retry.GRPCStatus{Code: "UNAVAILABLE", Pushback: after(0)}, retry.Unknown, 4, 0},
		{"unavailable, no retries", retry.GRPCStatus{Code: "UNAVAILABLE", Pushback: after(-1)}, retry.Unknown, 1, 0},
		{"exhausted", retry.GRPCStatus{Code: "RESOURCE_EXHAUSTED"}, retry.Rejected, 1, 0},
		{"exhausted for a while", retry.GRPCStatus{Code: "RESOURCE_EXHAUSTED", RetryInfo: 3 * time.Second}, retry.Rejected, 4, 3 * time.Second},
		{"exhausted, pushed back", retry.GRPCStatus{Code: "RESOURCE_EXHAUSTED", Pushback: after(2 * time.Second)}, retry.Rejected, 4, 2 * time.Second},
		{"exhausted, no retries", retry.GRPCStatus{Code: "RESOURCE_EXHAUSTED", RetryInfo: time.Second, Pushback: after(-1)}, retry.Rejected, 1, 0},
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
				require.Equal(t, tt.status.Pushback != nil && *tt.status.Pushback < 0, errors.Is(err, wire.ErrVetoed))
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
