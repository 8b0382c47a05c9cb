package server_test

import (
	"context"
	"errors"
	"fmt"
	"math"
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

type lines struct {
	SKU      string  `json:"sku"`
	Quantity float64 `json:"quantity"`
}

type hold struct {
	ID    string  `json:"id"`
	Price float64 `json:"price"`
}

var reserve = contract.Post[lines, hold]("inventory", "reserve", "/shelves/{shelf}/reservations")

func typed(tb testing.TB, fn func(context.Context, lines) (hold, error)) *http.ServeMux {
	tb.Helper()
	mux := http.NewServeMux()
	require.NoError(tb, server.Handle(mux, newGuard(tb, memstore.New(), server.Config{}), reserve, server.Keyed, fn))
	return mux
}

func call(mux *http.ServeMux, body, mediaType string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/shelves/north%2Fwest/reservations", strings.NewReader(body))
	r.Header.Set(wire.HeaderKey, `"order-1042"`)
	if mediaType != "" {
		r.Header.Set("Content-Type", mediaType)
	}
	return serve(mux, r)
}

func TestHandle(t *testing.T) {
	t.Parallel()
	runs := 0
	mux := typed(t, func(ctx context.Context, in lines) (hold, error) {
		runs++
		return hold{ID: in.SKU + "@" + server.PathValue(ctx, "shelf"), Price: in.Quantity}, nil
	})
	for _, replayed := range []bool{false, true} {
		w := call(mux, `{"sku":"tea","quantity":2,"later":true}`, "application/json")
		requireAnswer(t, w, http.StatusOK, `{"id":"tea@north/west","price":2}`, replayed)
		require.Equal(t, "application/json", w.Header().Get("Content-Type"))
	}
	require.Equal(t, 1, runs)
	require.Empty(t, server.PathValue(t.Context(), "shelf"))
}

func TestHandle_errors(t *testing.T) {
	t.Parallel()
	errCause := errors.New("canary")
	const malformed, code = `"title":"Bad Request","status":400,"detail":`, `"code":"body-malformed"`
	for _, tt := range []struct {
		name     string
		body     string
		media    string
		out      hold
		err      error
		status   int
		want     string // in the answer
		replayed bool   // the second time
	}{
		{
			name: "declined", body: "{}", err: &server.StatusError{Status: http.StatusPaymentRequired, Code: "declined", Detail: "No funds.", Err: errCause},
			status: http.StatusPaymentRequired, want: `"detail":"No funds.","code":"declined"`, replayed: true,
		},
		{name: "unavailable", body: "{}", err: &server.StatusError{Status: http.StatusServiceUnavailable}, status: http.StatusServiceUnavailable, want: `"about:blank"`},
		{name: "any other error", body: "{}", err: errCause, status: http.StatusInternalServerError, want: `"about:blank"`},
		{name: "no error status", body: "{}", err: &server.StatusError{Status: http.StatusOK}, status: http.StatusInternalServerError, want: `"about:blank"`},
		{name: "not JSON", body: "canary", status: http.StatusBadRequest, want: malformed + `"The body is not valid JSON.",` + code},
		{name: "cut off", body: `{"quantity":1`, status: http.StatusBadRequest, want: `"The body is not valid JSON."`},
		{name: "something behind it", body: "{} canary", status: http.StatusBadRequest, want: `"The body is not valid JSON."`},
		{name: "two values", body: "{} {}", status: http.StatusBadRequest, want: `"The body is not valid JSON."`},
		{name: "wrong type", body: `{"quantity":"canary"}`, status: http.StatusBadRequest, want: `The member \"quantity\" must be a number.`},
		{name: "too large a number", body: `{"quantity":1e999}`, status: http.StatusBadRequest, want: `The member \"quantity\" must be a number.`},
		{name: "no object", body: `["canary"]`, status: http.StatusBadRequest, want: `The body must be an object.`},
		{name: "no body", body: "", status: http.StatusBadRequest, want: `"The body is empty.",` + code},
		{name: "not declared as JSON", body: "{}", media: "text/plain", status: http.StatusUnsupportedMediaType, want: `"The body must be application/json.","code":"media-type-unsupported"`},
		{name: "no form in JSON", body: "{}", out: hold{Price: math.NaN()}, status: http.StatusInternalServerError, want: `"about:blank"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			mux := typed(t, func(context.Context, lines) (hold, error) { return tt.out, tt.err })
			for _, again := range []bool{false, true} {
				w := call(mux, tt.body, tt.media)
				require.Equal(t, tt.status, w.Code)
				require.Contains(t, w.Body.String(), tt.want)
				require.NotContains(t, w.Body.String(), "canary")
				replayed, _ := wire.ParseFlag(w.Header().Values(wire.HeaderReplayed))
				require.Equal(t, again && tt.replayed, replayed)
				_, ours := wire.ParseProblem(w.Header().Get("Content-Type"), w.Body.Bytes())
				require.False(t, ours, "the service's problem must not look like the layer's")
			}
		})
	}
}

// A body that cannot be decoded ran nothing, whatever the class, so its key is bound to no body.
func TestHandle_correctedBody(t *testing.T) {
	t.Parallel()
	for _, effect := range []server.Effect{server.Transactional, server.Keyed, server.Opaque} {
		t.Run(effect.String(), func(t *testing.T) {
			t.Parallel()
			ran := 0
			s := memstore.New()
			mux, g := http.NewServeMux(), newGuard(t, s, server.Config{})
			require.NoError(t, server.Handle(mux, g, reserve, effect, func(context.Context, lines) (hold, error) {
				ran++
				return hold{}, nil
			}))
			for _, body := range []string{`{"quantity":`, `{"quantity":"two"}`} {
				w := call(mux, body, "")
				require.Equal(t, http.StatusBadRequest, w.Code)
				require.Equal(t, "false", w.Header().Get(wire.HeaderReplayed))
				require.Equal(t, "false", w.Header().Get(wire.HeaderShouldRetry), "the same body cannot succeed")
			}
			require.Equal(t, http.StatusUnsupportedMediaType, call(mux, `{"quantity":2}`, "text/plain").Code)
			require.Equal(t, http.StatusOK, call(mux, `{"quantity":2}`, "").Code)
			require.Equal(t, "true", call(mux, `{"quantity":2}`, "").Header().Get(wire.HeaderReplayed))
			w := call(mux, `{"quantity":3}`, "")
			require.Equal(t, http.StatusUnprocessableEntity, w.Code, "what ran is bound to its body")
			require.Equal(t, 1, ran)
		})
	}
}

// A run that may have had effects keeps its key bound to its body.
func TestHandle_correctedAfterFailure(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		effect server.Effect
		status int
	}{
		{server.Transactional, http.StatusOK}, // it was rolled back
		{server.Keyed, http.StatusUnprocessableEntity},
		{server.Opaque, http.StatusUnprocessableEntity},
	} {
		fail := true
		mux, g := http.NewServeMux(), newGuard(t, memstore.New(), server.Config{})
		require.NoError(t, server.Handle(mux, g, reserve, tt.effect, func(context.Context, lines) (hold, error) {
			if fail {
				return hold{}, &server.StatusError{Status: http.StatusServiceUnavailable}
			}
			return hold{}, nil
		}))
		require.Equal(t, http.StatusServiceUnavailable, call(mux, `{"quantity":1}`, "").Code)
		fail = false
		require.Equal(t, tt.status, call(mux, `{"quantity":2}`, "").Code, tt.effect)
	}
}

func TestHandleRoute_unknownMembers(t *testing.T) {
	t.Parallel()
	for _, strict := range []bool{false, true} {
		mux, g := http.NewServeMux(), newGuard(t, memstore.New(), server.Config{})
		require.NoError(t, server.HandleRoute(mux, g, reserve, server.Route{Effect: server.Keyed, RefuseUnknownMembers: strict},
			func(context.Context, lines) (hold, error) { return hold{}, nil }))
		w := call(mux, `{"quantityy":1}`, "")
		if !strict {
			require.Equal(t, http.StatusOK, w.Code)
			continue
		}
		require.Equal(t, http.StatusBadRequest, w.Code)
		require.Contains(t, w.Body.String(), `This operation has no member \"quantityy\".`)
		require.Equal(t, http.StatusOK, call(mux, `{"quantity":1}`, "").Code)
	}

	g := newGuard(t, memstore.New(), server.Config{})
	_, err := g.Route(server.Route{Effect: server.Keyed, RefuseUnknownMembers: true}, http.NotFoundHandler())
	requireField(t, err, "Route.RefuseUnknownMembers")
	op := contract.Post[string, string]("s", "o", "/o").WithCodec(textCodec{})
	err = server.HandleRoute(http.NewServeMux(), g, op, server.Route{Effect: server.Keyed, RefuseUnknownMembers: true},
		func(context.Context, string) (string, error) { return "", nil })
	requireField(t, err, "Route.RefuseUnknownMembers")
}

func TestHandle_rejects(t *testing.T) {
	t.Parallel()
	mux, g := http.NewServeMux(), newGuard(t, memstore.New(), server.Config{})
	fn := func(context.Context, lines) (hold, error) { return hold{}, nil }
	requireField(t, server.Handle(nil, g, reserve, server.Keyed, fn), "mux")
	requireField(t, server.Handle(mux, nil, reserve, server.Keyed, fn), "guard")
	requireField(t, server.Handle(mux, g, reserve, server.Keyed, nil), "fn")
	requireField(t, server.Handle(mux, g, reserve, 0, fn), "Route.Effect")
	require.ErrorIs(t, server.Handle(mux, g, contract.Post[lines, hold]("a:b", "c", "/"), server.Keyed, fn), contract.ErrInvalid)
	server.MustHandle(mux, g, reserve, server.Keyed, fn)
	requireField(t, server.Handle(mux, g, reserve, server.Keyed, fn), "pattern")
	require.PanicsWithError(t, server.Handle(mux, g, reserve, server.Keyed, fn).Error(), func() { server.MustHandle(mux, g, reserve, server.Keyed, fn) })
	putless := newGuard(t, memstore.New(), server.Config{Methods: []string{http.MethodPut}})
	requireField(t, server.Handle(mux, putless, reserve, server.Keyed, fn), "Config.Methods")
}

func TestStatusError(t *testing.T) {
	t.Parallel()
	cause := errors.New("no funds")
	err := error(&server.StatusError{Status: http.StatusPaymentRequired, Code: "declined", Err: cause})
	require.ErrorIs(t, err, cause)
	require.EqualError(t, err, "server: status 402 declined: no funds")
}

func TestRefuse(t *testing.T) {
	t.Parallel()
	require.Equal(t, &server.StatusError{Status: 409, Code: "sold-out", Detail: "No tea."}, server.Refuse(409, "sold-out", "No tea."))
	for _, code := range []string{"a", "A_b-9.z", strings.Repeat("c", 64)} {
		for _, status := range []int{400, 429, 499} {
			require.ErrorAs(t, server.Refuse(status, code, ""), new(*server.StatusError))
		}
	}
	bad := []error{server.Refuse(399, "c", ""), server.Refuse(500, "c", ""), server.Refuse(0, "c", ""), server.Refuse(-1, "c", "")}
	for _, code := range []string{"", "sold out", "sold\nout", "ausverkauft!", "größe", "\xff", strings.Repeat("c", 65)} {
		bad = append(bad, server.Refuse(409, code, "d"))
	}
	for _, err := range bad {
		require.ErrorIs(t, err, server.ErrArgument)
		require.NotErrorAs(t, err, new(*server.StatusError))
		mux, g := http.NewServeMux(), newGuard(t, memstore.New(), server.Config{})
		require.NoError(t, server.Handle(mux, g, reserve, server.Keyed, func(context.Context, lines) (hold, error) { return hold{}, err }))
		w := call(mux, `{"quantity":1}`, "")
		require.Equal(t, http.StatusInternalServerError, w.Code)
		require.NotContains(t, w.Body.String(), "Refuse")
	}
}

// A typed route can have every setting of an untyped route.
func TestHandleRoute(t *testing.T) {
	t.Parallel()
	mux, g := http.NewServeMux(), newGuard(t, memstore.New(), server.Config{})
	op := contract.Post[string, string]("vault", "mint", "/tokens")
	err := server.HandleRoute(mux, g, op, server.Route{
		Effect: server.Keyed,
		Render: func(_ *http.Request, status int, reference string) (server.Response, error) {
			return server.Response{Status: status, Body: []byte(`"again ` + reference + `"`)}, nil
		},
	}, func(ctx context.Context, _ string) (string, error) {
		return "secret", server.Settle(ctx, server.Reference("7"))
	})
	require.NoError(t, err)
	mint := func() *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodPost, "/tokens", strings.NewReader(`"x"`))
		r.Header.Set(wire.HeaderKey, "k")
		return serve(mux, r)
	}
	requireAnswer(t, mint(), http.StatusOK, `"secret"`, false)
	requireAnswer(t, mint(), http.StatusOK, `"again 7"`, true)
}

// If a downstream service says that no retry can help, this service says so too.
func TestSettle_notRetryable(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		err    error
		status int
		want   string
	}{
		{"failure", errors.New("timeout"), http.StatusInternalServerError, "true"},
		{"not retryable below", fmt.Errorf("charge: %w", errors.Join(errors.New("other"), wire.ErrNotRetryable)), http.StatusInternalServerError, "false"},
		{"unavailable, not retryable", &server.StatusError{Status: http.StatusServiceUnavailable, Err: wire.ErrNotRetryable}, http.StatusServiceUnavailable, "false"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			mux, g := http.NewServeMux(), newGuard(t, memstore.New(), server.Config{})
			runs := 0
			err := server.Handle(mux, g, contract.Post[int, int]("shop", "order", "/orders"), server.Keyed, func(context.Context, int) (int, error) {
				runs++
				return 0, tt.err
			})
			require.NoError(t, err)
			for range 2 { // nothing is stored
				r := httptest.NewRequest(http.MethodPost, "/orders", strings.NewReader("1"))
				r.Header.Set(wire.HeaderKey, "k")
				w := serve(mux, r)
				require.Equal(t, tt.status, w.Code)
				require.Equal(t, tt.want, w.Header().Get(wire.HeaderShouldRetry))
			}
			require.Equal(t, 2, runs)
		})
	}
	require.ErrorIs(t, server.Settle(t.Context(), server.NotRetryable()), server.ErrNoRun)
}

