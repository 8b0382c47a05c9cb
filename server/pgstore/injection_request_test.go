package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/internal/pgkittest"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgstore"
)

// A faultyService is a guard whose database fails when it is told to, with a
// route for each effect class, and an undo. Each run leaves one row.
type faultyService struct {
	injector *pgkittest.Injector
	look     *pgxpool.Pool
	mux      *http.ServeMux
}

func newFaultyService(t *testing.T) *faultyService {
	t.Helper()
	s := &faultyService{injector: new(pgkittest.Injector), mux: http.NewServeMux()}
	var store *pgstore.Store
	store, s.look = open(t, pgstore.Config{}, s.injector.Under)
	exec(t, s.look, "create table effect (key text, what text)")
	g, err := server.NewGuard(store, server.Unscoped, server.Config{
		Lease: 200 * time.Millisecond, MaxRecoveryAttempts: 100, SettleTimeout: 2 * time.Second,
	})
	require.NoError(t, err)
	const insert = "insert into effect values ($1, $2)"
	for path, route := range map[string]struct {
		effect server.Effect
		write  func(ctx context.Context, key string) error
	}{
		"/transactional": {server.Transactional, func(ctx context.Context, key string) error {
			_, err := pgstore.Tx(ctx).Exec(ctx, insert, key, "do")
			return err
		}},
		"/queued": {server.Transactional, func(ctx context.Context, key string) error {
			return pgstore.Queue(ctx, insert, key, "do")
		}},
		"/partly-queued": {server.Transactional, func(ctx context.Context, key string) error {
			_, err := pgstore.Tx(ctx).Exec(ctx, "delete from effect where key = $1", key)
			return errors.Join(err, pgstore.Queue(ctx, insert, key, "do"))
		}},
		"/keyed": {server.Keyed, func(ctx context.Context, key string) error {
			return pgstore.OnComplete(ctx, func(ctx context.Context, tx pgx.Tx) error {
				_, err := tx.Exec(ctx, insert, key, "do")
				return err
			})
		}},
		"/opaque": {server.Opaque, func(ctx context.Context, key string) error {
			_, err := s.look.Exec(context.WithoutCancel(ctx), insert, key, "do")
			return err
		}},
		"/undo": {server.Transactional, func(ctx context.Context, key string) error {
			fate, err := server.Barrier(ctx)
			if err != nil || fate == server.NeverRan {
				return err
			}
			_, err = pgstore.Tx(ctx).Exec(ctx, insert, key, "undo")
			return err
		}},
	} {
		h, err := g.Route(server.Route{Effect: route.effect}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			key, _ := server.InboundKey(r.Context())
			if err := route.write(r.Context(), key.String()); err != nil {
				w.WriteHeader(http.StatusInternalServerError)
				return
			}
			fmt.Fprintf(w, "%s by %d", key, server.Fence(r.Context()))
		}))
		require.NoError(t, err)
		s.mux.Handle("POST "+path, h)
	}
	return s
}

func (s *faultyService) post(ctx context.Context, path, key string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, path, http.NoBody)
	r.Header.Set("Idempotency-Key", key)
	if path == "/undo" {
		r.Header.Set("Idempotency-Cancels", strings.TrimPrefix(key, "undo-"))
	}
	w := httptest.NewRecorder()
	s.mux.ServeHTTP(w, r)
	return w
}

// settle sends the request until it has an answer that does not change.
func (s *faultyService) settle(t *testing.T, path, key string) (last *httptest.ResponseRecorder) {
	t.Helper()
	require.Eventually(t, func() bool {
		last = s.post(t.Context(), path, key)
		return last.Code == http.StatusOK || last.Header().Get("Idempotency-Should-Retry") == "false"
	}, time.Minute, 10*time.Millisecond, "key %s never settled: %v", key, last)
	return last
}

func (s *faultyService) effects(t *testing.T, key, what string) int {
	t.Helper()
	return queryRow[int](t, s.look, "select count(*) from effect where key = $1 and what = $2", key, what)
}

// Any round trip of a request can fail, in any way. The effect happens at most
// once, an answer that was given stays the answer, and no key is stuck.
func TestInjection_requests(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/transactional", "/queued", "/partly-queued", "/keyed", "/opaque"} {
		t.Run(path[1:], func(t *testing.T) {
			t.Parallel()
			s := newFaultyService(t)
			for n := range 4 { // each connection has described its statements
				s.post(t.Context(), path, fmt.Sprintf("warm-%d", n))
			}
			var first *httptest.ResponseRecorder
			var key string
			attempts := 0
			s.injector.EveryFault(t, func() {
				attempts++
				key = fmt.Sprintf("key-%d", attempts)
			}, func(ctx context.Context) {
				first = s.post(ctx, path, key)
			}, func(t *testing.T, at string) {
				last := s.settle(t, path, key)
				effects := s.effects(t, key, "do")
				what := fmt.Sprintf("%s: first %d, then %d, effects %d", at, first.Code, last.Code, effects)
				if first.Code == http.StatusOK {
					require.Equal(t, first.Body.String(), last.Body.String(), what)
					require.Equal(t, "true", last.Header().Get("Idempotent-Replayed"), what)
				}
				switch {
				case last.Code == http.StatusOK:
					require.Equal(t, 1, effects, what)
				case path == "/opaque" && strings.Contains(last.Body.String(), "outcome-unknown"):
					require.LessOrEqual(t, effects, 1, what)
				default:
					t.Fatalf("%s: %s", what, last.Body)
				}
				again := s.settle(t, path, key)
				require.Equal(t, last.Code, again.Code, what)
				require.Equal(t, effects, s.effects(t, key, "do"), what)
			})
		})
	}
}

// An undo of a call that ran takes effect once; one of a call that never came
// keeps it from ever running.
func TestInjection_undo(t *testing.T) {
	t.Parallel()
	for _, ran := range []bool{true, false} {
		t.Run(fmt.Sprintf("forward ran %v", ran), func(t *testing.T) {
			t.Parallel()
			s := newFaultyService(t)
			for n := range 4 {
				s.post(t.Context(), "/undo", fmt.Sprintf("undo-warm-%d", n))
			}
			var key string
			attempts := 0
			s.injector.EveryFault(t, func() {
				attempts++
				key = fmt.Sprintf("key-%d", attempts)
				if ran {
					require.Equal(t, http.StatusOK, s.settle(t, "/transactional", key).Code)
				}
			}, func(ctx context.Context) {
				s.post(ctx, "/undo", "undo-"+key)
			}, func(t *testing.T, at string) {
				last := s.settle(t, "/undo", "undo-"+key)
				require.Equal(t, http.StatusOK, last.Code, "%s: %s", at, last.Body)
				late := s.post(t.Context(), "/transactional", key)
				if !ran {
					require.Contains(t, late.Body.String(), "key-cancelled")
				}
				want := 0
				if ran {
					want = 1
				}
				require.Equal(t, want, s.effects(t, "undo-"+key, "undo"), at)
				require.Equal(t, want, s.effects(t, key, "do"), at)
			})
		})
	}
}
