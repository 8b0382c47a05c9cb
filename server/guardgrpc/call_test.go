package guardgrpc_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/guardgrpc"
	"github.com/fanonce/fanonce/server/guardgrpc/stockpb"
	"github.com/fanonce/fanonce/server/memstore"
)

const key = "idempotency-key"

func tea() *stockpb.ReserveRequest {
	return &stockpb.ReserveRequest{Sku: "tea", Quantity: 2, Labels: map[string]string{"a": "1", "b": "2", "c": "3"}}
}

func TestCall_runsOnce(t *testing.T) {
	t.Parallel()
	for _, effect := range []server.Effect{server.Transactional, server.Keyed, server.Opaque} {
		inEach(t, server.Config{}, config(effect), func(t *testing.T, c caller, s *stock) {
			for i, again := range []string{"false", "true", "true"} {
				got := c.reserve(t.Context(), tea(), key, []string{`"order-1"`, "order-1", `"order-1"`}[i])
				require.Nil(t, got.status)
				require.True(t, proto.Equal(&stockpb.Hold{Id: 1, Sku: "tea"}, got.hold), "got %v", got.hold)
				require.Equal(t, again, got.get("idempotent-replayed"))
			}
			require.EqualValues(t, 1, s.calls.Load())
			require.EqualValues(t, 2, c.reserve(t.Context(), tea(), key, "order-2").hold.GetId(), "another key is another call")
		})
	}
}

func TestCall_concurrentDuplicatesGetOneAnswer(t *testing.T) {
	t.Parallel()
	inEach(t, server.Config{}, config(server.Keyed), func(t *testing.T, c caller, s *stock) {
		s.reserve = func(context.Context, *stockpb.ReserveRequest) (*stockpb.Hold, error) {
			time.Sleep(20 * time.Millisecond) // so that duplicates come while it runs
			return &stockpb.Hold{Id: 7}, nil
		}
		var all sync.WaitGroup
		for range 16 {
			all.Go(func() {
				if got := c.reserve(t.Context(), tea(), key, "k"); got.hold.GetId() != 7 {
					t.Errorf("got %v, %v", got.hold, got.status)
				}
			})
		}
		all.Wait()
		require.EqualValues(t, 1, s.calls.Load())
	})
}

func TestCall_anotherPayload(t *testing.T) {
	t.Parallel()
	inEach(t, server.Config{}, config(server.Keyed), func(t *testing.T, c caller, s *stock) {
		require.Nil(t, c.reserve(t.Context(), tea(), key, "k").status)
		other := tea()
		other.Labels["c"] = "4"
		requireRefused(t, c.reserve(t.Context(), other, key, "k"), codes.FailedPrecondition, "KEY_REUSED", "false")
		requireRefused(t, c.release(t.Context(), &stockpb.ReleaseRequest{}, key, "k"), codes.FailedPrecondition, "KEY_REUSED", "false")
		require.EqualValues(t, 1, s.calls.Load())
	})
}

func requireRefused(t *testing.T, got reply, code codes.Code, reason, again string) {
	t.Helper()
	require.NotNil(t, got.status)
	require.Equal(t, code, codes.Code(got.status.GetCode()), "%v", got.status)
	require.Equal(t, reason, got.reason())
	require.NotEmpty(t, got.status.GetMessage())
	require.Equal(t, strings.ToLower(strings.ReplaceAll(reason, "_", "-")), got.get("idempotency-code"))
	require.Equal(t, again, got.get("idempotency-should-retry"))
}

