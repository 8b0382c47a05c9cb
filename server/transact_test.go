package server_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/memstore"
	"github.com/fanonce/fanonce/server/store"
)

// A ledger counts rows that a handler writes in its transaction.
type ledger struct {
	mu   sync.Mutex
	rows int
}

func (l *ledger) write(ctx context.Context) error {
	return memstore.Tx(ctx).Do(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.rows++
	})
}

func (l *ledger) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rows
}

func TestTransactional_rowsAndAnswerTogether(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		finish func(context.Context, http.ResponseWriter)
		rows   int // after the first call
		again  int // runs after a second one
	}{
		{"2xx commits", func(_ context.Context, w http.ResponseWriter) { w.WriteHeader(http.StatusCreated) }, 1, 1},
		{"3xx commits", func(_ context.Context, w http.ResponseWriter) { w.WriteHeader(http.StatusSeeOther) }, 1, 1},
		{"stored 4xx rolls back", func(_ context.Context, w http.ResponseWriter) { w.WriteHeader(http.StatusPaymentRequired) }, 0, 1},
		{"5xx rolls back", func(_ context.Context, w http.ResponseWriter) { w.WriteHeader(http.StatusBadGateway) }, 0, 2},
		{"never-stored 4xx rolls back", func(_ context.Context, w http.ResponseWriter) { w.WriteHeader(http.StatusTooManyRequests) }, 0, 2},
		{"KeepRows commits a stored 4xx", func(ctx context.Context, w http.ResponseWriter) {
			_ = server.Settle(ctx, server.KeepRows())
			w.WriteHeader(http.StatusPaymentRequired)
		}, 1, 1},
		{"KeepRows keeps nothing of a 5xx", func(ctx context.Context, w http.ResponseWriter) {
			_ = server.Settle(ctx, server.KeepRows())
			w.WriteHeader(http.StatusBadGateway)
		}, 0, 2},
		{"Release rolls a 2xx back", func(ctx context.Context, _ http.ResponseWriter) { _ = server.Settle(ctx, server.Release()) }, 0, 2},
		{"Final stores a 5xx without rows", func(ctx context.Context, w http.ResponseWriter) {
			_ = server.Settle(ctx, server.Final())
			w.WriteHeader(http.StatusInternalServerError)
		}, 0, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var rows ledger
			runs := 0
			seen := &witness{}
			s := memstore.New()
			h := newRoute(t, newGuard(t, s, server.Config{Observer: seen}), server.Transactional, func(w http.ResponseWriter, r *http.Request) {
				runs++
				_ = rows.write(r.Context())
				tt.finish(r.Context(), w)
			})
			first := send(h, "k", "b")
			require.Equal(t, tt.rows, rows.count())
			require.False(t, readRecord(t, s, seen).MaybeRan, "a rolled-back run left nothing")
			again := send(h, "k", "b")
			require.Equal(t, first.Code, again.Code)
			require.Equal(t, tt.again, runs)
		})
	}
}

func TestTransactional_conflict(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name      string
		conflicts int
		runs      int
	}{
		{"none", 0, 1},
		{"once", 1, 2},
		{"twice", 2, 3},
		{"three times", 3, 3},
	} {
		synctest.Test(t, func(t *testing.T) {
			var rows ledger
			runs := 0
			seen := &witness{}
			h := newRoute(t, newGuard(t, memstore.New(), server.Config{Observer: seen}), server.Transactional, func(w http.ResponseWriter, r *http.Request) {
				runs++
				body, err := io.ReadAll(r.Body)
				require.NoError(t, err)
				r.Header.Set("X-Turn", fmt.Sprint(r.Header.Get("X-Turn"), runs))
				_ = rows.write(r.Context())
				fmt.Fprint(w, r.Header.Get("X-Turn"), string(body))
				if runs <= tt.conflicts {
					_ = memstore.Tx(r.Context()).Doom()
				}
			})
			w := send(h, "k", "b")
			require.Equal(t, tt.runs, runs, tt.name)
			if tt.conflicts == 3 {
				requireCode(t, w, wire.StoreUnavailable)
				require.Zero(t, rows.count())
				requireAnswer(t, send(h, "k", "b"), http.StatusOK, "4b", false) // released
				return
			}
			// Each run begins with the original request and an empty answer.
			requireAnswer(t, w, http.StatusOK, fmt.Sprint(tt.runs, "b"), false)
			require.Equal(t, 1, rows.count())
			require.Equal(t, tt.conflicts, seen.count(server.EventConflict))
		})
	}
}

