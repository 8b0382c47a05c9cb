package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/memstore"
)

type (
	transfer struct{ Cents int }
	booking  struct{ ID int64 }
)

func key(tb testing.TB, text string) childkey.Key {
	tb.Helper()
	k, err := childkey.Parse(text)
	require.NoError(tb, err)
	return k
}

func payroll(effect server.Effect) server.Task {
	return server.Task{Name: "payroll/pay", Scope: "acme", Effect: effect}
}

func TestDo_runsOnce(t *testing.T) {
	t.Parallel()
	for _, effect := range []server.Effect{server.Transactional, server.Keyed, server.Opaque} {
		t.Run(effect.String(), func(t *testing.T) {
			t.Parallel()
			g := newGuard(t, memstore.New(), server.Config{Wait: 5 * time.Second})
			var runs, replays atomic.Int64
			var wg sync.WaitGroup
			for range 64 {
				wg.Go(func() {
					out, replayed, err := server.Do(t.Context(), g, payroll(effect), key(t, "k"), transfer{7}, func(ctx context.Context, in transfer) (booking, error) {
						parent, _ := childkey.FromContext(ctx)
						if in.Cents != 7 || parent != hopKey(t, "acme", "", "k") || server.Fence(ctx) != 1 {
							t.Errorf("in = %v, parent = %v, fence = %d", in, parent, server.Fence(ctx))
						}
						return booking{runs.Add(1)}, nil
					})
					if err != nil || out.ID != 1 {
						t.Errorf("Do = %v, %v", out, err)
					}
					if replayed {
						replays.Add(1)
					}
				})
			}
			wg.Wait()
			require.EqualValues(t, 1, runs.Load())
			require.EqualValues(t, 63, replays.Load())
		})
	}
}

// The first caller and all others get the same value, with every digit of a number.
func TestDo_sameValueForAll(t *testing.T) {
	t.Parallel()
	g := newGuard(t, memstore.New(), server.Config{})
	type receipt struct {
		Any    any
		List   []any
		Secret string `json:"-"`
	}
	var got []receipt
	for range 2 {
		out, _, err := server.Do(t.Context(), g, payroll(server.Keyed), key(t, "k"), transfer{}, func(context.Context, transfer) (receipt, error) {
			return receipt{Any: int64(9007199254740993), List: []any{0.1, "x", uint64(math.MaxUint64)}, Secret: "s"}, nil
		})
		require.NoError(t, err)
		got = append(got, out)
	}
	want := receipt{Any: json.Number("9007199254740993"), List: []any{json.Number("0.1"), "x", json.Number("18446744073709551615")}}
	require.Equal(t, []receipt{want, want}, got)
}

// A verdict is stored; a failure is not.
func TestDo_errors(t *testing.T) {
	t.Parallel()
	declined := &server.StatusError{Status: http.StatusPaymentRequired, Code: "declined", Detail: "No funds.", Err: errors.New("limit 42")}
	failure := errors.New("no route to the bank")
	for _, tt := range []struct {
		name   string
		effect server.Effect
		err    error
		second func(*testing.T, error)
		runs   int
	}{
		{"verdict", server.Keyed, declined, func(t *testing.T, err error) {
			var verdict *server.StatusError
			require.ErrorAs(t, err, &verdict)
			require.Equal(t, &server.StatusError{Status: http.StatusPaymentRequired, Code: "declined", Detail: "No funds."}, verdict)
		}, 1},
		{"failure, transactional", server.Transactional, failure, func(t *testing.T, err error) { require.ErrorIs(t, err, failure) }, 2},
		{"failure, keyed", server.Keyed, failure, func(t *testing.T, err error) { require.ErrorIs(t, err, failure) }, 2},
		{"failure, opaque", server.Opaque, failure, func(t *testing.T, err error) {
			require.ErrorIs(t, err, &server.RefusedError{Code: wire.OutcomeUnknown})
		}, 1},
		{"status 503", server.Keyed, &server.StatusError{Status: 503}, func(t *testing.T, err error) {
			var status *server.StatusError
			require.ErrorAs(t, err, &status)
		}, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			g := newGuard(t, memstore.New(), server.Config{})
			runs := 0
			pay := func() error {
				_, _, err := server.Do(t.Context(), g, payroll(tt.effect), key(t, "k"), transfer{}, func(context.Context, transfer) (booking, error) {
					runs++
					return booking{}, tt.err
				})
				return err
			}
			require.ErrorIs(t, pay(), tt.err)
			tt.second(t, pay())
			require.Equal(t, tt.runs, runs)
		})
	}
}