func TestCall_badKeys(t *testing.T) {
	t.Parallel()
	inEach(t, server.Config{}, config(server.Keyed), func(t *testing.T, c caller, s *stock) {
		withField := func(id string) *stockpb.ReserveRequest { return &stockpb.ReserveRequest{RequestId: id} }
		for _, tt := range []struct {
			name   string
			in     *stockpb.ReserveRequest
			md     []string
			reason string
		}{
			{"none", tea(), nil, "KEY_MISSING"},
			{"twice", tea(), []string{key, "a", key, "b"}, "KEY_INVALID"},
			{"twice the same", tea(), []string{key, "a", key, "a"}, "KEY_INVALID"},
			{"binary", tea(), []string{key + "-bin", "a"}, "KEY_INVALID"},
			{"text and binary", tea(), []string{key, "a", key + "-bin", "a"}, "KEY_INVALID"},
			{"open quote", tea(), []string{key, `"a`}, "KEY_INVALID"},
			{"empty", tea(), []string{key, ""}, "KEY_INVALID"},
			{"too long", tea(), []string{key, strings.Repeat("k", childkey.MaxKeyBytes+1)}, "KEY_INVALID"},
			{"bad field", withField("a b"), nil, "KEY_INVALID"},
			{"field and metadata differ", withField("a"), []string{key, "b"}, "KEY_INVALID"},
			{"bad forward key", tea(), []string{key, "a", "idempotency-cancels", "a b"}, "KEY_INVALID"},
			{"undo of itself", tea(), []string{key, "a", "idempotency-cancels", "a"}, "KEY_INVALID"},
			{"bad first-sent", tea(), []string{key, "a", "idempotency-first-sent", "yesterday"}, "FIRST_SENT_INVALID"},
			{"first sent in the future", tea(), []string{key, "a", "idempotency-first-sent", "2999-01-01T00:00:00Z"}, "FIRST_SENT_INVALID"},
		} {
			got := c.reserve(t.Context(), tt.in, tt.md...)
			require.NotNil(t, got.status, tt.name)
			requireRefused(t, got, codes.InvalidArgument, tt.reason, "false")
		}
		requireRefused(t, c.reserve(t.Context(), tea(), key, "a", "idempotency-first-sent", "2001-01-01T00:00:00Z"),
			codes.FailedPrecondition, "KEY_EXPIRED", "false")
		require.Zero(t, s.calls.Load())
	})
}

// AIP-155: the key is in the request.
func TestCall_keyInField(t *testing.T) {
	t.Parallel()
	inEach(t, server.Config{}, config(server.Keyed), func(t *testing.T, c caller, s *stock) {
		in := tea()
		in.RequestId = "0b9e4b2c-5a0e-4f6e-9b1a-0d1f0e2d3c4b"
		require.Equal(t, "false", c.reserve(t.Context(), in).get("idempotent-replayed"))
		require.Equal(t, "true", c.reserve(t.Context(), in).get("idempotent-replayed"))
		require.Equal(t, "true", c.reserve(t.Context(), in, key, in.RequestId).get("idempotent-replayed"), "both places, one key")
		require.EqualValues(t, 1, s.calls.Load())
	})
}

// A handler's status is stored, released or repeated by its code; a stored one is replayed with its details.
func TestCall_statuses(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		code  codes.Code
		runs  int64 // of two calls
		again string
	}{
		{codes.InvalidArgument, 1, "false"},
		{codes.NotFound, 1, "false"},
		{codes.AlreadyExists, 1, "false"},
		{codes.FailedPrecondition, 1, "false"},
		{codes.OutOfRange, 1, "false"},
		{codes.Unimplemented, 1, "false"},
		{codes.Unauthenticated, 2, "true"},
		{codes.PermissionDenied, 2, "true"},
		{codes.ResourceExhausted, 2, "true"},
		{codes.Canceled, 2, "true"},
		{codes.Unknown, 2, "true"},
		{codes.DeadlineExceeded, 2, "true"},
		{codes.Aborted, 2, "true"},
		{codes.Internal, 2, "true"},
		{codes.Unavailable, 2, "true"},
		{codes.DataLoss, 2, "true"},
	} {
		t.Run(tt.code.String(), func(t *testing.T) {
			t.Parallel()
			inEach(t, server.Config{}, config(server.Keyed), func(t *testing.T, c caller, s *stock) {
				s.reserve = func(context.Context, *stockpb.ReserveRequest) (*stockpb.Hold, error) {
					failed, err := status.New(tt.code, "no tea: ☕ 100%").WithDetails(
						&errdetails.QuotaFailure{Violations: []*errdetails.QuotaFailure_Violation{{Subject: "tea"}}},
						&errdetails.ErrorInfo{Reason: "SOLD_OUT", Domain: "stock.example"})
					if err != nil {
						return nil, err
					}
					return nil, failed.Err()
				}
				first, second := c.reserve(t.Context(), tea(), key, "k"), c.reserve(t.Context(), tea(), key, "k")
				for i, got := range []reply{first, second} {
					require.Equal(t, tt.code, codes.Code(got.status.GetCode()))
					require.Equal(t, "no tea: ☕ 100%", got.status.GetMessage())
					require.Equal(t, "tea", detail[*errdetails.QuotaFailure](got).GetViolations()[0].GetSubject())
					require.Equal(t, "SOLD_OUT", detail[*errdetails.ErrorInfo](got).GetReason())
					require.Equal(t, []string{"false", "true"}[min(i, int(2-tt.runs))], got.get("idempotent-replayed"))
					require.Equal(t, tt.again, got.get("idempotency-should-retry"))
				}
				require.Equal(t, tt.runs, s.calls.Load())
			})
		})
	}
}

