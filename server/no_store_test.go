package server_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/memstore"
)

// token mints a secret that must not lie in a table.
func token(tb testing.TB, reference string) http.HandlerFunc {
	tb.Helper()
	return func(w http.ResponseWriter, r *http.Request) {
		require.NoError(tb, server.NoStore(r.Context(), reference))
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write([]byte("the secret"))
	}
}

func TestNoStore(t *testing.T) {
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

func TestNoStore_rendered(t *testing.T) {
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

func TestNoStore_badInput(t *testing.T) {
	t.Parallel()
	require.ErrorIs(t, server.NoStore(t.Context(), "r"), server.ErrNoRun)
	h, _ := guarded(t, server.Keyed, func(_ http.ResponseWriter, r *http.Request) {
		require.ErrorIs(t, server.NoStore(r.Context(), strings.Repeat("r", server.MaxReferenceBytes+1)), server.ErrArgument)
		require.NoError(t, server.NoStore(r.Context(), strings.Repeat("r", server.MaxReferenceBytes)))
		require.NoError(t, server.NoStore(r.Context(), ""))
	})
	send(h, "k", "b")
	requireCode(t, send(h, "k", "b"), wire.ResponseGone)
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
