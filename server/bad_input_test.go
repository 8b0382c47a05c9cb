package server_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/memstore"
)

// refuseShort is a policy against keys of one byte.
func refuseShort(k childkey.Key) error {
	if len(k.String()) < 2 {
		return errors.New("a short key")
	}
	return nil
}

// A request that is refused before the claim leaves no record and calls no store.
func TestHandler_refusesBeforeTheClaim(t *testing.T) {
	t.Parallel()
	chunked := func(r *http.Request, body io.Reader) *http.Request {
		r.Body, r.ContentLength = io.NopCloser(body), -1
		return r
	}
	future := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	for _, tt := range []struct {
		name string
		r    *http.Request
		want wire.Code
	}{
		{"no key", ordered("", "b"), wire.KeyMissing},
		{"empty key", ordered("", "b", wire.HeaderKey, ""), wire.KeyInvalid},
		{"empty quoted key", ordered(`""`, "b"), wire.KeyInvalid},
		{"two keys", ordered("a", "b", wire.HeaderKey, "a"), wire.KeyInvalid},
		{"list of keys", ordered("a, b", "b"), wire.KeyInvalid},
		{"open quote", ordered(`"a`, "b"), wire.KeyInvalid},
		{"space inside", ordered("a b", "b"), wire.KeyInvalid},
		{"not ASCII", ordered("ä", "b"), wire.KeyInvalid},
		{"256 bytes", ordered(strings.Repeat("k", 256), "b"), wire.KeyInvalid},
		{"refused by the policy: short", ordered("k", "b"), wire.KeyInvalid},
		{"sensitive", ordered("ann@example.org", "b"), wire.KeyInvalid},
		{"bad forward key", ordered("kk", "b", wire.HeaderCancels, "a b"), wire.KeyInvalid},
		{"undo of itself", ordered("kk", "b", wire.HeaderCancels, "kk"), wire.KeyInvalid},
		{"announced body over the cap", ordered("kk", strings.Repeat("x", 101)), wire.BodyTooLarge},
		{"chunked body over the cap", chunked(ordered("kk", ""), strings.NewReader(strings.Repeat("x", 101))), wire.BodyTooLarge},
		{"body cut off", chunked(ordered("kk", ""), io.MultiReader(strings.NewReader("x"), broken{})), wire.BodyIncomplete},
		{"first sent unparsable", ordered("kk", "b", wire.HeaderFirstSent, "yesterday"), wire.FirstSentInvalid},
		{"first sent in the year 0", ordered("kk", "b", wire.HeaderFirstSent, "0000-01-01T00:00:00Z"), wire.FirstSentInvalid},
		{"first sent in the year 1", ordered("kk", "b", wire.HeaderFirstSent, "0001-01-01T00:00:00Z"), wire.FirstSentInvalid},
		{"first sent in the future", ordered("kk", "b", wire.HeaderFirstSent, future), wire.FirstSentInvalid},
		{"no scope", ordered("kk", "b", "X-Scope", "none"), wire.ScopeMissing},
		{"scope cannot be looked up", ordered("kk", "b", "X-Scope", "error"), wire.ScopeUnavailable},
		{"scope is no text", ordered("kk", "b", "X-Scope", "a\xff"), wire.ScopeMissing},
		{"scope with NUL", ordered("kk", "b", "X-Scope", "a\x00b"), wire.ScopeMissing},
		{"scope too long", ordered("kk", "b", "X-Scope", strings.Repeat("s", childkey.MaxScopeBytes+1)), wire.ScopeMissing},
		{"scope is not UTF-8", ordered("kk", "b", "X-Scope", "t\xff"), wire.ScopeMissing},
		{"scope has a NUL", ordered("kk", "b", "X-Scope", "t\x00"), wire.ScopeMissing},
		{"scope before key", ordered("", "b", "X-Scope", "none"), wire.ScopeMissing},
		{"key before size", ordered("", strings.Repeat("x", 101)), wire.KeyMissing},
		{"size before first sent", ordered("kk", strings.Repeat("x", 101), wire.HeaderFirstSent, "x"), wire.BodyTooLarge},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			store := &flaky{TxStore: memstore.New()}
			g, err := server.NewGuard(store, scopeByHeader, server.Config{
				MaxRequestBytes: 100,
				KeyPolicy: func(k childkey.Key) error {
					if strings.Contains(k.String(), "@") {
						return errors.New("an e-mail address")
					}
					return refuseShort(k)
				},
			})
			require.NoError(t, err)
			w := serve(newRoute(t, g, server.Keyed, func(http.ResponseWriter, *http.Request) { t.Error("the handler ran") }), tt.r)
			requireCode(t, w, tt.want)
			require.Empty(t, w.Header().Get(wire.HeaderReplayed), "the key was not honoured")
			require.Zero(t, store.asked.Load(), "calls of the store")
		})
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func scopeByHeader(r *http.Request) (string, error) {
	switch s := r.Header.Get("X-Scope"); s {
	case "":
		return "tenant/ann", nil
	case "none":
		return "", nil
	case "error":
		return "", errors.New("the directory is down")
	default:
		return s, nil
	}
}

