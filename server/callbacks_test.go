package server_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/memstore"
	"github.com/fanonce/fanonce/server/store"
)

// An intruder is a Tracer that does something in each of its methods.
type intruder struct {
	do    func(ctx context.Context)
	calls atomic.Int64
}

func (i *intruder) intrude(ctx context.Context) {
	i.calls.Add(1)
	i.do(ctx)
}

func (i *intruder) Observe(ctx context.Context, _ server.Event) { i.intrude(ctx) }

func (i *intruder) CallStarted(ctx context.Context, _ server.CallEvent) context.Context {
	i.intrude(ctx)
	return ctx
}

func (i *intruder) RunStarted(ctx context.Context, _ server.CallEvent) context.Context {
	i.intrude(ctx)
	return ctx
}
func (i *intruder) CallEnded(ctx context.Context) { i.intrude(ctx) }
func (i *intruder) RunEnded(ctx context.Context)  { i.intrude(ctx) }

func (i *intruder) Trace(ctx context.Context) string {
	i.intrude(ctx)
	return "trace"
}

// What an Observer does changes no answer: it panics, takes its time, asks the guard, or changes the run that it hears of.
func TestCallbacks_observer(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		do   func(ctx context.Context, g *server.Guard)
	}{
		{"panics", func(context.Context, *server.Guard) { panic("boom") }},
		{"is slow", func(context.Context, *server.Guard) { time.Sleep(time.Second) }},
		{"looks a key up", func(ctx context.Context, g *server.Guard) {
			_, _ = g.Lookup(context.WithoutCancel(ctx), "unscoped", childkey.MustParse("other"))
		}},
		{"lists", func(ctx context.Context, g *server.Guard) {
			_, _ = g.ListStuck(context.WithoutCancel(ctx), store.ListRequest{})
		}},
		{"calls the functions of a handler", func(ctx context.Context, _ *server.Guard) {
			server.Fence(ctx)
			_ = server.Settle(ctx)
			_, _ = server.Barrier(ctx)
		}},
	} {
		for _, effect := range []server.Effect{server.Transactional, server.Keyed, server.Opaque} {
			t.Run(fmt.Sprint(tt.name, ", ", effect), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					var g *server.Guard
					seen := &intruder{do: func(ctx context.Context) { tt.do(ctx, g) }}
					s := &flaky{TxStore: memstore.New()}
					s.renew = func(context.Context, []store.Owner, time.Duration) (store.Renewal, error) {
						return store.Renewal{}, errDown
					}
					g = newGuard(t, s, server.Config{Observer: seen, Lease: time.Minute})
					h := newRoute(t, g, effect, func(w http.ResponseWriter, r *http.Request) {
						switch r.Header.Get("How") {
						case "panic":
							panic(http.ErrAbortHandler)
						case "long":
							<-r.Context().Done()
						}
						fmt.Fprint(w, "done")
					})
					requireAnswer(t, send(h, "k", "b"), http.StatusOK, "done", false)
					requireAnswer(t, send(h, "k", "b"), http.StatusOK, "done", true)
					requireCode(t, send(h, "k", "other"), wire.KeyReused)
					require.PanicsWithValue(t, http.ErrAbortHandler, func() { send(h, "p", "b", "How", "panic") })
					began := time.Now()
					send(h, "long", "b", "How", "long") // its lease is lost
					require.Less(t, time.Since(began), 2*time.Minute)
					require.Greater(t, seen.calls.Load(), int64(20))
				})
			})
		}
	}
}

// A barrier whose store fails tells the Observer, who may ask for the fate himself.
func TestCallbacks_observerOfABarrier(t *testing.T) {
	t.Parallel()
	asked := 0
	seen := &intruder{do: func(ctx context.Context) {
		if _, err := server.Barrier(ctx); errors.Is(err, errDown) {
			asked++
		}
	}}
	g := newGuard(t, failingCancel{memstore.New()}, server.Config{Observer: seen})
	h := newRoute(t, g, server.Keyed, func(_ http.ResponseWriter, r *http.Request) {
		_, err := server.Barrier(r.Context())
		require.ErrorIs(t, err, errDown)
	})
	requireCode(t, send(h, "undo", "b", wire.HeaderCancels, "forward"), wire.StoreUnavailable)
	require.Positive(t, asked)
}

// A failingCancel is a store that cannot cancel.
type failingCancel struct{ *memstore.Store }

