package retry_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/retry"
)

func TestSend_refusesBadCalls(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		change func(*retry.Call)
	}{
		{"no method", func(c *retry.Call) { c.Method = "" }},
		{"method is no token", func(c *retry.Call) { c.Method = "PO ST" }},
		{"CONNECT", func(c *retry.Call) { c.Method = http.MethodConnect }},
		{"no URL", func(c *retry.Call) { c.URL = "" }},
		{"relative URL", func(c *retry.Call) { c.URL = "/charges?secret" }},
		{"no host", func(c *retry.Call) { c.URL = "http://" }},
		{"port without host", func(c *retry.Call) { c.URL = "http://:80/secret" }},
		{"other scheme", func(c *retry.Call) { c.URL = "ftp://h/secret" }},
		{"port beyond the last", func(c *retry.Call) { c.URL = "http://h:65536/secret" }},
		{"host that no header can carry", func(c *retry.Call) { c.URL = "http://h<h/secret" }},
		{"unparsable URL", func(c *retry.Call) { c.URL = "http://h/%zz/secret" }},
		{"own header", func(c *retry.Call) { c.Header = http.Header{"Idempotency-Key": {"secret"}} }},
		{"own header, other case", func(c *retry.Call) { c.Header = http.Header{"retry-attempt": {"1"}} }},
		{"own header of the profile", func(c *retry.Call) {
			c.Header = http.Header{"X-Call-Id": {"secret"}}
		}},
		{"header name", func(c *retry.Call) { c.Header = http.Header{"a b": {"secret"}} }},
		{"header value", func(c *retry.Call) { c.Header = http.Header{"A": {"x\r\nsecret: 1"}} }},
		{"upgrade", func(c *retry.Call) { c.Header = http.Header{"Upgrade": {"secret"}} }},
		{"option of the connection", func(c *retry.Call) { c.Header = http.Header{"connection": {"secret"}} }},
		{"options of the connection", func(c *retry.Call) { c.Header = http.Header{"Connection": {"close", "close"}} }},
		{"coding of the transfer", func(c *retry.Call) { c.Header = http.Header{"Transfer-Encoding": {"secret"}} }},
		{"key that is too long", func(c *retry.Call) { c.Key = mustKey("secret-" + strings.Repeat("x", 40)) }},
		{"key with other characters", func(c *retry.Call) { c.Key = mustKey("secret~") }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			rt := script(status(200))
			call := post(stubURL)
			tt.change(&call)
			profile := &retry.Profile{KeyHeader: "X-Call-Id", MaxKeyBytes: 40, Charset: "0123456789-abcdefghijklmnopqrstuvwxyz"}
			failed := failure(t, newClient(t, under(profile, over(rt))), call)
			require.ErrorIs(t, failed, retry.ErrInvalid)
			require.Equal(t, retry.NotSent, failed.Outcome)
			require.NotEmpty(t, failed.Evidence)
			require.False(t, failed.Retryable)
			require.Zero(t, rt.count())
			require.NotContains(t, failed.Error(), "secret")
		})
	}
}

// A caller may copy these headers from another request. net/http drops or sends them as it always
// does.
func TestSend_harmlessConnectionHeaders(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, p protocol) {
		srv, cfg := serve(t, p, okay)
		call := post(srv.URL)
		call.Header = http.Header{
			"Connection": {"Keep-Alive"}, "Transfer-Encoding": {"chunked"}, "Upgrade": nil, "Content-Length": {"99"}, "Host": {"h"},
		}
		_, err := newClient(t, cfg).Send(t.Context(), call)
		require.NoError(t, err)
	})
}

func TestSend_hosts(t *testing.T) {
	t.Parallel()
	for _, host := range []string{"h", "a_b.test", "127.0.0.1:65535", "[::1]:80", "[fe80::1%25eth0]", "münchen.test"} {
		rt := script(status(200))
		_, err := newClient(t, over(rt)).Send(t.Context(), post("http://"+host+"/"))
		require.NoError(t, err, host)
		require.Equal(t, 1, rt.count())
	}
}