// If one of a handler's statements fails with a conflict, the handler's answer
// does not count.
func TestTransactional_conflictAnsweredWith500(t *testing.T) {
	t.Parallel()
	runs := 0
	h, _ := guarded(t, server.Transactional, func(w http.ResponseWriter, r *http.Request) {
		if runs++; runs < 3 {
			_ = memstore.Tx(r.Context()).Doom()
			w.WriteHeader(http.StatusInternalServerError)
		}
		fmt.Fprint(w, runs)
	})
	requireAnswer(t, send(h, "k", "b"), http.StatusOK, "3", false)
}

// A conflict can occur only in the commit.
func TestTransactional_conflictInTheCommit(t *testing.T) {
	t.Parallel()
	s := &flaky{TxStore: memstore.New()}
	begun, runs := 0, 0
	s.begin = func(ctx context.Context) (store.Tx, error) {
		tx, err := s.TxStore.Begin(ctx)
		if begun++; begun == 1 {
			return failingTx{tx, store.ErrConflict}, err
		}
		return tx, err
	}
	h := newRoute(t, newGuard(t, s, server.Config{}), server.Transactional, func(w http.ResponseWriter, _ *http.Request) {
		runs++
		fmt.Fprint(w, runs)
	})
	requireAnswer(t, send(h, "k", "b"), http.StatusOK, "2", false)
}

type failingTx struct {
	store.Tx
	err error
}

func (t failingTx) Settle(ctx context.Context, _ store.Owner, _ store.Settlement) error {
	_ = t.Rollback(ctx)
	return t.err
}

func (t failingTx) Commit(ctx context.Context) error {
	return t.Settle(ctx, store.Owner{}, store.Settlement{})
}

func TestTransactional_commitFails(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		err   error
		want  wire.Code
		state server.State
	}{
		{"lease lost", server.ErrLeaseLost, wire.LeaseLost, server.StateInProgress},
		{"nothing changed", errDown, wire.StoreUnavailable, server.StateReleased},
		// The commit may be durable: there must be neither a release nor a second run.
		{"fate unknown", fmt.Errorf("cut off: %w", store.ErrFateUnknown), wire.StoreUnavailable, server.StateInProgress},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := &flaky{TxStore: memstore.New()}
			seen := &witness{}
			runs := 0
			s.begin = func(ctx context.Context) (store.Tx, error) {
				tx, err := s.TxStore.Begin(ctx)
				return failingTx{tx, tt.err}, err
			}
			h := newRoute(t, newGuard(t, s, server.Config{Observer: seen}), server.Transactional, func(http.ResponseWriter, *http.Request) { runs++ })
			requireCode(t, send(h, "k", "b"), tt.want)
			require.Equal(t, 1, runs)
			require.Equal(t, tt.state, readRecord(t, s, seen).State)
		})
	}
}

func TestTransactional_noTransaction(t *testing.T) {
	t.Parallel()
	s := &flaky{TxStore: memstore.New()}
	seen := &witness{}
	s.begin = func(context.Context) (store.Tx, error) { return nil, errDown }
	h := newRoute(t, newGuard(t, s, server.Config{Observer: seen}), server.Transactional, func(http.ResponseWriter, *http.Request) {
		t.Error("the handler ran")
	})
	requireCode(t, send(h, "k", "b"), wire.StoreUnavailable)
	require.Equal(t, server.StateReleased, readRecord(t, s, seen).State)
	require.Equal(t, 1, seen.count(server.EventStoreError))
}