// Nobody knows what an Opaque run did that failed.
func TestCall_opaqueFailure(t *testing.T) {
	t.Parallel()
	inEach(t, server.Config{}, config(server.Opaque), func(t *testing.T, c caller, s *stock) {
		s.reserve = func(context.Context, *stockpb.ReserveRequest) (*stockpb.Hold, error) {
			return nil, status.Error(codes.Internal, "broken")
		}
		got := c.reserve(t.Context(), tea(), key, "k")
		require.Equal(t, codes.Internal, codes.Code(got.status.GetCode()))
		require.Equal(t, "false", got.get("idempotency-should-retry"))
		requireRefused(t, c.reserve(t.Context(), tea(), key, "k"), codes.FailedPrecondition, "OUTCOME_UNKNOWN", "false")
		require.EqualValues(t, 1, s.calls.Load())
	})
}

func TestCall_inProgress(t *testing.T) {
	t.Parallel()
	inEach(t, server.Config{}, config(server.Keyed), func(t *testing.T, c caller, s *stock) {
		running, finish := make(chan struct{}), make(chan struct{})
		s.reserve = func(context.Context, *stockpb.ReserveRequest) (*stockpb.Hold, error) {
			close(running)
			<-finish
			return &stockpb.Hold{Id: 7}, nil
		}
		var first sync.WaitGroup
		first.Go(func() { c.reserve(t.Context(), tea(), key, "k") })
		<-running
		got := c.reserve(t.Context(), tea(), key, "k", "prefer", "wait=0")
		requireRefused(t, got, codes.Aborted, "IN_PROGRESS", "true")
		require.Positive(t, detail[*errdetails.RetryInfo](got).GetRetryDelay().AsDuration())
		require.NotEmpty(t, got.get("retry-after-ms"))

		// A deadline that is shorter than the wait: the refusal comes before it.
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		requireRefused(t, c.reserve(ctx, tea(), key, "k"), codes.Aborted, "IN_PROGRESS", "true")
		require.NoError(t, ctx.Err())
		requireRefused(t, c.reserve(t.Context(), tea(), key, "k", "request-timeout-ms", "300"), codes.Aborted, "IN_PROGRESS", "true")

		var waiting sync.WaitGroup
		waiting.Go(func() {
			if got := c.reserve(t.Context(), tea(), key, "k", "prefer", "wait=9"); got.hold.GetId() != 7 {
				t.Errorf("a duplicate that waits got %v, %v", got.hold, got.status)
			}
		})
		time.Sleep(20 * time.Millisecond) // so that the duplicate waits: nothing tells when it does
		close(finish)
		waiting.Wait()
		first.Wait()
		require.EqualValues(t, 1, s.calls.Load())
	})
}

// A client that gives up does not stop the run, and its answer is stored.
func TestCall_callerGivesUp(t *testing.T) {
	t.Parallel()
	inEach(t, server.Config{}, config(server.Keyed), func(t *testing.T, c caller, s *stock) {
		running := make(chan struct{})
		s.reserve = func(ctx context.Context, _ *stockpb.ReserveRequest) (*stockpb.Hold, error) {
			close(running)
			time.Sleep(100 * time.Millisecond) // so that the server hears that the client has gone
			return &stockpb.Hold{Id: 7}, ctx.Err()
		}
		ctx, cancel := context.WithCancel(t.Context())
		go func() { <-running; cancel() }()
		require.Equal(t, codes.Canceled, codes.Code(c.reserve(ctx, tea(), key, "k").status.GetCode()))
		got := c.reserve(t.Context(), tea(), key, "k")
		require.EqualValues(t, 7, got.hold.GetId(), "%v", got.status)
		require.EqualValues(t, 1, s.calls.Load())
	})
}