func TestSend_sendsItsHeaders(t *testing.T) {
	t.Parallel()
	rt := script(status(503), status(200))
	call := post(stubURL + "#fragment")
	call.Cancels = mustKey("forward-1")
	call.FirstSent = time.Date(2026, 11, 21, 10, 0, 0, 0, time.FixedZone("", 3600))
	call.Header = http.Header{"Prefer": {"wait=5"}, "content-type": {"application/json"}}
	_, err := newClient(t, over(rt)).Send(t.Context(), call)
	require.NoError(t, err)
	require.Equal(t, `"k-1" "k-1"`, rt.header(wire.HeaderKey))
	require.Equal(t, `"forward-1" "forward-1"`, rt.header(wire.HeaderCancels))
	require.Equal(t, `2026-11-21T09:00:00Z 2026-11-21T09:00:00Z`, rt.header(wire.HeaderFirstSent))
	require.Equal(t, `1 2`, rt.header(wire.HeaderRetryAttempt))
	require.Equal(t, `wait=5 wait=5`, rt.header(wire.HeaderPrefer))
	require.Equal(t, `application/json application/json`, rt.header("Content-Type"))
	require.Equal(t, []string{`{"amount":5}`, `{"amount":5}`}, rt.bodies)
	require.Empty(t, rt.requests[0].URL.Fragment)
}

func TestSend_keyHeaderForms(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		profile    *retry.Profile
		name, want string
	}{
		{nil, "Idempotency-Key", `"k-1"`},
		{&retry.Profile{}, "Idempotency-Key", `"k-1"`},
		{retry.Unguarded(), "Idempotency-Key", `"k-1"`},
		{&retry.Profile{Bare: true}, "Idempotency-Key", `k-1`},
		{&retry.Profile{KeyHeader: "paypal-request-id", Bare: true}, "Paypal-Request-Id", `k-1`},
		{&retry.Profile{KeyHeader: "paypal-request-id", Bare: true}, "Idempotency-Key", ``},
		{&retry.Profile{BodyField: "request_id"}, "Idempotency-Key", ``},
	} {
		rt := script(status(200))
		_, err := newClient(t, under(tt.profile, over(rt))).Send(t.Context(), post(stubURL))
		require.NoError(t, err)
		require.Equal(t, tt.want, rt.header(tt.name), "%+v", tt.profile)
	}
}

// Later changes to the caller's slices and maps, or to the transport's request, change no
// attempt.
func TestSend_freezesTheCall(t *testing.T) {
	t.Parallel()
	call := post(stubURL)
	call.Header = http.Header{"X-Trace": {"a"}}
	rt := script(func(req *http.Request) (*http.Response, error) {
		call.Body[0] = 'X'
		call.Header.Set("X-Trace", "changed")
		req.Header.Set("X-Trace", "changed")
		req.Header.Set(wire.HeaderKey, "changed")
		req.URL.Path = "/changed"
		return status(503)(req)
	}, status(200))
	_, err := newClient(t, over(rt)).Send(t.Context(), call)
	require.NoError(t, err)
	require.Equal(t, `{"amount":5}`, rt.bodies[1])
	require.Equal(t, "a", rt.requests[1].Header.Get("X-Trace"))
	require.Equal(t, `"k-1"`, rt.requests[1].Header.Get(wire.HeaderKey))
	require.Equal(t, "/charges", rt.requests[1].URL.Path)
}

func TestSend_payloadChanged(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		change func(*http.Request)
	}{
		{"other key", func(r *http.Request) { r.Header.Set(wire.HeaderKey, `"other"`) }},
		{"no key", func(r *http.Request) { r.Header.Del(wire.HeaderKey) }},
		{"second key in lower case", func(r *http.Request) { r.Header["idempotency-key"] = []string{"other"} }},
		{"two keys", func(r *http.Request) { r.Header.Add(wire.HeaderKey, `"other"`) }},
		{"attempt", func(r *http.Request) { r.Header.Set(wire.HeaderRetryAllowance, "16") }},
		{"cancels", func(r *http.Request) { r.Header.Set(wire.HeaderCancels, `"other"`) }},
		{"method", func(r *http.Request) { r.Method = http.MethodPut }},
		{"URL", func(r *http.Request) { r.URL.Path = "/refunds" }},
		{"no URL", func(r *http.Request) { r.URL = nil }},
		{"host", func(r *http.Request) { r.Host = "elsewhere.test" }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			rt := script(status(503))
			cfg := over(rt)
			cfg.Prepare = func(attempt int, r *http.Request) error {
				if attempt == 2 {
					tt.change(r)
				}
				return nil
			}
			failed := failure(t, newClient(t, cfg), post(stubURL))
			require.ErrorIs(t, failed, retry.ErrPayloadChanged)
			require.Equal(t, 1, rt.count(), "the changed attempt is not sent")
			require.Equal(t, retry.Unknown, failed.Outcome, "the first attempt was")
		})
	}
}