func TestDo_transaction(t *testing.T) {
	t.Parallel()
	g := newGuard(t, memstore.New(), server.Config{})
	rows := 0
	pay := func(ctx context.Context, in transfer) (booking, error) {
		err := memstore.Tx(ctx).Do(func() { rows++ })
		if in.Cents < 0 {
			err = errors.Join(err, errors.New("negative"))
		}
		return booking{}, err
	}
	_, _, err := server.Do(t.Context(), g, payroll(server.Transactional), key(t, "bad"), transfer{-1}, pay)
	require.Error(t, err)
	require.Zero(t, rows, "rolled back")
	for range 2 {
		_, _, err = server.Do(t.Context(), g, payroll(server.Transactional), key(t, "good"), transfer{1}, pay)
		require.NoError(t, err)
	}
	require.Equal(t, 1, rows)
}

// The same instant in another zone is the same request.
func TestDo_inAnotherZone(t *testing.T) {
	t.Parallel()
	g := newGuard(t, memstore.New(), server.Config{})
	type visit struct{ At time.Time }
	at := time.Date(2026, 3, 1, 23, 30, 0, 0, time.UTC)
	ran := 0
	do := func(at time.Time) error {
		task := server.Task{Name: "visit", Scope: "unscoped", Effect: server.Keyed}
		_, _, err := server.Do(t.Context(), g, task, key(t, "k"), visit{at}, func(context.Context, visit) (booking, error) {
			ran++
			return booking{}, nil
		})
		return err
	}
	for _, zone := range []*time.Location{time.FixedZone("", 7200), time.UTC, time.FixedZone("", -18000)} {
		require.NoError(t, do(at.In(zone)), zone)
	}
	require.Equal(t, 1, ran)
	require.ErrorIs(t, do(at.Add(time.Second)), &server.RefusedError{Code: wire.KeyReused})
}

// One key is for one request, whichever function or route receives it.
func TestDo_keyReused(t *testing.T) {
	t.Parallel()
	g := newGuard(t, memstore.New(), server.Config{})
	do := func(task server.Task, cents int) error {
		_, _, err := server.Do(t.Context(), g, task, key(t, "k"), transfer{cents}, func(context.Context, transfer) (booking, error) { return booking{}, nil })
		return err
	}
	task := server.Task{Name: "pay", Scope: "unscoped", Effect: server.Keyed}
	require.NoError(t, do(task, 1))
	reused := &server.RefusedError{Code: wire.KeyReused}
	require.ErrorIs(t, do(task, 2), reused)
	other := task
	other.Name = "refund"
	require.ErrorIs(t, do(other, 1), reused)
	requireCode(t, send(newRoute(t, g, server.Keyed, nil), "k", `{"Cents":1}`), wire.KeyReused)
	elsewhere := task
	elsewhere.Scope = "another tenant"
	require.NoError(t, do(elsewhere, 2))
}