func (failingCancel) Cancel(context.Context, store.CancelRequest) (store.Record, bool, error) {
	return store.Record{}, false, errDown
}

// A function of a route or of the guard panics before the claim, or while it makes an answer. The key is as usable as
// before: the next call runs, or gets its replay.
func TestCallbacks_panicsLeaveTheKeyUsable(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"scope", "policy", "key", "fingerprint", "memo", "handler", "redact", "render problem"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			panics := true
			enter := func(function string) {
				if panics && function == name {
					panic(http.ErrAbortHandler)
				}
			}
			g, err := server.NewGuard(memstore.New(), func(*http.Request) (string, error) { enter("scope"); return "s", nil }, server.Config{
				KeyPolicy: func(childkey.Key) error { enter("policy"); return nil },
				RenderProblem: func(_ *http.Request, p wire.Problem) server.Response {
					enter("render problem")
					return server.Response{Status: p.Status, Body: []byte("refused")}
				},
			})
			require.NoError(t, err)
			runs := 0
			h, err := g.Route(server.Route{
				Effect: server.Opaque, Name: "r",
				Key: func(r *http.Request, _ []byte) (string, error) {
					enter("key")
					return r.Header.Get(wire.HeaderKey), nil
				},
				Fingerprint: func(_ *http.Request, body []byte) ([]byte, error) { enter("fingerprint"); return body, nil },
				Memo:        func(*http.Request, []byte) ([]byte, error) { enter("memo"); return []byte("m"), nil },
				Redact:      func(r server.Response) (server.Response, error) { enter("redact"); return r, nil },
				Reconcile: func(context.Context, store.Record) (server.Resolution, error) {
					return server.NeverHappened(), nil
				},
			}, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				enter("handler")
				runs++
				fmt.Fprint(w, "done")
			}))
			require.NoError(t, err)
			func() {
				defer func() { _ = recover() }() // as net/http does
				send(h, "k", "b")
			}()
			panics = false
			w := send(h, "k", "b")
			if name == "redact" { // it ran, and its answer is not stored
				requireCodeOf(t, w.Header(), wire.ResponseGone)
			} else {
				require.Equal(t, http.StatusOK, w.Code)
			}
			require.Equal(t, 1, runs)
		})
	}
}

func requireCodeOf(t *testing.T, header http.Header, code wire.Code) {
	t.Helper()
	require.Equal(t, string(code), header.Get(wire.HeaderCode))
}

// A completion hook and a renderer panic, take their time, or ask the guard. The call or the next one has its answer, and
// the guard waits for nothing that it holds itself.
func TestCallbacks_ofARun(t *testing.T) {
	t.Parallel()
	how := map[string]func(ctx context.Context, g *server.Guard){
		"panics":  func(context.Context, *server.Guard) { panic(http.ErrAbortHandler) },
		"is slow": func(context.Context, *server.Guard) { time.Sleep(time.Second) },
		"asks the guard": func(ctx context.Context, g *server.Guard) {
			ctx = context.WithoutCancel(ctx)
			_, _ = g.Lookup(ctx, "unscoped", childkey.MustParse("k"))
			_, _ = g.ListStuck(ctx, store.ListRequest{})
		},
	}
	for name, do := range how {
		for _, function := range []string{"on complete", "render"} {
			t.Run(function+" "+name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					g := newGuard(t, memstore.New(), server.Config{})
					entered := 0
					enter := func(ctx context.Context, in string) {
						if in == function {
							if entered++; entered == 1 {
								do(ctx, g)
							}
						}
					}
					route := server.Route{Effect: server.Keyed, Name: "r"}
					route.Render = func(r *http.Request, status int, _ string) (server.Response, error) {
						enter(r.Context(), "render")
						return server.Response{Status: status, Body: []byte("done")}, nil
					}
					h, err := g.Route(route, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
						assert.NoError(t, store.OnComplete(r.Context(), func(ctx context.Context) error {
							enter(ctx, "on complete")
							return nil
						}))
						assert.NoError(t, server.Settle(r.Context(), server.Reference("7")))
					}))
					require.NoError(t, err)
					for range 3 {
						func() {
							defer func() { _ = recover() }() // as net/http does
							send(h, "k", "b")
						}()
					}
					require.Positive(t, entered)
					requireAnswer(t, send(h, "k", "b"), http.StatusOK, "done", true)
				})
			})
		}
	}
}

