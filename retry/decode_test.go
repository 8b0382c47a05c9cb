package retry_test

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/retry"
)

// If a request has its own Accept-Encoding, net/http leaves the answer encoded. The client reads the verdict from the
// decoded body. A caller that gets the answer gets the encoded bytes.
func TestSend_encodedRefusal(t *testing.T) {
	t.Parallel()
	const busy = `{"status":422,"errorCode":"704","message":"request already processed or in progress"}`
	encoders := map[string]func(io.Writer) io.WriteCloser{
		"gzip":   func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) },
		"x-gzip": func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) },
		"GZIP":   func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) },
		"deflate": func(w io.Writer) io.WriteCloser {
			z, err := flate.NewWriter(w, flate.BestSpeed)
			require.NoError(t, err)
			return z
		},
		"zlib": func(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) },
	}
	encode := func(coding, text string) []byte {
		var b bytes.Buffer
		w := encoders[coding](&b)
		_, err := io.WriteString(w, text)
		require.NoError(t, err)
		require.NoError(t, w.Close())
		return b.Bytes()
	}
	for coding := range encoders {
		name := coding
		if coding == "zlib" {
			name = "deflate" // RFC 9110 section 8.4.1.2
		}
		body := encode(coding, busy)
		steps := 0
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if steps++; steps > 1 {
				_, _ = io.WriteString(w, `{"resultCode":"Authorised"}`)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Encoding", name)
			w.WriteHeader(http.StatusUnprocessableEntity)
			_, _ = w.Write(body)
		}))
		cfg := retry.Config{Transport: retry.NewTransport(), Profile: retry.Adyen(), Poll: retry.Backoff{Base: 1, Cap: 1}, Backoff: retry.Backoff{Base: 1, Cap: 1}}
		call := post(srv.URL)
		call.Header = http.Header{"Accept-Encoding": {"gzip"}}
		_, err := newClient(t, cfg).Send(t.Context(), call)
		require.NoError(t, err, "%s: asked again while the first run was in progress", coding)
		require.Equal(t, 2, steps, coding)
		steps = 0
		cfg.Profile = &retry.Profile{}
		_, err = newClient(t, cfg).Send(t.Context(), call)
		var failed *retry.Error
		require.ErrorAs(t, err, &failed)
		require.Equal(t, []any{"704", busy}, []any{string(failed.Code), string(failed.Body)}, coding)

		steps = 0
		req, _ := request(t, http.MethodPost, srv.URL, "body")
		req.Header.Set("Accept-Encoding", "gzip")
		req.Header.Set(wire.HeaderKey, `"k-1"`)
		resp, err := newClient(t, cfg).Do(req)
		require.NoError(t, err)
		raw, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, body, raw, coding)
		srv.Close()
	}
}

// A short body can decode to a long one, and a coding can be a lie.
func TestSend_encodedRefusalThatIsLong(t *testing.T) {
	t.Parallel()
	var bomb bytes.Buffer
	w := gzip.NewWriter(&bomb)
	_, err := w.Write(bytes.Repeat([]byte("x"), 16<<20))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	for _, body := range []string{bomb.String(), "no gzip", ""} {
		_, err := newClient(t, over(script(answer(422, body, "Content-Encoding: gzip")))).Send(t.Context(), post(stubURL))
		var failed *retry.Error
		require.ErrorAs(t, err, &failed)
		require.Equal(t, retry.Rejected, failed.Outcome)
		require.LessOrEqual(t, len(failed.Body), 64<<10)
	}
}
