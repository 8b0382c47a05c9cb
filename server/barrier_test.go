package server_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/memstore"
	"github.com/fanonce/fanonce/server/store"
)

// undoing answers with the fate of the forward call.
func undoing(t *testing.T, s store.Store, effect server.Effect) http.Handler {
	t.Helper()
	return newRoute(t, newGuard(t, s, server.Config{}), effect, func(w http.ResponseWriter, r *http.Request) {
		fate, err := server.Barrier(r.Context())
		if err != nil {
			http.Error(w, "whatever it writes", http.StatusOK)
			return
		}
		again, err := server.Barrier(r.Context())
		if err != nil || again != fate {
			panic("the fate changed within a run")
		}
		forward, _ := server.InboundForwardKey(r.Context())
		fmt.Fprint(w, forward, " ", fate)
	})
}

func undo(h http.Handler) string {
	return send(h, "undo-1", "u", wire.HeaderCancels, `"k"`).Body.String()
}

// The answer to an undo, and its replay, name the fate of the forward call. The handler's own value of that header is
// dropped.
func TestBarrier_inTheAnswer(t *testing.T) {
	t.Parallel()
	forward := func(t *testing.T, s store.TxStore, status int) {
		t.Helper()
		h := newRoute(t, newGuard(t, s, server.Config{}), server.Keyed, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
		send(h, "k", "b")
	}
	asking := func(status int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set(wire.HeaderForward, "whatever it writes")
			_, _ = server.Barrier(r.Context())
			w.WriteHeader(status)
		}
	}
	for _, tt := range []struct {
		name    string
		forward int // its status; 0: it never came
		undo    http.HandlerFunc
		redact  bool
		want    string
	}{
		{"ran", 201, asking(200), false, wire.ForwardRan},
		{"never ran", 0, asking(204), false, wire.ForwardNeverRan},
		{"refused", 402, asking(200), false, wire.ForwardNeverRan},
		{"maybe ran", 502, asking(200), false, wire.ForwardMaybeRan},
		{"redacted", 0, asking(200), true, wire.ForwardNeverRan},
		{"the undo is refused", 0, asking(422), false, ""},
		{"nobody asked", 0, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set(wire.HeaderForward, wire.ForwardNeverRan)
			w.WriteHeader(http.StatusOK)
		}, false, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := memstore.New()
			if tt.forward != 0 {
				forward(t, s, tt.forward)
			}
			route := server.Route{Name: "undo", Effect: server.Transactional}
			if tt.redact {
				route.Redact = func(server.Response) (server.Response, error) { return server.Response{}, nil }
			}
			h, err := newGuard(t, s, server.Config{}).Route(route, tt.undo)
			require.NoError(t, err)
			for _, replayed := range []string{"false", "true"} {
				answer := send(h, "undo-1", "u", wire.HeaderCancels, `"k"`)
				require.Equal(t, replayed, answer.Header().Get(wire.HeaderReplayed))
				require.Equal(t, tt.want, answer.Header().Get(wire.HeaderForward))
			}
		})
	}
}

func TestBarrier_fates(t *testing.T) {
	t.Parallel()
	status := func(code int) func(*testing.T, store.TxStore, server.Effect) {
		return func(t *testing.T, s store.TxStore, effect server.Effect) {
			h := newRoute(t, newGuard(t, s, server.Config{}), effect, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) })
			send(h, "k", "b")
		}
	}
	died := func(t *testing.T, s store.TxStore, effect server.Effect) { die(t, s, effect, server.Config{}) }
	for _, tt := range []struct {
		name                         string
		forward                      func(*testing.T, store.TxStore, server.Effect)
		transactional, keyed, opaque string
	}{
		{"absent", func(*testing.T, store.TxStore, server.Effect) {}, "never ran", "never ran", "never ran"},
		{"completed", status(http.StatusCreated), "ran", "ran", "ran"},
		{"refused for good", status(http.StatusPaymentRequired), "never ran", "never ran", "never ran"},
		{"refused for now", status(http.StatusTooManyRequests), "never ran", "never ran", "never ran"},
		{"failed", status(http.StatusBadGateway), "never ran", "maybe ran", "maybe ran"},
		{"died", died, "never ran", "maybe ran", "maybe ran"},
	} {
		for effect, want := range map[server.Effect]string{
			server.Transactional: tt.transactional, server.Keyed: tt.keyed, server.Opaque: tt.opaque,
		} {
			for _, undoEffect := range []server.Effect{server.Transactional, server.Keyed} {
				t.Run(fmt.Sprintf("%s %v undone by %v", tt.name, effect, undoEffect), func(t *testing.T) {
					t.Parallel()
					synctest.Test(t, func(t *testing.T) {
						s := memstore.New()
						tt.forward(t, s, effect)
						require.Equal(t, "k "+want, undo(undoing(t, s, undoEffect)))
						late := newRoute(t, newGuard(t, s, server.Config{}), effect, func(http.ResponseWriter, *http.Request) {
							t.Error("a cancelled call ran")
						})
						w := send(late, "k", "b")
						if tt.name == "refused for good" {
							require.Equal(t, "true", w.Header().Get(wire.HeaderReplayed)) // it had no effect to undo
						} else {
							requireCode(t, w, wire.KeyCancelled)
							requireCode(t, send(late, "k", "other"), wire.KeyCancelled) // wins over key-reused
						}
					})
				})
			}
		}
	}
}