func TestSend_prepareMaySign(t *testing.T) {
	t.Parallel()
	rt := script(status(503), status(200))
	cfg := over(rt)
	cfg.Prepare = func(_ int, r *http.Request) error {
		body, err := io.ReadAll(r.Body) // consumes it
		r.Header.Set("X-Signature", string(bytes.ToUpper(body)))
		r.Header.Add("Authorization", "Bearer t")
		return err
	}
	_, err := newClient(t, cfg).Send(t.Context(), post(stubURL))
	require.NoError(t, err)
	require.Equal(t, `{"AMOUNT":5} {"AMOUNT":5}`, rt.header("X-Signature"))
	require.Equal(t, `Bearer t Bearer t`, rt.header("Authorization"))
	require.Equal(t, []string{`{"amount":5}`, `{"amount":5}`}, rt.bodies)
}

func TestSend_prepareFails(t *testing.T) {
	t.Parallel()
	noToken := errors.New("no token")
	for _, prepare := range []func(int, *http.Request) error{
		func(int, *http.Request) error { return noToken },
		func(_ int, r *http.Request) error { r.Header.Set("A", "b\nc"); return nil },
	} {
		rt := script(status(200))
		cfg := over(rt)
		cfg.Prepare = prepare
		failed := failure(t, newClient(t, cfg), post(stubURL))
		require.Equal(t, retry.NotSent, failed.Outcome)
		require.Zero(t, rt.count())
		require.ErrorContains(t, failed, "prepare")
	}
}

// The body of the call is sent, whatever the hook leaves in its copy of the request.
func TestSend_prepareHasACopyOfTheBody(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(*http.Request){
		"other bytes":   func(r *http.Request) { r.Body = io.NopCloser(strings.NewReader(`{"amount":6}`)) },
		"more bytes":    func(r *http.Request) { r.Body = io.NopCloser(strings.NewReader(`{"amount":5} `)) },
		"a failure":     func(r *http.Request) { r.Body = io.NopCloser(&failingReader{}) },
		"no body":       func(r *http.Request) { r.Body, r.ContentLength = nil, 0 },
		"another way":   func(r *http.Request) { r.GetBody = func() (io.ReadCloser, error) { return http.NoBody, nil } },
		"written bytes": func(r *http.Request) { b, _ := io.ReadAll(r.Body); flip(b) },
	} {
		rt := script(status(503), status(200))
		cfg := over(rt)
		cfg.Prepare = func(_ int, r *http.Request) error { leave(r); return nil }
		_, err := newClient(t, cfg).Send(t.Context(), post(stubURL))
		require.NoError(t, err, name)
		require.Equal(t, []string{`{"amount":5}`, `{"amount":5}`}, rt.bodies, name)
		require.EqualValues(t, len(`{"amount":5}`), rt.requests[0].ContentLength, name)
	}
}

// A transport that scribbles over what it was to read must not get a second go.
func TestSend_transportThatWritesIntoTheBody(t *testing.T) {
	t.Parallel()
	n := 0
	rt := roundTrip(func(req *http.Request) (*http.Response, error) {
		n++
		if from, ok := req.Body.(io.WriterTo); ok {
			from.WriteTo(scribbler{})
		}
		return status(503)(req)
	})
	failed := failure(t, newClient(t, over(rt)), post(stubURL))
	require.ErrorIs(t, failed, retry.ErrPayloadChanged)
	require.Equal(t, 1, n)
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

type scribbler struct{}

func (scribbler) Write(b []byte) (int, error) { flip(b); return len(b), nil }

func flip(b []byte) { b[0] ^= 1 }