func TestHandleRoute_redact(t *testing.T) {
	t.Parallel()
	mux, runs := http.NewServeMux(), 0
	route := server.Route{Effect: server.Keyed, Redact: func(r server.Response) (server.Response, error) {
		r.Body = []byte(`{"id":"-","price":0}`)
		return r, nil
	}}
	err := server.HandleRoute(mux, newGuard(t, memstore.New(), server.Config{}), reserve, route,
		func(context.Context, lines) (hold, error) {
			runs++
			return hold{ID: "4111", Price: 2}, nil
		})
	require.NoError(t, err)
	requireAnswer(t, call(mux, `{"sku":"tea"}`, "application/json"), http.StatusOK, `{"id":"4111","price":2}`, false)
	requireAnswer(t, call(mux, `{"sku":"tea"}`, "application/json"), http.StatusOK, `{"id":"-","price":0}`, true)
	require.Equal(t, 1, runs)
}

// textCodec is an operation's own way to write strings.
type textCodec struct{}

func (textCodec) ContentType() string { return "text/plain; charset=utf-8" }

func (textCodec) Encode(v any) ([]byte, error) {
	text, ok := v.(string)
	if !ok || text == "" {
		return nil, errors.New("not a string")
	}
	return []byte(text), nil
}

func (textCodec) Decode(data []byte, v any) error {
	text, ok := v.(*string)
	if !ok || len(data) == 0 {
		return errors.New("not a string")
	}
	*text = string(data)
	return nil
}