func TestCall_scopes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		scope  string
		err    error
		code   codes.Code
		reason string
		again  string
	}{
		{"none", "", nil, codes.Unauthenticated, "SCOPE_MISSING", "false"},
		{"too long", strings.Repeat("s", childkey.MaxScopeBytes+1), nil, codes.Unauthenticated, "SCOPE_MISSING", "false"},
		{"broken", "", errors.New("the directory is down"), codes.Unavailable, "SCOPE_UNAVAILABLE", "true"},
		{"unavailable", "", status.Error(codes.Unavailable, "directory"), codes.Unavailable, "SCOPE_UNAVAILABLE", "true"},
		{"denied", "", status.Error(codes.PermissionDenied, "no such tenant"), codes.PermissionDenied, "SCOPE_MISSING", "false"},
	} {
		cfg := config(server.Keyed)
		cfg.Scope = func(context.Context) (string, error) { return tt.scope, tt.err }
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			inEach(t, server.Config{}, cfg, func(t *testing.T, c caller, s *stock) {
				got := c.reserve(t.Context(), tea(), key, "k")
				requireRefused(t, got, tt.code, tt.reason, tt.again)
				require.NotContains(t, got.status.GetMessage(), "directory")
				require.Zero(t, s.calls.Load())
			})
		})
	}
}

// Two tenants may use one key.
func TestCall_tenants(t *testing.T) {
	t.Parallel()
	cfg := config(server.Keyed)
	cfg.Scope = func(ctx context.Context) (string, error) {
		md, _ := metadata.FromIncomingContext(ctx)
		return strings.Join(md.Get("tenant"), ""), nil
	}
	i, err := guardgrpc.New(newGuard(t, server.Config{}), cfg)
	require.NoError(t, err)
	s := new(stock)
	c := serveGRPC(t, i, s)
	for want, tenant := range []string{"", "a", "b", "a"} {
		if got := c.reserve(t.Context(), tea(), key, "k", "tenant", tenant); tenant != "" {
			require.EqualValues(t, min(want, 2)-want/3, got.hold.GetId(), "tenant %s", tenant)
		}
	}
}

func TestCall_streamsAreNotStored(t *testing.T) {
	t.Parallel()
	inEach(t, server.Config{}, config(server.Keyed), func(t *testing.T, c caller, s *stock) {
		for _, md := range [][]string{{key, "k"}, {key + "-bin", "k"}} {
			got := c.watch(t.Context(), &stockpb.ShowRequest{}, md...)
			require.Equal(t, codes.Unimplemented, codes.Code(got.status.GetCode()))
			require.Equal(t, "STREAM_NOT_STORED", got.reason())
			require.Contains(t, got.status.GetMessage(), "streams are not stored")
		}
		require.Zero(t, s.calls.Load())
		require.EqualValues(t, 1, c.watch(t.Context(), &stockpb.ShowRequest{}).hold.GetId(), "without a key it passes")
	})
}

// The proto says which methods are guarded, and how.
func TestCall_idempotencyLevels(t *testing.T) {
	t.Parallel()
	inEach(t, server.Config{}, config(server.Opaque), func(t *testing.T, c caller, s *stock) {
		for want := range 2 {
			require.EqualValues(t, want+1, c.show(t.Context(), &stockpb.ShowRequest{}, key, "k").hold.GetId(), "NO_SIDE_EFFECTS passes")
		}
		requireRefused(t, c.count(t.Context(), &stockpb.CountRequest{}), codes.InvalidArgument, "KEY_MISSING", "false")
		require.Nil(t, c.count(t.Context(), &stockpb.CountRequest{}, key, "k").status)
		require.Equal(t, "true", c.count(t.Context(), &stockpb.CountRequest{}, key, "k").get("idempotent-replayed"))
		require.EqualValues(t, 3, s.calls.Load())
	})
}

