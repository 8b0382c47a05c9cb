package server_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/memstore"
)

// token creates a secret that must not be in a table.
func token(tb testing.TB, reference string) http.HandlerFunc {
	tb.Helper()
	return func(w http.ResponseWriter, r *http.Request) {
		require.NoError(tb, server.Settle(r.Context(), server.Reference(reference)))
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write([]byte("the secret"))
	}
}

func TestSettle_reference(t *testing.T) {
	t.Parallel()
	for _, effect := range []server.Effect{server.Transactional, server.Keyed, server.Opaque} {
		seen, store := new(witness), memstore.New()
		h := newRoute(t, newGuard(t, store, server.Config{Observer: seen}), effect, token(t, "token-7"))
		requireAnswer(t, send(h, "k", "b"), http.StatusCreated, "the secret", false)
		requireCode(t, send(h, "k", "b"), wire.ResponseGone)
		rec := readRecord(t, store, seen)
		require.Equal(t, http.StatusCreated, rec.Answer.Status)
		require.NotContains(t, string(rec.Answer.Envelope), "secret")
	}
}

func TestSettle_referenceRendered(t *testing.T) {
	t.Parallel()
	for _, codec := range []server.Codec{nil, newCodec(t, "a")} {
		fails := errors.New("the vault is sealed")
		g := newGuard(t, memstore.New(), server.Config{Codec: codec})
		h, err := g.Route(server.Route{
			Effect: server.Keyed,
			Render: func(r *http.Request, status int, reference string) (server.Response, error) {
				if r.Header.Get("X-Vault") == "" {
					return server.Response{}, fails
				}
				return server.Response{Status: status, Body: []byte("again " + reference), Header: http.Header{"Location": {"/tokens/7"}}}, nil
			},
		}, token(t, "token-7"))
		require.NoError(t, err)
		requireAnswer(t, send(h, "k", "b"), http.StatusCreated, "the secret", false)
		w := send(h, "k", "b", "X-Vault", "open")
		requireAnswer(t, w, http.StatusCreated, "again token-7", true)
		require.Equal(t, "/tokens/7", w.Header().Get("Location"))
		require.Equal(t, "no-store", w.Header().Get("Cache-Control"))
		w = send(h, "k", "b")
		requireCode(t, w, wire.StoreUnavailable)
		require.NotContains(t, w.Body.String(), "vault")
		requireCode(t, send(h, "k", "other", "X-Vault", "open"), wire.KeyReused)
	}
}

func TestSettle_badInput(t *testing.T) {
	t.Parallel()
	require.ErrorIs(t, server.Settle(t.Context(), server.Reference("r")), server.ErrNoRun)
	runs := 0
	h, _ := guarded(t, server.Keyed, func(w http.ResponseWriter, r *http.Request) {
		runs++
		ctx := r.Context()
		require.ErrorIs(t, server.Settle(ctx, server.Reference(strings.Repeat("r", server.MaxReferenceBytes+1))), server.ErrArgument)
		require.ErrorIs(t, server.Settle(ctx, server.Final(), server.SettleOption{}), server.ErrArgument)
		require.NoError(t, server.Settle(ctx, server.Reference(strings.Repeat("r", server.MaxReferenceBytes))))
		require.NoError(t, server.Settle(ctx))
		w.WriteHeader(http.StatusBadGateway) // is not final: no option of a call with an error counts
	})
	send(h, "k", "b")
	send(h, "k", "b")
	require.Equal(t, 2, runs)
}

func TestSettle_releaseWinsOverFinal(t *testing.T) {
	t.Parallel()
	for _, how := range [][]server.SettleOption{{server.Final(), server.Release()}, {server.Release(), server.Final()}} {
		runs := 0
		h, _ := guarded(t, server.Keyed, func(_ http.ResponseWriter, r *http.Request) {
			runs++
			require.NoError(t, server.Settle(r.Context(), how...))
		})
		send(h, "k", "b")
		send(h, "k", "b")
		require.Equal(t, 2, runs)
	}
}