func TestHandle_codec(t *testing.T) {
	t.Parallel()
	op := contract.Post[string, string]("echo", "say", "/say").WithCodec(textCodec{})
	mux, runs := http.NewServeMux(), 0
	err := server.Handle(mux, newGuard(t, memstore.New(), server.Config{}), op, server.Keyed, func(_ context.Context, in string) (string, error) {
		runs++
		return strings.TrimPrefix(in, "silence"), nil
	})
	require.NoError(t, err)
	say := func(key, body, kind string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodPost, "/say", strings.NewReader(body))
		r.Header.Set(wire.HeaderKey, key)
		r.Header.Set("Content-Type", kind)
		return serve(mux, r)
	}
	for _, replayed := range []bool{false, true} {
		w := say("k", "hello", "text/plain")
		requireAnswer(t, w, http.StatusOK, "hello", replayed)
		require.Equal(t, "text/plain; charset=utf-8", w.Header().Get("Content-Type"))
	}
	require.Equal(t, http.StatusUnsupportedMediaType, say("json", `"hello"`, "application/json").Code)
	require.Equal(t, http.StatusUnsupportedMediaType, say("suffix", `"hello"`, "application/x+json").Code)
	require.Equal(t, http.StatusUnsupportedMediaType, say("none", "hello", "text/").Code)
	require.Equal(t, http.StatusBadRequest, say("empty", "", "text/plain").Code)
	require.Equal(t, http.StatusInternalServerError, say("silent", "silence", "text/plain").Code)
	require.Equal(t, 2, runs)
}