// The effect class decides the state of a key whose handler does not return.
func TestHandler_panics(t *testing.T) {
	t.Parallel()
	errBoom := errors.New("boom")
	for _, way := range []struct {
		name string
		out  func()
		want any // the value of the panic; nil for Goexit
	}{
		{"value", func() { panic(errBoom) }, errBoom},
		{"abort", func() { panic(http.ErrAbortHandler) }, http.ErrAbortHandler},
		{"goexit", runtime.Goexit, nil},
	} {
		for effect, state := range map[server.Effect]server.State{
			server.Transactional: server.StateReleased, server.Keyed: server.StateReleased, server.Opaque: server.StateUnknown,
		} {
			t.Run(way.name+" "+effect.String(), func(t *testing.T) {
				t.Parallel()
				var rows ledger
				seen := &witness{}
				s := memstore.New()
				h := newRoute(t, newGuard(t, s, server.Config{Observer: seen}), effect, func(w http.ResponseWriter, r *http.Request) {
					_ = rows.write(r.Context())
					fmt.Fprint(w, "half an ans")
					way.out()
				})
				value := make(chan any, 1)
				go func() {
					defer func() { value <- recover() }()
					send(h, "k", "b")
				}()
				require.Equal(t, way.want, <-value)
				rec := readRecord(t, s, seen)
				require.Equal(t, state, rec.State)
				require.Equal(t, effect != server.Transactional, rec.MaybeRan)
				require.Zero(t, rows.count())
				require.Equal(t, 1, seen.count(server.EventPanic))
			})
		}
	}
}

func TestOnComplete(t *testing.T) {
	t.Parallel()
	errRow := errors.New("row refused")
	const keptRefusal = http.StatusConflict
	for _, tt := range []struct {
		name   string
		status int
		hook   func(*ledger, context.Context) error
		rows   int
		state  server.State
	}{
		{"commits with the answer", http.StatusCreated, (*ledger).write, 1, server.StateCompleted},
		{"not after a refusal", http.StatusUnprocessableEntity, (*ledger).write, 0, server.StateCompleted},
		{"commits with a refusal that keeps its rows", keptRefusal, (*ledger).write, 1, server.StateCompleted},
		{"not after 5xx", http.StatusBadGateway, (*ledger).write, 0, server.StateReleased},
		{"not after a status that is not stored", http.StatusTooManyRequests, (*ledger).write, 0, server.StateReleased},
		{"error rolls back and releases", http.StatusCreated, func(l *ledger, ctx context.Context) error {
			_ = l.write(ctx)
			return errRow
		}, 0, server.StateReleased},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var rows ledger
			seen := &witness{}
			s := memstore.New()
			h := newRoute(t, newGuard(t, s, server.Config{Observer: seen}), server.Keyed, func(w http.ResponseWriter, r *http.Request) {
				err := store.OnComplete(r.Context(), func(ctx context.Context) error {
					require.NoError(t, ctx.Err())
					require.EqualValues(t, 1, server.Fence(ctx))
					require.ErrorIs(t, server.Settle(ctx, server.Final()), server.ErrNoRun, "the handler's verdict stands")
					return tt.hook(&rows, ctx)
				})
				require.NoError(t, err)
				if tt.status == keptRefusal {
					require.NoError(t, server.Settle(r.Context(), server.KeepRows()))
				}
				w.WriteHeader(tt.status)
			})
			w := send(h, "k", "b")
			require.Equal(t, tt.rows, rows.count())
			rec := readRecord(t, s, seen)
			require.Equal(t, tt.state, rec.State)
			if tt.status == http.StatusCreated && tt.state == server.StateReleased {
				require.Equal(t, http.StatusInternalServerError, w.Code)
				require.Equal(t, string(wire.TransactionFailed), w.Header().Get(wire.HeaderCode))
				require.Equal(t, "true", w.Header().Get(wire.HeaderShouldRetry))
				require.Equal(t, "1000", w.Header().Get(wire.HeaderRetryAfterMs))
				require.Contains(t, w.Body.String(), "again")
				require.NotContains(t, w.Body.String(), errRow.Error())
				require.True(t, rec.MaybeRan)
			}
		})
	}
}