// A Reconcile and the methods of a Codec panic, wait for the answer to another key, or ask the guard. Neither the call
// nor the guard waits for itself, and a panic ends as an error does.
func TestCallbacks_reconcileAndCodec(t *testing.T) {
	t.Parallel()
	for _, function := range []string{"reconcile", "seal memo", "open memo", "seal answer", "open answer"} {
		for _, how := range []string{"panics", "is slow", "asks the guard"} {
			t.Run(function+" "+how, func(t *testing.T) {
				t.Parallel()
				var g *server.Guard
				var h http.Handler
				var entered atomic.Int64
				enter := func(in string) {
					if in != function || entered.Add(1) != 1 {
						return
					}
					switch how {
					case "panics":
						panic(http.ErrAbortHandler)
					case "is slow": // it lasts until another key has run and has been replayed
						for range 2 {
							if w := within(t, func() *httptest.ResponseRecorder { return send(h, "other", "b") }); w != nil {
								assert.Equal(t, http.StatusOK, w.Code)
							}
						}
					default:
						_, err := g.Lookup(t.Context(), "unscoped", childkey.MustParse("k"))
						assert.Equal(t, function == "seal memo", err != nil, "%v: only the memo is sealed before the claim", err)
						_, err = g.ListStuck(t.Context(), store.ListRequest{})
						assert.NoError(t, err)
						_, err = g.Sweep(t.Context())
						assert.NoError(t, err)
					}
				}
				seen := new(witness)
				g = newGuard(t, memstore.New(), server.Config{Observer: seen, Codec: intrudingCodec(enter)})
				var err error
				h, err = g.Route(server.Route{
					Effect: server.Opaque, Name: "charges",
					Memo: func(*http.Request, []byte) ([]byte, error) { return []byte("memo"), nil },
					Reconcile: func(context.Context, store.Record) (server.Resolution, error) {
						enter("reconcile")
						return server.NeverHappened(), nil
					},
				}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.Header.Get("How") == "fail" {
						w.WriteHeader(http.StatusInternalServerError)
					}
					fmt.Fprint(w, "done")
				}))
				require.NoError(t, err)
				call := func(headers ...string) *httptest.ResponseRecorder {
					w := within(t, func() *httptest.ResponseRecorder { return send(h, "k", "b", headers...) })
					require.NotNil(t, w)
					return w
				}
				switch function {
				case "reconcile", "open memo": // of an unknown run
					require.Equal(t, http.StatusInternalServerError, call("How", "fail").Code)
					if how == "panics" {
						for range 2 {
							requireUndecided(t, call(), server.DefaultHandlerTimeout)
						}
						require.EqualValues(t, 1, entered.Load(), "the key rests")
						require.Equal(t, function == "open memo", seen.count(server.EventSealError) == 1)
						require.Equal(t, function == "reconcile", seen.count(server.EventReconcile) == 1)
						return
					}
				case "seal memo": // nothing was claimed
					if how == "panics" {
						requireCode(t, call(), wire.NotClaimed)
						require.Zero(t, seen.count(server.EventMiss))
					}
				}
				requireAnswer(t, call(), http.StatusOK, "done", false)
				if how == "panics" && function != "seal memo" {
					requireCode(t, call(), map[string]wire.Code{"seal answer": wire.ResponseGone, "open answer": wire.RecordUnreadable}[function])
					require.ErrorContains(t, seen.all(server.EventSealError)[0].Err, "Codec panicked")
				}
				if how != "panics" || function != "seal answer" {
					requireAnswer(t, call(), http.StatusOK, "done", true)
				}
				require.Positive(t, entered.Load())
			})
		}
	}
}

// An intrudingCodec is a Codec that calls itself before it does anything, with what that is.
type intrudingCodec func(what string)

func (c intrudingCodec) Seal(plain, _ []byte) ([]byte, error) {
	c("seal " + kindOf(plain))
	return append([]byte("sealed"), plain...), nil
}

func (c intrudingCodec) Open(sealed, _ []byte) ([]byte, error) {
	c("open " + kindOf(sealed))
	return sealed[len("sealed"):], nil
}

func kindOf(b []byte) string {
	if bytes.HasSuffix(b, []byte("memo")) {
		return "memo"
	}
	return "answer"
}

// within returns what do returns, or fails the test if that takes half a minute, as in a deadlock.
func within[R any](t *testing.T, do func() R) (result R) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	returned := make(chan R, 1)
	go func() { returned <- do() }()
	select {
	case result = <-returned:
	case <-ctx.Done():
		assert.Fail(t, "a call does not return")
	}
	return result
}