func TestDo_badInput(t *testing.T) {
	t.Parallel()
	store := &flaky{TxStore: memstore.New()}
	g := newGuard(t, store, server.Config{KeyPolicy: refuseShort, MaxRequestBytes: 20})
	good, task := key(t, "kk"), payroll(server.Keyed)
	fn := func(context.Context, any) (any, error) { t.Error("it ran"); return nil, nil }
	with := func(change func(*server.Task)) server.Task { c := task; change(&c); return c }
	rejected := new(server.ConfigError)
	for _, tt := range []struct {
		name string
		g    *server.Guard
		task server.Task
		key  childkey.Key
		in   any
		fn   func(context.Context, any) (any, error)
		want error // a RefusedError or a sentinel; nil: a ConfigError
	}{
		{"no guard", nil, task, good, 1, fn, nil},
		{"no function", g, task, good, 1, nil, nil},
		{"no name", g, with(func(t *server.Task) { t.Name = "" }), good, 1, fn, nil},
		{"name with NUL", g, with(func(t *server.Task) { t.Name = "a\x00b" }), good, 1, fn, nil},
		{"name that is no text", g, with(func(t *server.Task) { t.Name = "\xff" }), good, 1, fn, nil},
		{"long name", g, with(func(t *server.Task) { t.Name = strings.Repeat("n", server.MaxNameBytes+1) }), good, 1, fn, nil},
		{"no effect", g, with(func(t *server.Task) { t.Effect = 0 }), good, 1, fn, nil},
		{"wait beyond the cap", g, with(func(t *server.Task) { t.Wait = time.Hour }), good, 1, fn, nil},
		{"namespace that is no name", g, with(func(t *server.Task) { t.Namespace = "inbox/" }), good, 1, fn, nil},
		{"namespace of a saga", g, with(func(t *server.Task) { t.Namespace = "saga/x" }), good, 1, fn, nil},
		{"namespace that another guard can have", g, with(func(t *server.Task) { t.Namespace = "x" }), good, 1, fn, nil},
		{"no scope", g, with(func(t *server.Task) { t.Scope = "" }), good, 1, fn, &server.RefusedError{Code: wire.ScopeMissing}},
		{"scope is not UTF-8", g, with(func(t *server.Task) { t.Scope = "t\xff" }), good, 1, fn, &server.RefusedError{Code: wire.ScopeMissing}},
		{"long scope", g, with(func(t *server.Task) { t.Scope = strings.Repeat("s", 1025) }), good, 1, fn, &server.RefusedError{Code: wire.ScopeMissing}},
		{"no key", g, task, childkey.Key{}, 1, fn, &server.RefusedError{Code: wire.KeyMissing}},
		{"short key", g, task, key(t, "k"), 1, fn, &server.RefusedError{Code: wire.KeyInvalid}},
		{"undo of itself", g, with(func(t *server.Task) { t.Cancels = good }), good, 1, fn, &server.RefusedError{Code: wire.KeyInvalid}},
		{"from the future", g, with(func(t *server.Task) { t.FirstSent = time.Now().Add(time.Hour) }), good, 1, fn, &server.RefusedError{Code: wire.FirstSentInvalid}},
		{"not JSON", g, task, good, math.NaN(), fn, server.ErrArgument},
		{"large", g, task, good, strings.Repeat("x", 21), fn, &server.RefusedError{Code: wire.BodyTooLarge}},
	} {
		_, _, err := server.Do(t.Context(), tt.g, tt.task, tt.key, tt.in, tt.fn)
		if tt.want == nil {
			require.ErrorAs(t, err, &rejected, tt.name)
		} else {
			require.ErrorIs(t, err, tt.want, tt.name)
		}
	}
	require.Zero(t, store.asked.Load())
}

// JSON would give two inputs that differ one fingerprint, or a replay another result.
func TestDo_typesThatJSONLoses(t *testing.T) {
	t.Parallel()
	type card struct {
		Cents  int
		number string
	}
	_ = card{number: ""}
	store := &flaky{TxStore: memstore.New()}
	g := newGuard(t, store, server.Config{})
	_, _, err := server.Do(t.Context(), g, payroll(server.Keyed), key(t, "k"), card{Cents: 1}, func(context.Context, card) (int, error) { t.Error("it ran"); return 0, nil })
	require.ErrorIs(t, err, server.ErrArgument)
	require.ErrorIs(t, err, contract.ErrType)
	require.ErrorContains(t, err, "number")
	_, _, err = server.Do(t.Context(), g, payroll(server.Keyed), key(t, "k"), 1, func(context.Context, int) ([]error, error) { t.Error("it ran"); return nil, nil })
	require.ErrorIs(t, err, contract.ErrType)
	require.Zero(t, store.asked.Load())
}

func TestDo_output(t *testing.T) {
	t.Parallel()
	g := newGuard(t, memstore.New(), server.Config{MaxResponseBytes: 10})
	do := func(k string, out any) (any, bool, error) {
		return server.Do(t.Context(), g, payroll(server.Keyed), key(t, k), 1, func(context.Context, int) (any, error) { return out, nil })
	}
	_, _, err := do("nan", math.NaN())
	require.ErrorIs(t, err, server.ErrNotStorable)
	require.ErrorIs(t, err, &server.RefusedError{Code: wire.NotStorable})
	out, replayed, err := do("large", strings.Repeat("x", 11))
	require.NoError(t, err)
	require.Len(t, out, 11)
	require.False(t, replayed)
	_, _, err = do("large", "")
	require.ErrorIs(t, err, &server.RefusedError{Code: wire.ResponseGone})
	var refused *server.RefusedError
	require.ErrorAs(t, err, &refused)
	require.False(t, refused.Retryable())
}