func TestOnComplete_conflict(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var rows ledger
		runs, tries := 0, 0
		h, _ := guarded(t, server.Keyed, func(_ http.ResponseWriter, r *http.Request) {
			runs++
			_ = store.OnComplete(r.Context(), func(ctx context.Context) error {
				if tries++; tries < 3 {
					_ = memstore.Tx(ctx).Doom()
				}
				return rows.write(ctx)
			})
		})
		requireAnswer(t, send(h, "k", "b"), http.StatusOK, "", false)
		require.Equal(t, []int{1, 3, 1}, []int{runs, tries, rows.count()}, "handler runs, hook runs, rows")
	})
}

// The third conflict counts as an error of the store, as in a Transactional run.
func TestOnComplete_conflictsForEver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		seen := &witness{}
		s := memstore.New()
		tries := 0
		h := newRoute(t, newGuard(t, s, server.Config{Observer: seen}), server.Keyed, func(_ http.ResponseWriter, r *http.Request) {
			_ = store.OnComplete(r.Context(), func(ctx context.Context) error {
				tries++
				return memstore.Tx(ctx).Doom()
			})
		})
		requireCode(t, send(h, "k", "b"), wire.StoreUnavailable)
		require.Equal(t, 3, tries)
		rec := readRecord(t, s, seen)
		require.Equal(t, server.StateReleased, rec.State)
		require.True(t, rec.MaybeRan)
	})
}

// A person finds the hook's error in the log. The caller of a function finds it in the returned error.
func TestOnComplete_isLogged(t *testing.T) {
	t.Parallel()
	errRow := errors.New("row refused")
	for _, tt := range []struct {
		name  string
		fails func(ctx context.Context) error
		again bool
		wants []string
	}{
		{"its own error", func(context.Context) error { return errRow }, true, []string{`error="server: completion hook: row refused"`}},
		{"refused", func(ctx context.Context) error {
			_ = memstore.Tx(ctx).Fail(errRefused)
			return errRow
		}, false, []string{"sqlstate=23505", "constraint=one_name"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			g := newGuard(t, memstore.New(), server.Config{Logger: slog.New(slog.NewTextHandler(&out, nil))})
			_, _, err := server.Do(t.Context(), g, payroll(server.Keyed), key(t, "k"), transfer{7}, func(ctx context.Context, _ transfer) (booking, error) {
				return booking{1}, store.OnComplete(ctx, tt.fails)
			})
			var refused *server.RefusedError
			require.ErrorAs(t, err, &refused)
			require.Equal(t, wire.TransactionFailed, refused.Code)
			require.Equal(t, tt.again, refused.Retryable())
			require.ErrorIs(t, err, errRow)
			line := out.String()
			require.Equal(t, 1, strings.Count(line, "level=ERROR"), line)
			require.Contains(t, line, "code=transaction-failed")
			for _, want := range tt.wants {
				require.Contains(t, line, want)
			}
		})
	}
}

func TestOnComplete_hookPanics(t *testing.T) {
	t.Parallel()
	seen := &witness{}
	s := memstore.New()
	h := newRoute(t, newGuard(t, s, server.Config{Observer: seen}), server.Keyed, func(_ http.ResponseWriter, r *http.Request) {
		_ = store.OnComplete(r.Context(), func(context.Context) error { panic("boom") })
	})
	require.PanicsWithValue(t, "boom", func() { send(h, "k", "b") })
	require.Equal(t, server.StateReleased, readRecord(t, s, seen).State)
}