// A record of the forward call that was swept says nothing. The caller that has the call's answer says that it ran, also
// to a run after one that wrote the tombstone and failed. It does not overrule a record.
func TestBarrier_forgotten(t *testing.T) {
	t.Parallel()
	for _, effect := range []server.Effect{server.Transactional, server.Keyed} {
		s := memstore.New()
		runs := 0
		undo := newRoute(t, newGuard(t, s, server.Config{}), effect, func(w http.ResponseWriter, r *http.Request) {
			fate, err := server.Barrier(r.Context())
			require.NoError(t, err)
			if runs++; runs == 1 {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
			fmt.Fprint(w, fate)
		})
		say := func(key, forward, fate string) string {
			return send(undo, key, "b", wire.HeaderCancels, forward, wire.HeaderForward, fate).Body.String()
		}
		say("undo-1", "forward", "ran")
		require.Equal(t, "ran", say("undo-1", "forward", "ran"), effect)
		require.Equal(t, 2, runs)

		refuse := newRoute(t, newGuard(t, s, server.Config{}), effect, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusConflict) })
		require.Equal(t, http.StatusConflict, send(refuse, "refused", "b").Code)
		require.Equal(t, "never ran", say("undo-2", "refused", "ran"), effect)
		for _, text := range []string{"", "never-ran", "Ran"} {
			require.Equal(t, "never ran", say("undo-3"+text, "absent"+text, text), effect)
		}
	}
}

// A refusal does not describe the runs before it: an earlier run that failed may have had effects.
func TestBarrier_refusedAfterAFailure(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		effect server.Effect
		first  func(http.ResponseWriter, *http.Request)
		then   int
		want   string
	}{
		{server.Keyed, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }, 422, "maybe ran"},
		{server.Keyed, func(http.ResponseWriter, *http.Request) { panic("the first run") }, 402, "maybe ran"},
		{server.Keyed, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }, 201, "ran"},
		{server.Keyed, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) }, 422, "never ran"},
		{server.Opaque, func(w http.ResponseWriter, r *http.Request) {
			_ = server.Settle(r.Context(), server.Release())
			w.WriteHeader(http.StatusBadGateway)
		}, 422, "maybe ran"},
		{server.Transactional, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }, 422, "never ran"},
	} {
		s, runs := memstore.New(), 0
		forward := newRoute(t, newGuard(t, s, server.Config{}), tt.effect, func(w http.ResponseWriter, r *http.Request) {
			if runs++; runs == 1 {
				tt.first(w, r)
				return
			}
			w.WriteHeader(tt.then)
		})
		func() {
			defer func() { _ = recover() }()
			send(forward, "k", "b")
		}()
		require.Equal(t, tt.then, send(forward, "k", "b").Code)
		require.Equal(t, "k "+tt.want, undo(undoing(t, s, server.Transactional)), "%v, then %d", tt.effect, tt.then)
	}
}

// While the forward call runs the undo is refused, whatever its handler does
// with the error. It runs again on a retry.
func TestBarrier_forwardInProgress(t *testing.T) {
	t.Parallel()
	for _, effect := range []server.Effect{server.Transactional, server.Keyed, server.Opaque} {
		synctest.Test(t, func(t *testing.T) {
			s := memstore.New()
			forward := newRoute(t, newGuard(t, s, server.Config{}), server.Keyed, func(http.ResponseWriter, *http.Request) { time.Sleep(time.Minute) })
			go send(forward, "k", "b")
			synctest.Wait()
			h := undoing(t, s, effect)
			requireCode(t, send(h, "undo-1", "u", wire.HeaderCancels, `"k"`), wire.InProgress)
			time.Sleep(2 * time.Minute)
			require.Equal(t, "k ran", undo(h))
		})
	}
}