func TestHandler_announcedLengthIsChecked(t *testing.T) {
	t.Parallel()
	h, _ := guarded(t, server.Keyed, func(http.ResponseWriter, *http.Request) { t.Error("the handler ran") })
	r := ordered("k", "four")
	r.ContentLength = 5
	requireCode(t, serve(h, r), wire.BodyIncomplete)
}

// A client that waits for 100-continue is not asked for a body that is too
// large anyway.
func TestHandler_announcedBodyOverTheCapIsNotRead(t *testing.T) {
	t.Parallel()
	h, _ := guarded(t, server.Keyed, func(http.ResponseWriter, *http.Request) { t.Error("the handler ran") })
	r := ordered("k", "b")
	r.Body, r.ContentLength = io.NopCloser(unread{t}), server.DefaultMaxRequestBytes+1
	requireCode(t, serve(h, r), wire.BodyTooLarge)
}

type unread struct{ t *testing.T }

func (u unread) Read([]byte) (int, error) {
	u.t.Error("the body was read")
	return 0, io.EOF
}

func TestHandler_acceptsTheLimits(t *testing.T) {
	t.Parallel()
	var runs atomic.Int64
	h := newRoute(t, newGuard(t, memstore.New(), server.Config{MaxRequestBytes: 1}), server.Keyed, answer(http.StatusOK, &runs))
	requireAnswer(t, send(h, strings.Repeat("k", 255), "b"), http.StatusOK, firstAnswer, false)
	requireAnswer(t, send(h, "K", "b"), http.StatusOK, `{"got":"b","run":2}`+"\n", false)
	requireAnswer(t, send(h, "k", "b"), http.StatusOK, `{"got":"b","run":3}`+"\n", false)
}

func TestHandler_anotherRequestUnderTheKey(t *testing.T) {
	t.Parallel()
	changes := []struct {
		name   string
		change func(*http.Request)
	}{
		{"body", func(r *http.Request) { r.Body, r.ContentLength = io.NopCloser(strings.NewReader("c")), 1 }},
		{"method", func(r *http.Request) { r.Method = http.MethodPut }},
		{"path", func(r *http.Request) { r.RequestURI = "/orders/7?dry=no" }},
		{"escaped slash", func(r *http.Request) { r.RequestURI = "/ord%2Fers?dry=no" }},
		{"query", func(r *http.Request) { r.URL.RawQuery = "dry=yes" }},
		{"media type", func(r *http.Request) { r.Header.Set("Content-Type", "text/html") }},
		{"charset", func(r *http.Request) { r.Header.Set("Content-Type", "text/plain; charset=utf-16") }},
		{"content encoding", func(r *http.Request) { r.Header.Set("Content-Encoding", "gzip") }},
		{"forward key", func(r *http.Request) { r.Header.Set(wire.HeaderCancels, "other") }},
	}
	for _, status := range []int{http.StatusOK, http.StatusInternalServerError} { // completed, and released
		for _, tt := range changes {
			var runs atomic.Int64
			h, _ := guarded(t, server.Keyed, answer(status, &runs))
			send(h, "k", "b")
			r := ordered("k", "b")
			tt.change(r)
			requireCode(t, serve(h, r), wire.KeyReused)
			require.EqualValues(t, 1, runs.Load(), tt.name)
		}
	}
}

func TestHandler_sameRequestSpelledDifferently(t *testing.T) {
	t.Parallel()
	var runs atomic.Int64
	h, _ := guarded(t, server.Keyed, answer(http.StatusOK, &runs))
	r := ordered("k", "b")
	r.Header.Set("Content-Type", `TEXT/Plain;charset="utf-8"; a=b`)
	requireAnswer(t, serve(h, r), http.StatusOK, firstAnswer, false)
	r = ordered("k", "b")
	r.Header.Set("Content-Type", "text/plain; a=b; charset=utf-8")
	requireAnswer(t, serve(h, r), http.StatusOK, firstAnswer, true)
	r = ordered("k", "b")
	r.RequestURI = "/%6frders?dry=no"
	r.Header.Set("Content-Type", "text/plain; a=b")
	requireAnswer(t, serve(h, r), http.StatusOK, firstAnswer, true)
	r = ordered("k", "b")
	r.Header.Set("Content-Type", "text/plain; a=b")
	r.URL.RawQuery = "%64ry=no"
	requireAnswer(t, serve(h, r), http.StatusOK, firstAnswer, true)
}

func TestRoute_fingerprint(t *testing.T) {
	t.Parallel()
	runs := 0
	h, err := newGuard(t, memstore.New(), server.Config{}).Route(server.Route{
		Effect: server.Keyed,
		Fingerprint: func(_ *http.Request, body []byte) ([]byte, error) {
			if len(body) == 0 {
				return nil, errors.New("secret")
			}
			return body[:bytes.IndexByte(body, '!')], nil
		},
	}, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { runs++ }))
	require.NoError(t, err)
	send(h, "k", "same!one")
	requireAnswer(t, send(h, "k", "same!two"), http.StatusOK, "", true)
	require.Equal(t, 1, runs)
	w := send(h, "k", "")
	requireCode(t, w, wire.KeyInvalid)
	require.NotContains(t, w.Body.String(), "secret")
}