func TestRunContext_wrongPlace(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	require.ErrorIs(t, server.Settle(ctx, server.KeepRows()), server.ErrNoRun)
	require.ErrorIs(t, server.Settle(ctx, server.Final()), server.ErrNoRun)
	require.ErrorIs(t, server.Settle(ctx, server.Release()), server.ErrNoRun)
	require.ErrorIs(t, store.OnComplete(ctx, func(context.Context) error { return nil }), server.ErrNoRun)
	require.Zero(t, server.Fence(ctx))
	for effect, s := range map[server.Effect]store.Store{
		server.Transactional: memstore.New(), server.Keyed: plainStore{memstore.New()}, server.Opaque: memstore.New(),
	} {
		h := newRoute(t, newGuard(t, s, server.Config{}), effect, func(_ http.ResponseWriter, r *http.Request) {
			onComplete := store.OnComplete(r.Context(), func(context.Context) error { return nil })
			switch effect {
			case server.Keyed:
				require.ErrorIs(t, onComplete, store.ErrNoTxStore)
				require.ErrorIs(t, store.OnComplete(r.Context(), nil), store.ErrNoHook)
			case server.Opaque:
				require.ErrorIs(t, server.Settle(r.Context(), server.KeepRows()), server.ErrWrongEffect)
				fallthrough
			default:
				require.ErrorIs(t, onComplete, server.ErrWrongEffect)
			}
		})
		requireAnswer(t, send(h, "k", "b"), http.StatusOK, "", false)
	}
}

// The effect has happened and the store does not answer. The guard tries to
// record the outcome for a while, and gives the answer only after it is
// recorded.
func TestSettle_storeFails(t *testing.T) {
	t.Parallel()
	for _, down := range []time.Duration{5 * time.Second, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			under := &flaky{TxStore: memstore.New()}
			start := time.Now()
			under.settle = func(ctx context.Context, o store.Owner, s store.Settlement) error {
				if time.Since(start) < down {
					return errDown
				}
				return under.TxStore.Settle(ctx, o, s)
			}
			seen := &witness{}
			h := newRoute(t, newGuard(t, under, server.Config{Observer: seen}), server.Opaque, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "done") })
			w := send(h, "k", "b")
			if down < server.DefaultSettleTimeout {
				requireAnswer(t, w, http.StatusOK, "done", false)
				return
			}
			requireCode(t, w, wire.StoreUnavailable)
			require.Equal(t, server.DefaultSettleTimeout, time.Since(start))
			require.Equal(t, server.StateInProgress, readRecord(t, under, seen).State, "a release would invite a second run")
			requireCode(t, send(h, "k", "b"), wire.InProgress)
		})
	}
}

func TestClaim_storeFails(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		claim func(*flaky, int) error // before the call is passed on
		after func(int) error         // instead of the answer
		want  wire.Code               // "": it runs
	}{
		{name: "down", claim: func(*flaky, int) error { return errDown }, want: wire.StoreUnavailable},
		// A claim whose answer was lost is sent again: its token finds its own record.
		{name: "answer lost once", after: func(n int) error {
			if n == 1 {
				return store.ErrFateUnknown
			}
			return nil
		}},
		{name: "busy", claim: func(*flaky, int) error { return &store.BusyError{Err: errDown} }, want: wire.NotClaimed},
		// The first claim may have been made, or may still be.
		{name: "answer lost, then busy", after: func(n int) error {
			if n == 1 {
				return store.ErrFateUnknown
			}
			return &store.BusyError{Err: errDown}
		}, want: wire.StoreUnavailable},
		{name: "answer lost for good", after: func(int) error { return store.ErrFateUnknown }, want: wire.StoreUnavailable},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			runs, calls := 0, 0
			s := &flaky{TxStore: memstore.New()}
			s.claim = func(ctx context.Context, req store.ClaimRequest) (store.Record, bool, error) {
				calls++
				if tt.claim != nil {
					return store.Record{}, false, tt.claim(s, calls)
				}
				rec, mine, err := s.TxStore.Claim(ctx, req)
				if lost := tt.after(calls); lost != nil {
					return store.Record{}, false, lost
				}
				return rec, mine, err
			}
			h := newRoute(t, newGuard(t, s, server.Config{}), server.Opaque, func(http.ResponseWriter, *http.Request) { runs++ })
			w := send(h, "k", "b")
			if tt.want != "" {
				requireCode(t, w, tt.want)
				require.Zero(t, runs, "fail closed")
				return
			}
			requireAnswer(t, w, http.StatusOK, "", false)
			require.Equal(t, 1, runs)
		})
	}
}