// An undo that rolls back leaves no tombstone; a forward call may still run.
func TestBarrier_rollsBack(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	h := newRoute(t, newGuard(t, s, server.Config{}), server.Transactional, func(w http.ResponseWriter, r *http.Request) {
		_, err := server.Barrier(r.Context())
		require.NoError(t, err)
		w.WriteHeader(http.StatusBadGateway)
	})
	undo(h)
	forward := newRoute(t, newGuard(t, s, server.Config{}), server.Transactional, func(http.ResponseWriter, *http.Request) {})
	requireAnswer(t, send(forward, "k", "b"), http.StatusOK, "", false)
}

func TestBarrier_errors(t *testing.T) {
	t.Parallel()
	_, err := server.Barrier(t.Context())
	require.ErrorIs(t, err, server.ErrNoRun)
	h, _ := guarded(t, server.Keyed, func(_ http.ResponseWriter, r *http.Request) {
		_, err := server.Barrier(r.Context())
		require.ErrorIs(t, err, server.ErrNoForwardKey)
		_, ok := server.ForwardKey(r.Context())
		require.False(t, ok)
		_, ok = server.InboundForwardKey(r.Context())
		require.False(t, ok)
	})
	requireAnswer(t, send(h, "k", "b"), http.StatusOK, "", false)
}

type cancelFails struct{ store.TxStore }

func (cancelFails) Cancel(context.Context, store.CancelRequest) (store.Record, bool, error) {
	return store.Record{}, false, errDown
}

func TestBarrier_storeFails(t *testing.T) {
	t.Parallel()
	h := undoing(t, cancelFails{memstore.New()}, server.Keyed)
	requireCode(t, send(h, "undo-1", "u", wire.HeaderCancels, "k"), wire.StoreUnavailable)
}

// The answer of an undone call is not replayed: the effect is gone. A caller that undid half of its calls and then
// goes forward again would take the replay for a success.
func TestBarrier_undoneCallIsNotReplayed(t *testing.T) {
	t.Parallel()
	for _, effect := range []server.Effect{server.Transactional, server.Keyed, server.Opaque} {
		t.Run(effect.String(), func(t *testing.T) {
			t.Parallel()
			s := memstore.New()
			forward := newRoute(t, newGuard(t, s, server.Config{CacheBytes: 1 << 20}), server.Keyed, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusCreated)
			})
			send(forward, "k", "b")
			require.Equal(t, "true", send(forward, "k", "b").Header().Get(wire.HeaderReplayed))
			require.Equal(t, "k ran", undo(undoing(t, s, effect)))
			fresh := newRoute(t, newGuard(t, s, server.Config{}), server.Keyed, func(http.ResponseWriter, *http.Request) {
				t.Error("an undone call ran again")
			})
			requireCode(t, send(fresh, "k", "b"), wire.KeyCancelled)
			second := newRoute(t, newGuard(t, s, server.Config{}), effect, func(w http.ResponseWriter, r *http.Request) {
				fate, err := server.Barrier(r.Context())
				require.NoError(t, err)
				require.Equal(t, server.Ran, fate)
			})
			require.Equal(t, http.StatusOK, send(second, "undo-2", "u", wire.HeaderCancels, `"k"`).Code)
		})
	}
}

// As long as the undo did not succeed, the call's effect is there, and so is its answer.
func TestBarrier_failedUndoLeavesTheAnswer(t *testing.T) {
	t.Parallel()
	for _, effect := range []server.Effect{server.Transactional, server.Keyed, server.Opaque} {
		for _, status := range []int{http.StatusConflict, http.StatusTooManyRequests, http.StatusBadGateway} {
			t.Run(fmt.Sprint(effect, status), func(t *testing.T) {
				t.Parallel()
				s := memstore.New()
				forward := newRoute(t, newGuard(t, s, server.Config{}), server.Keyed, func(w http.ResponseWriter, _ *http.Request) {
					w.WriteHeader(http.StatusCreated)
				})
				send(forward, "k", "b")
				refusing := newRoute(t, newGuard(t, s, server.Config{}), effect, func(w http.ResponseWriter, r *http.Request) {
					_, err := server.Barrier(r.Context())
					require.NoError(t, err)
					w.WriteHeader(status)
				})
				require.Equal(t, status, send(refusing, "undo-1", "u", wire.HeaderCancels, `"k"`).Code)
				requireAnswer(t, send(forward, "k", "b"), http.StatusCreated, "", true)
			})
		}
	}
}