func TestCall_options(t *testing.T) {
	t.Parallel()
	cfg := config(server.Keyed)
	cfg.Methods = map[string]guardgrpc.Method{
		stockpb.Stock_Reserve_FullMethodName: {Effect: server.Keyed, KeyField: "request_id", KeyOptional: true, Fingerprint: func(m proto.Message) ([]byte, error) {
			sku := m.(*stockpb.ReserveRequest).GetSku()
			if sku == "" {
				return nil, errors.New("no sku in a secret request")
			}
			return []byte(sku), nil
		}},
		stockpb.Stock_Release_FullMethodName: {Unguarded: true},
	}
	inEach(t, server.Config{}, cfg, func(t *testing.T, c caller, s *stock) {
		for range 2 {
			require.Empty(t, c.reserve(t.Context(), tea()).get("idempotent-replayed"), "no key, no guard")
			require.Nil(t, c.release(t.Context(), &stockpb.ReleaseRequest{}, key, "k").status)
		}
		require.EqualValues(t, 4, s.calls.Load())
		require.Nil(t, c.reserve(t.Context(), tea(), key, "k").status)
		other := tea()
		other.Quantity++
		require.Equal(t, "true", c.reserve(t.Context(), other, key, "k").get("idempotent-replayed"), "the key belongs to the sku alone")
		got := c.reserve(t.Context(), &stockpb.ReserveRequest{}, key, "k2")
		requireRefused(t, got, codes.InvalidArgument, "KEY_INVALID", "false")
		require.NotContains(t, got.status.String(), "secret")
	})
}

// A Transactional method takes calls without a key, each in a transaction of its own. Only those with a key have its marks.
func TestCall_transactionalWithoutKey(t *testing.T) {
	t.Parallel()
	cfg := config(server.Transactional)
	cfg.Methods[stockpb.Stock_Reserve_FullMethodName] = guardgrpc.Method{Effect: server.Transactional, KeyField: "request_id", KeyOptional: true}
	inEach(t, server.Config{}, cfg, func(t *testing.T, c caller, s *stock) {
		var held atomic.Int64
		s.reserve = func(ctx context.Context, in *stockpb.ReserveRequest) (*stockpb.Hold, error) {
			if err := memstore.Tx(ctx).Do(func() { held.Add(1) }); err != nil {
				return nil, err
			}
			if in.GetQuantity() == 13 {
				return nil, status.Error(codes.FailedPrecondition, "unlucky")
			}
			return &stockpb.Hold{}, nil
		}
		marks := []string{"idempotent-replayed", "idempotency-should-retry", "x-should-retry", "grpc-retry-pushback-ms", "idempotency-code"}
		for n := range 2 {
			got := c.reserve(t.Context(), tea())
			require.Nil(t, got.status)
			require.EqualValues(t, n+1, held.Load(), "each call runs and commits")
			for _, mark := range marks {
				require.Empty(t, got.get(mark), mark)
			}
		}
		unlucky := tea()
		unlucky.Quantity = 13
		got := c.reserve(t.Context(), unlucky)
		require.EqualValues(t, codes.FailedPrecondition, got.status.GetCode())
		require.EqualValues(t, 2, held.Load(), "rolled back")
		for _, mark := range marks {
			require.Empty(t, got.get(mark), mark)
		}
		for _, replayed := range []string{"false", "true"} {
			require.Equal(t, replayed, c.reserve(t.Context(), tea(), key, "k").get("idempotent-replayed"))
		}
		require.EqualValues(t, 3, held.Load())
		requireRefused(t, c.release(t.Context(), &stockpb.ReleaseRequest{}), codes.InvalidArgument, "KEY_MISSING", "false")
	})
}

// An undo learns what became of the forward call, and so does its caller.
func TestCall_undo(t *testing.T) {
	t.Parallel()
	inEach(t, server.Config{}, config(server.Keyed), func(t *testing.T, c caller, s *stock) {
		s.release = func(ctx context.Context, _ *stockpb.ReleaseRequest) error {
			_, err := server.Barrier(ctx)
			return err
		}
		require.Nil(t, c.reserve(t.Context(), tea(), key, "done").status)
		for _, again := range []string{"false", "true"} {
			got := c.release(t.Context(), &stockpb.ReleaseRequest{}, key, "undo-1", "idempotency-cancels", "done")
			require.Nil(t, got.status)
			require.Equal(t, "ran", got.get("idempotent-forward"))
			require.Equal(t, again, got.get("idempotent-replayed"))
		}
		require.Equal(t, "never-ran", c.release(t.Context(), &stockpb.ReleaseRequest{}, key, "undo-2", "idempotency-cancels", "late").get("idempotent-forward"))
		requireRefused(t, c.reserve(t.Context(), tea(), key, "late"), codes.FailedPrecondition, "KEY_CANCELLED", "false")
	})
}