// The caller's ctx ends the caller's wait, and never a run.
func TestDo_ctxEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGuard(t, memstore.New(), server.Config{Wait: 10 * time.Second})
		slowly := func(ctx context.Context, in transfer) (booking, error) {
			time.Sleep(5 * time.Second)
			return booking{1}, ctx.Err()
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		go func() {
			defer cancel()
			_, _, err := server.Do(t.Context(), g, payroll(server.Keyed), key(t, "k"), transfer{}, slowly)
			require.NoError(t, err)
		}()
		synctest.Wait()
		_, _, err := server.Do(ctx, g, payroll(server.Keyed), key(t, "k"), transfer{}, slowly)
		require.ErrorIs(t, err, &server.RefusedError{Code: wire.InProgress})
		require.Equal(t, time.Second, time.Since(start))
		out, _, err := server.Do(ctx, g, payroll(server.Keyed), key(t, "own"), transfer{}, slowly)
		require.ErrorIs(t, err, context.DeadlineExceeded, "it was over before: nothing ran")
		require.ErrorIs(t, err, &server.RefusedError{Code: wire.NotClaimed})
		require.Zero(t, out)

		short, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		out, _, err = server.Do(short, g, payroll(server.Keyed), key(t, "own"), transfer{}, slowly)
		require.NoError(t, err)
		require.EqualValues(t, 1, out.ID)
	})
}

func TestDo_undo(t *testing.T) {
	t.Parallel()
	g := newGuard(t, memstore.New(), server.Config{})
	undo := payroll(server.Transactional)
	undo.Name, undo.Cancels = "payroll/undo", key(t, "forward")
	_, _, err := server.Do(t.Context(), g, undo, key(t, "undo"), transfer{}, func(ctx context.Context, _ transfer) (booking, error) {
		fate, err := server.Barrier(ctx)
		require.Equal(t, server.NeverRan, fate)
		return booking{}, err
	})
	require.NoError(t, err)
	_, _, err = server.Do(t.Context(), g, payroll(server.Transactional), key(t, "forward"), transfer{}, func(context.Context, transfer) (booking, error) {
		t.Error("a late forward call ran")
		return booking{}, nil
	})
	require.ErrorIs(t, err, &server.RefusedError{Code: wire.KeyCancelled})
}

func TestDo_panics(t *testing.T) {
	t.Parallel()
	g := newGuard(t, memstore.New(), server.Config{})
	require.PanicsWithValue(t, "boom", func() {
		_, _, _ = server.Do(t.Context(), g, payroll(server.Opaque), key(t, "k"), 1, func(context.Context, int) (int, error) { panic("boom") })
	})
	_, _, err := server.Do(t.Context(), g, payroll(server.Opaque), key(t, "k"), 1, func(context.Context, int) (int, error) { return 0, nil })
	require.ErrorIs(t, err, &server.RefusedError{Code: wire.OutcomeUnknown})
}

