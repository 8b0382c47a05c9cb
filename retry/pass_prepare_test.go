package retry_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/retry"
)

// A hook signs a request that passes, and the caller's own stays as it was.
func TestPass_prepareMaySign(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(*http.Request, []byte){
		"reads the body":   func(*http.Request, []byte) {},
		"puts it back":     func(r *http.Request, body []byte) { r.Body = io.NopCloser(bytes.NewReader(body)) },
		"takes it away":    func(r *http.Request, _ []byte) { r.Body = nil },
		"replaces it":      func(r *http.Request, _ []byte) { r.Body = io.NopCloser(strings.NewReader("ydob")) },
		"changes the size": func(r *http.Request, _ []byte) { r.ContentLength, r.GetBody = 1, nil },
	} {
		rt := script(status(429), status(200))
		cfg := over(rt)
		cfg.Prepare = func(n int, r *http.Request) error {
			body, err := io.ReadAll(r.Body)
			r.Header.Set("X-Signature", strings.ToUpper(string(body))+string(rune('0'+n)))
			leave(r, body)
			return err
		}
		req := unkeyed(t, t.Context(), http.MethodPost, stubURL, "body")
		code, err := passed(newClient(t, cfg), req)
		require.NoError(t, err, name)
		require.Equal(t, 200, code)
		require.Equal(t, "BODY1 BODY2", rt.header("X-Signature"), name)
		require.Equal(t, []string{"body", "body"}, rt.bodies, name)
		require.EqualValues(t, 4, rt.requests[1].ContentLength, name)
		require.Empty(t, req.Header, name)
	}
}

// A hook that changes more than that, or fails, ends the call unsent.
func TestPass_prepareMayNotChange(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		prepare func(*http.Request) error
		once    bool
		want    error
	}{
		"fails":        {func(*http.Request) error { return errBroken }, false, errBroken},
		"method":       {func(r *http.Request) error { r.Method = http.MethodPut; return nil }, false, retry.ErrPayloadChanged},
		"path":         {func(r *http.Request) error { r.URL.Path = "/x"; return nil }, false, retry.ErrPayloadChanged},
		"host":         {func(r *http.Request) error { r.Host = "x"; return nil }, false, retry.ErrPayloadChanged},
		"a key":        {func(r *http.Request) error { r.Header.Set(wire.HeaderKey, "k"); return nil }, false, retry.ErrPayloadChanged},
		"a lower-case": {func(r *http.Request) error { r.Header["idempotency-key"] = []string{"k"}; return nil }, false, retry.ErrPayloadChanged},
		"reads what can be read once": {func(r *http.Request) error {
			_, err := io.ReadAll(r.Body)
			return err
		}, true, retry.ErrNotSent},
	} {
		rt := script(status(200))
		cfg := over(rt)
		cfg.Prepare = func(_ int, r *http.Request) error { return tt.prepare(r) }
		req, closed := request(t, http.MethodPost, stubURL, "body")
		url := *req.URL
		if !tt.once {
			req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("body")), nil }
		}
		_, err := passed(newClient(t, cfg), req)
		require.ErrorIs(t, err, tt.want, name)
		require.ErrorIs(t, err, retry.ErrNotSent, name)
		require.Zero(t, rt.count(), name)
		require.EqualValues(t, 1, closed.Load(), name)
		require.Equal(t, url, *req.URL, name)
		require.Empty(t, req.Header, name)
	}
}

// A hook whose header net/http refuses ends the call unsent.
func TestPass_prepareMalformed(t *testing.T) {
	t.Parallel()
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		cfg := over(ownTransport(t))
		cfg.Prepare = func(_ int, r *http.Request) error { r.Header.Set("Authorization", "Bearer t\n"); return nil }
		_, err := passed(newClient(t, cfg), unkeyed(t, t.Context(), method, stubURL, ""))
		require.ErrorIs(t, err, retry.ErrNotSent)
		var failed *retry.Error
		require.ErrorAs(t, err, &failed)
		require.Equal(t, 1, failed.Attempts)
	}
}

// A hook that reads no body may sign requests whose body can be read only once.
func TestPass_prepareWithoutTheBody(t *testing.T) {
	t.Parallel()
	rt := script(status(200))
	cfg := over(rt)
	cfg.Prepare = func(_ int, r *http.Request) error { r.Header.Set("Authorization", "Bearer t"); return nil }
	client := newClient(t, cfg)
	once := unkeyed(t, t.Context(), http.MethodPost, stubURL, "body")
	once.GetBody = nil
	bare := unkeyed(t, t.Context(), http.MethodGet, stubURL, "")
	bare.Header = nil
	for _, req := range []*http.Request{once, bare} {
		_, err := passed(client, req)
		require.NoError(t, err)
	}
	require.Equal(t, "Bearer t Bearer t", rt.header("Authorization"))
	require.Equal(t, []string{"body", ""}, rt.bodies)
	bare.URL = nil
	_, err := passed(newClient(t, retry.Config{Transport: ownTransport(t), Prepare: cfg.Prepare}), bare)
	require.ErrorIs(t, err, retry.ErrNotSent)
}