// The handler's ctx is a run's ctx.
func TestCall_runContext(t *testing.T) {
	t.Parallel()
	inEach(t, server.Config{Namespace: "stock"}, config(server.Keyed), func(t *testing.T, c caller, s *stock) {
		s.reserve = func(ctx context.Context, _ *stockpb.ReserveRequest) (*stockpb.Hold, error) {
			hop, _ := childkey.FromContext(ctx)
			inbound, _ := server.InboundKey(ctx)
			want, err := childkey.Hop("unscoped", "stock", childkey.MustParse("k"))
			if err != nil || hop != want || inbound.String() != "k" || server.Fence(ctx) != 1 {
				return nil, status.Errorf(codes.Internal, "hop key %v, want %v; inbound key %v; fence %d", hop, want, inbound, server.Fence(ctx))
			}
			return &stockpb.Hold{Id: 1}, nil
		}
		require.Nil(t, c.reserve(t.Context(), tea(), key, "k").status)
	})
}

func TestCall_statusError(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		status int
		want   codes.Code
		runs   int64
	}{
		{400, codes.InvalidArgument, 1}, {401, codes.Unauthenticated, 2}, {403, codes.PermissionDenied, 2}, {404, codes.NotFound, 1},
		{402, codes.FailedPrecondition, 1}, {422, codes.FailedPrecondition, 1}, {429, codes.ResourceExhausted, 2},
		{500, codes.Internal, 2}, {503, codes.Unavailable, 2}, {504, codes.DeadlineExceeded, 2},
	} {
		i, err := guardgrpc.New(newGuard(t, server.Config{}), config(server.Keyed))
		require.NoError(t, err)
		s := &stock{reserve: func(context.Context, *stockpb.ReserveRequest) (*stockpb.Hold, error) {
			return nil, &server.StatusError{Status: tt.status, Detail: "Declined.", Err: errors.New("secret cause")}
		}}
		c := serveGRPC(t, i, s)
		for range 2 {
			got := c.reserve(t.Context(), tea(), key, "k")
			require.Equal(t, tt.want, codes.Code(got.status.GetCode()), "status %d", tt.status)
			require.Equal(t, "Declined.", got.status.GetMessage())
		}
		require.Equal(t, tt.runs, s.calls.Load(), "status %d", tt.status)
	}
}

// A handler's metadata comes after the commit. A repetition gets what the service allows.
func TestCall_metadata(t *testing.T) {
	t.Parallel()
	cfg := config(server.Keyed)
	cfg.ReplayMetadata = []string{"X-Warehouse", "x-weight"}
	i, err := guardgrpc.New(newGuard(t, server.Config{}), cfg)
	require.NoError(t, err)
	s := &stock{reserve: func(ctx context.Context, in *stockpb.ReserveRequest) (*stockpb.Hold, error) {
		err := errors.Join(
			grpc.SendHeader(ctx, metadata.Pairs("x-warehouse", "north", "x-warehouse", "south", "x-secret", "1")),
			grpc.SetHeader(ctx, metadata.Pairs("x-later", "2")),
			grpc.SetTrailer(ctx, metadata.Pairs("x-weight", "3kg")))
		if in.GetSku() == "none" {
			err = status.Error(codes.NotFound, "none")
		}
		return &stockpb.Hold{Id: 1}, err
	}}
	c := serveGRPC(t, i, s)
	for _, sku := range []string{"tea", "none"} {
		first := c.reserve(t.Context(), &stockpb.ReserveRequest{Sku: sku}, key, sku)
		second := c.reserve(t.Context(), &stockpb.ReserveRequest{Sku: sku}, key, sku)
		for _, got := range []reply{first, second} {
			require.Equal(t, "north|south", got.get("x-warehouse"))
			require.Equal(t, "3kg", got.get("x-weight"))
		}
		require.Equal(t, "1", first.get("x-secret"))
		require.Equal(t, "2", first.get("x-later"))
		require.Empty(t, second.get("x-secret"))
		require.Equal(t, "true", second.get("idempotent-replayed"))
	}
}