// Guard.Do is for adapters: their answer is stored and replayed unchanged.
func TestGuardDo(t *testing.T) {
	t.Parallel()
	for _, effect := range []server.Effect{server.Transactional, server.Keyed, server.Opaque} {
		for _, tt := range []struct {
			name   string
			answer server.Response
			err    error
			runs   int // of two calls
		}{
			{"answer", server.Response{Status: http.StatusCreated, Header: http.Header{"Location": {"/7"}, "Date": {"now"}}, Body: []byte("seven")}, nil, 1},
			{"refusal", server.Response{Status: http.StatusUnprocessableEntity, Body: []byte("no")}, nil, 1},
			{"verdict", server.Response{}, &server.StatusError{Status: http.StatusPaymentRequired, Code: "declined"}, 1},
			{"failure by status", server.Response{Status: http.StatusBadGateway}, nil, 2},
			{"failure", server.Response{}, errDown, 2},
			{"status that none is", server.Response{}, nil, 2},
			{"body that none may be", server.Response{Status: http.StatusNoContent, Body: []byte("b")}, nil, 2},
		} {
			t.Run(effect.String()+" "+tt.name, func(t *testing.T) {
				t.Parallel()
				g, runs := newGuard(t, memstore.New(), server.Config{}), 0
				do := func() (server.Response, bool, error) {
					return g.Do(t.Context(), payroll(effect), key(t, "k"), []byte("input"), func(context.Context) (server.Response, error) {
						runs++
						return tt.answer, tt.err
					})
				}
				first, replayed, firstErr := do()
				require.False(t, replayed)
				again, replayed, err := do()
				if tt.runs > 1 {
					if effect == server.Opaque {
						require.ErrorIs(t, err, &server.RefusedError{Code: wire.OutcomeUnknown})
						return
					}
					require.Equal(t, tt.runs, runs)
					require.Equal(t, tt.name == "failure by status", firstErr == nil)
					return
				}
				require.True(t, replayed)
				require.Equal(t, tt.runs, runs)
				require.Equal(t, first.Status, again.Status)
				require.Equal(t, string(first.Body), string(again.Body))
				require.Equal(t, first.Header.Get("Location"), again.Header.Get("Location"))
				require.Empty(t, again.Header.Get("Date"))
				if tt.err == nil {
					require.NoError(t, firstErr)
					require.NoError(t, err)
					return
				}
				require.ErrorIs(t, firstErr, tt.err)
				require.Equal(t, tt.err, err)
			})
		}
	}
}

// A caller may change what it gets: the answer of the next call is its own.
func TestGuardDo_answersShareNothing(t *testing.T) {
	t.Parallel()
	g := newGuard(t, memstore.New(), server.Config{CacheBytes: 1 << 20})
	for range 3 {
		answer, _, err := g.Do(t.Context(), payroll(server.Keyed), key(t, "k"), nil, func(context.Context) (server.Response, error) {
			return server.Response{Status: http.StatusOK, Body: []byte("seven")}, nil
		})
		require.NoError(t, err)
		require.Equal(t, "seven", string(answer.Body))
		copy(answer.Body, "eight")
	}
}

// A task's namespace is its own under each guard, and so are its keys.
func TestGuardDo_namespace(t *testing.T) {
	t.Parallel()
	shared := memstore.New()
	parents := make(map[childkey.Key]bool)
	for _, tt := range []struct{ guard, task string }{{"", ""}, {"", "inbox/a"}, {"x", ""}, {"x", "a"}, {"x", "inbox/a"}, {"a", ""}, {"a", "x"}} {
		g := newGuard(t, shared, server.Config{Namespace: tt.guard})
		task := payroll(server.Keyed)
		task.Namespace = tt.task
		_, replayed, err := g.Do(t.Context(), task, key(t, "k"), nil, func(ctx context.Context) (server.Response, error) {
			parent, _ := childkey.FromContext(ctx)
			parents[parent] = true
			return server.Response{Status: http.StatusOK}, nil
		})
		require.NoError(t, err)
		require.False(t, replayed, "%+v", tt)
		l, err := g.LookupTask(t.Context(), task, key(t, "k"))
		require.NoError(t, err)
		require.Equal(t, server.StateCompleted, l.State)
	}
	require.Len(t, parents, 7)
	require.False(t, parents[childkey.Key{}])
	g := newGuard(t, shared, server.Config{})
	_, err := g.LookupTask(t.Context(), server.Task{}, key(t, "k"))
	require.Error(t, err)
	_, err = g.LookupTask(t.Context(), payroll(server.Keyed), childkey.Key{})
	require.ErrorIs(t, err, server.ErrArgument)
}

func TestGuardDo_badInput(t *testing.T) {
	t.Parallel()
	g := newGuard(t, memstore.New(), server.Config{})
	_, _, err := g.Do(t.Context(), payroll(server.Keyed), key(t, "k"), nil, nil)
	require.ErrorAs(t, err, new(*server.ConfigError))
	require.ErrorAs(t, g.CheckTask(server.Task{}), new(*server.ConfigError))
	require.NoError(t, g.CheckTask(payroll(server.Keyed)))
}