// A take-over whose answer was lost finds itself as the owner.
func TestClaim_takeOverAnswerLost(t *testing.T) {
	t.Parallel()
	s := &flaky{TxStore: memstore.New()}
	runs := 0
	h := newRoute(t, newGuard(t, s, server.Config{}), server.Keyed, func(w http.ResponseWriter, r *http.Request) {
		if runs++; runs == 1 {
			w.WriteHeader(http.StatusBadGateway)
		}
		fmt.Fprint(w, server.Fence(r.Context()))
	})
	send(h, "k", "b")
	lost := false
	s.takeOver = func(ctx context.Context, req store.ClaimRequest, from int64) (store.Record, bool, error) {
		rec, won, err := s.TxStore.TakeOver(ctx, req, from)
		if !lost {
			lost = true
			return store.Record{}, false, store.ErrFateUnknown
		}
		return rec, won, err
	}
	requireAnswer(t, send(h, "k", "b"), http.StatusOK, "2", false)
}

// If the record is swept between two steps, the key is claimed again, and never
// runs unclaimed.
func TestClaim_recordVanishes(t *testing.T) {
	t.Parallel()
	s := &flaky{TxStore: memstore.New()}
	runs := 0
	h := newRoute(t, newGuard(t, s, server.Config{}), server.Keyed, func(w http.ResponseWriter, r *http.Request) {
		if runs++; runs == 1 {
			w.WriteHeader(http.StatusBadGateway)
		}
		fmt.Fprint(w, server.Fence(r.Context()))
	})
	send(h, "k", "b")
	s.takeOver = func(context.Context, store.ClaimRequest, int64) (store.Record, bool, error) {
		s.TxStore = memstore.New() // all is gone
		return store.Record{}, false, server.ErrNotFound
	}
	requireAnswer(t, send(h, "k", "b"), http.StatusOK, "1", false)
}

// If another process wins the take-over, the decision is made again, and this process does not run.
func TestClaim_takeOverLost(t *testing.T) {
	t.Parallel()
	s := &flaky{TxStore: memstore.New()}
	runs := 0
	handler := func(w http.ResponseWriter, _ *http.Request) {
		if runs++; runs == 1 {
			w.WriteHeader(http.StatusBadGateway)
		}
		fmt.Fprint(w, runs)
	}
	h := newRoute(t, newGuard(t, s, server.Config{}), server.Keyed, handler)
	elsewhere := newRoute(t, newGuard(t, s.TxStore, server.Config{}), server.Keyed, handler)
	send(h, "k", "b")
	s.takeOver = func(ctx context.Context, req store.ClaimRequest, from int64) (store.Record, bool, error) {
		requireAnswer(t, send(elsewhere, "k", "b"), http.StatusOK, "2", false)
		return s.TxStore.TakeOver(ctx, req, from)
	}
	requireAnswer(t, send(h, "k", "b"), http.StatusOK, "2", true)
	require.Equal(t, 2, runs)
}

// Another process quarantined the dead owner first; the record still decides.
func TestClaim_quarantineLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shared := memstore.New()
		die(t, shared, server.Opaque, server.Config{})
		seen := &witness{}
		s := &flaky{TxStore: shared}
		s.claim = func(ctx context.Context, req store.ClaimRequest) (store.Record, bool, error) {
			rec, mine, err := shared.Claim(ctx, req)
			elsewhere := newRoute(t, newGuard(t, shared, server.Config{}), server.Opaque, func(http.ResponseWriter, *http.Request) {})
			requireCode(t, send(elsewhere, "k", "b"), wire.OutcomeUnknown)
			return rec, mine, err
		}
		h := newRoute(t, newGuard(t, s, server.Config{Observer: seen}), server.Opaque, func(http.ResponseWriter, *http.Request) {
			t.Error("the handler ran")
		})
		requireCode(t, send(h, "k", "b"), wire.OutcomeUnknown)
		require.Zero(t, seen.count(server.EventUnknown), "who quarantined counts it")
	})
}