// The settle options in a typed handler's error have the effect of a call to Settle, also under Do.
func TestStatusError_settle(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		effect server.Effect
		status int
		how    []server.SettleOption
		want   int // status of the answer
		rows   int
		runs   int // of two calls
	}{
		{"nothing", server.Transactional, http.StatusPaymentRequired, nil, http.StatusPaymentRequired, 0, 1},
		{"keep", server.Transactional, http.StatusPaymentRequired, []server.SettleOption{server.KeepRows()}, http.StatusPaymentRequired, 1, 1},
		{"keep, but not stored", server.Transactional, http.StatusBadGateway, []server.SettleOption{server.KeepRows()}, http.StatusBadGateway, 0, 2},
		{"final", server.Transactional, http.StatusBadGateway, []server.SettleOption{server.Final()}, http.StatusBadGateway, 0, 1},
		{"final, keep", server.Transactional, http.StatusBadGateway, []server.SettleOption{server.Final(), server.KeepRows()}, http.StatusBadGateway, 1, 1},
		{"release", server.Transactional, http.StatusPaymentRequired, []server.SettleOption{server.Release()}, http.StatusPaymentRequired, 0, 2},
		{"zero", server.Keyed, http.StatusPaymentRequired, []server.SettleOption{{}}, http.StatusInternalServerError, 0, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var rows ledger
			runs := 0
			fn := func(ctx context.Context, _ int) (int, error) {
				runs++
				if tt.effect == server.Transactional {
					require.NoError(t, rows.write(ctx))
				}
				return 0, fmt.Errorf("pay: %w", &server.StatusError{Status: tt.status, Settle: tt.how})
			}
			g, mux := newGuard(t, memstore.New(), server.Config{}), http.NewServeMux()
			require.NoError(t, server.Handle(mux, g, contract.Post[int, int]("shop", "pay", "/pay"), tt.effect, fn))
			for range 2 {
				r := httptest.NewRequest(http.MethodPost, "/pay", strings.NewReader("1"))
				r.Header.Set(wire.HeaderKey, "k")
				require.Equal(t, tt.want, serve(mux, r).Code)
			}
			require.Equal(t, tt.runs, runs)
			require.Equal(t, min(tt.rows, 1), rows.count())

			task := server.Task{Name: "pay", Scope: "s", Effect: tt.effect}
			for range 2 {
				_, _, err := server.Do(t.Context(), g, task, key(t, "k"), 1, fn)
				require.Error(t, err)
				require.Equal(t, tt.want != tt.status, !errors.As(err, new(*server.StatusError)), err)
			}
			require.Equal(t, 2*tt.runs, runs)
			require.Equal(t, 2*tt.rows, rows.count())
		})
	}
}

func TestRoute_redact(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		redact   func(server.Response) (server.Response, error)
		want     string // of the replay; "" means response-gone
		observed int
	}{
		{"masked", func(r server.Response) (server.Response, error) {
			r.Body = []byte(strings.ReplaceAll(string(r.Body), "4111", "****"))
			r.Header.Del("Link")
			return r, nil
		}, "card ****", 0},
		{"fails", func(server.Response) (server.Response, error) {
			return server.Response{}, errors.New("no JSON in card 4111")
		}, "", 1},
		{"panics", func(r server.Response) (server.Response, error) { panic(string(r.Body)) }, "", 1},
		{"panics in the runtime", func(r server.Response) (server.Response, error) {
			r.Body = r.Body[:len(r.Body)*1000]
			return r, nil
		}, "", 1},
		{"too large", func(server.Response) (server.Response, error) { return server.Response{Body: make([]byte, 100)}, nil }, "", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			runs, seen := 0, new(witness)
			g := newGuard(t, memstore.New(), server.Config{MaxResponseBytes: 99, Observer: seen})
			h, err := g.Route(server.Route{Effect: server.Keyed, Redact: tt.redact}, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				runs++
				w.Header().Set("Link", "</cards/4111>")
				_, _ = w.Write([]byte("card 4111"))
			}))
			require.NoError(t, err)
			first := send(h, "k", "b")
			requireAnswer(t, first, http.StatusOK, "card 4111", false)
			require.Equal(t, "</cards/4111>", first.Header().Get("Link"))
			w := send(h, "k", "b")
			if tt.want == "" {
				requireCode(t, w, wire.ResponseGone)
				require.Equal(t, 1, seen.count(server.EventTombstone))
				require.Equal(t, tt.observed, seen.count(server.EventRedactError))
			} else {
				requireAnswer(t, w, http.StatusOK, tt.want, true)
				require.Empty(t, w.Header().Get("Link"))
			}
			for _, e := range seen.all(server.EventRedactError) {
				require.ErrorContains(t, e.Err, "Redact")
				require.NotContains(t, e.Err.Error(), "4111", "logs never hold a body")
			}
			require.Equal(t, 1, runs)
		})
	}
}