func TestHandler_passesThrough(t *testing.T) {
	t.Parallel()
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodOptions, "BREW"} {
		store := &flaky{TxStore: memstore.New()}
		var runs atomic.Int64
		h := newRoute(t, newGuard(t, store, server.Config{}), server.Opaque, answer(http.StatusTeapot, &runs))
		r := httptest.NewRequest(method, "/orders", http.NoBody)
		r.Header.Set(wire.HeaderKey, "not a key")
		w := serve(h, r)
		require.Equal(t, http.StatusTeapot, w.Code)
		require.Empty(t, w.Header().Get(wire.HeaderReplayed))
		require.EqualValues(t, 1, runs.Load())
		require.Zero(t, store.asked.Load())
	}
}

func TestRoute_keyOptional(t *testing.T) {
	t.Parallel()
	var runs atomic.Int64
	store := &flaky{TxStore: memstore.New()}
	h, err := newGuard(t, store, server.Config{}).Route(server.Route{Effect: server.Keyed, KeyOptional: true}, answer(http.StatusOK, &runs))
	require.NoError(t, err)
	require.Empty(t, send(h, "", "b").Header().Get(wire.HeaderReplayed))
	require.Zero(t, store.asked.Load())
	requireCode(t, send(h, "a b", "b"), wire.KeyInvalid)
	requireAnswer(t, send(h, "k", "b"), http.StatusOK, `{"got":"b","run":2}`+"\n", false)
	requireAnswer(t, send(h, "k", "b"), http.StatusOK, `{"got":"b","run":2}`+"\n", true)
}

func TestHandler_bodyIsTheHandlersOwn(t *testing.T) {
	t.Parallel()
	h, _ := guarded(t, server.Keyed, func(w http.ResponseWriter, r *http.Request) {
		require.EqualValues(t, 4, r.ContentLength)
		_, writesTo := r.Body.(io.WriterTo)
		require.False(t, writesTo, "the handler could change what was hashed")
		first := make([]byte, 4)
		_, err := io.ReadFull(r.Body, first)
		require.NoError(t, err)
		first[0] = 'X'
		require.NoError(t, r.Body.Close())
		_, err = r.Body.Read(first)
		require.ErrorIs(t, err, http.ErrBodyReadAfterClose)
		w.WriteHeader(http.StatusCreated)
	})
	requireAnswer(t, send(h, "k", "body"), http.StatusCreated, "", false)
	requireAnswer(t, send(h, "k", "body"), http.StatusCreated, "", true)
}

// net/http removes only the files of its own request's form, and a guarded
// handler has a copy of the request.
func TestHandler_removesTheFilesOfAForm(t *testing.T) {
	t.Parallel()
	var form bytes.Buffer
	m := multipart.NewWriter(&form)
	part, err := m.CreateFormFile("file", "a.txt")
	require.NoError(t, err)
	_, _ = part.Write(bytes.Repeat([]byte("x"), 1000))
	require.NoError(t, m.Close())
	var header *multipart.FileHeader
	h, _ := guarded(t, server.Keyed, func(_ http.ResponseWriter, r *http.Request) {
		require.NoError(t, r.ParseMultipartForm(1)) // one byte of memory: the rest goes to a file
		header = r.MultipartForm.File["file"][0]
		f, err := header.Open()
		require.NoError(t, err)
		require.NoError(t, f.Close())
	})
	r := ordered("k", form.String())
	r.Header.Set("Content-Type", m.FormDataContentType())
	requireAnswer(t, serve(h, r), http.StatusOK, "", false)
	_, err = header.Open()
	require.ErrorIs(t, err, fs.ErrNotExist)
}

// Two customers may send the same body: without the same key the second is not a duplicate.
func TestHandler_sameBodyUnderAnotherKeyRuns(t *testing.T) {
	t.Parallel()
	var runs atomic.Int64
	h, _ := guarded(t, server.Keyed, answer(http.StatusOK, &runs))
	send(h, "k1", "b")
	requireAnswer(t, send(h, "k2", "b"), http.StatusOK, `{"got":"b","run":2}`+"\n", false)
	require.EqualValues(t, 2, runs.Load())
}

// A route can require keys of its own kind.
func TestRouteKey_policy(t *testing.T) {
	t.Parallel()
	var runs atomic.Int64
	h, err := newGuard(t, memstore.New(), server.Config{}).Route(server.Route{
		Effect: server.Keyed,
		Key: func(r *http.Request, _ []byte) (string, error) {
			key := r.Header.Get(wire.HeaderKey)
			if len(key) < 16 {
				return "", errors.New("too short")
			}
			return key, nil
		},
	}, answer(http.StatusOK, &runs))
	require.NoError(t, err)
	requireCode(t, send(h, "fifteen-bytes-x", "b"), wire.KeyInvalid)
	requireAnswer(t, send(h, "sixteen-bytes-xx", "b"), http.StatusOK, firstAnswer, false)
}