// The caller of a refused undo stops there. So the forward call must not come afterwards, although the rows of the undo
// are rolled back, and with them the first tombstone of its Barrier.
func TestBarrier_refusedUndoKeepsTheTombstone(t *testing.T) {
	t.Parallel()
	refusals := map[string]func(context.Context) error{
		"refuses":                   func(context.Context) error { return nil },
		"keeps its rows":            func(ctx context.Context) error { return server.Settle(ctx, server.KeepRows()) },
		"after a refused statement": func(ctx context.Context) error { return memstore.Tx(ctx).Fail(errRefused) },
	}
	for name, refuse := range refusals {
		for want, status := range map[server.Fate]int{server.NeverRan: 0, server.MaybeRan: http.StatusBadGateway} {
			t.Run(fmt.Sprint(name, ", ", want), func(t *testing.T) {
				t.Parallel()
				s, ran := memstore.New(), false
				forward := newRoute(t, newGuard(t, s, server.Config{}), server.Keyed, func(w http.ResponseWriter, _ *http.Request) {
					require.False(t, ran, "a late forward call ran")
					w.WriteHeader(status)
				})
				if status != 0 {
					require.Equal(t, status, send(forward, "k", "b").Code)
				}
				ran = true
				backward := newRoute(t, newGuard(t, s, server.Config{}), server.Transactional, func(w http.ResponseWriter, r *http.Request) {
					fate, err := server.Barrier(r.Context())
					require.NoError(t, err)
					require.Equal(t, want, fate)
					require.NoError(t, refuse(r.Context()))
					w.WriteHeader(http.StatusUnprocessableEntity)
				})
				for _, replayed := range []bool{false, true} {
					requireAnswer(t, send(backward, "undo-1", "u", wire.HeaderCancels, `"k"`), http.StatusUnprocessableEntity, "", replayed)
				}
				requireCode(t, send(forward, "k", "b"), wire.KeyCancelled)
			})
		}
	}
}

// The forward call comes between the rollback of a refused undo and its second transaction. The undo refused because
// of what Barrier told it before, so it runs again, and refuses or undoes what is there now.
func TestBarrier_forwardCallBeforeTheRefusalIsStored(t *testing.T) {
	t.Parallel()
	for _, running := range []bool{false, true} { // when the second transaction begins
		s, begun := &flaky{TxStore: memstore.New()}, 0
		g := newGuard(t, s, server.Config{})
		arrived, leave := make(chan struct{}), make(chan struct{})
		forward := newRoute(t, g, server.Keyed, func(http.ResponseWriter, *http.Request) {
			if running {
				close(arrived)
				<-leave
			}
		})
		done := make(chan int, 1)
		s.begin = func(ctx context.Context) (store.Tx, error) {
			if begun++; begun == 2 {
				go func() { done <- send(forward, "k", "b").Code }()
				if running {
					<-arrived
				} else {
					done <- <-done
				}
			}
			return s.TxStore.Begin(ctx)
		}
		var fates []server.Fate
		backward := newRoute(t, g, server.Transactional, func(w http.ResponseWriter, r *http.Request) {
			fate, err := server.Barrier(r.Context())
			require.NoError(t, err)
			fates = append(fates, fate)
			if fate == server.NeverRan {
				w.WriteHeader(http.StatusUnprocessableEntity)
			}
		})
		w := send(backward, "undo-1", "u", wire.HeaderCancels, `"k"`)
		if running {
			requireCode(t, w, wire.InProgress)
			close(leave)
			require.Equal(t, http.StatusOK, <-done)
			w = send(backward, "undo-1", "u", wire.HeaderCancels, `"k"`)
		} else {
			require.Equal(t, http.StatusOK, <-done)
		}
		require.Equal(t, http.StatusOK, w.Code)
		require.Equal(t, wire.ForwardRan, w.Header().Get(wire.HeaderForward))
		require.Equal(t, []server.Fate{server.NeverRan, server.Ran}, fates)
		requireCode(t, send(forward, "k", "b"), wire.KeyCancelled)
	}
}

// The process that served the undo does not replay the undone call from its memory.
func TestBarrier_undoneCallLeavesTheCache(t *testing.T) {
	t.Parallel()
	g := newGuard(t, memstore.New(), server.Config{CacheBytes: 1 << 20})
	forward := newRoute(t, g, server.Keyed, func(http.ResponseWriter, *http.Request) {})
	send(forward, "k", "b")
	require.Equal(t, "true", send(forward, "k", "b").Header().Get(wire.HeaderReplayed))
	backward := newRoute(t, g, server.Transactional, func(_ http.ResponseWriter, r *http.Request) {
		_, err := server.Barrier(r.Context())
		require.NoError(t, err)
		require.Equal(t, "true", send(forward, "k", "b").Header().Get(wire.HeaderReplayed)) // not undone yet
	})
	require.Equal(t, http.StatusOK, send(backward, "undo-1", "u", wire.HeaderCancels, `"k"`).Code)
	requireCode(t, send(forward, "k", "b"), wire.KeyCancelled)
}
