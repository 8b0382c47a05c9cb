package retry_test

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/retry"
)

// A request to an unknown service leaves with the bytes that net/http alone would send. This
// holds with a key or without one, for any header.
func TestRoundTripper_withoutProfileChangesNoByte(t *testing.T) {
	t.Parallel()
	for name, header := range map[string]http.Header{
		"a bare key":                     {"Idempotency-Key": {"abc"}},
		"a quoted key":                   {"Idempotency-Key": {`"abc"`}},
		"a key with parameters":          {"Idempotency-Key": {`"abc";v=1`}},
		"a name in lower case":           {"idempotency-key": {"abc"}},
		"another header of the caller's": {"Idempotency-Key": {"abc"}, "retry-attempt": {"7"}, "Request-Timeout-Ms": {"5"}},
		"an undo":                        {"Idempotency-Key": {"abc"}, "Idempotency-Cancels": {"def"}},
		"no key":                         {"X-trace": {"a", "b"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, tt := range []struct{ method, body string }{{"POST", "body"}, {"DELETE", ""}, {"PUT", "x=1"}} {
				want := sentBytes(t, tt.method, tt.body, header, func(tr http.RoundTripper) func(*http.Request) (*http.Response, error) {
					return (&http.Client{Transport: tr}).Do
				})
				for via, send := range map[string]func(http.RoundTripper) func(*http.Request) (*http.Response, error){
					"RoundTripper": func(tr http.RoundTripper) func(*http.Request) (*http.Response, error) {
						return (&http.Client{Transport: newClient(t, under(nil, over(tr))).RoundTripper()}).Do
					},
					"Do": func(tr http.RoundTripper) func(*http.Request) (*http.Response, error) {
						return newClient(t, under(nil, over(tr))).Do
					},
				} {
					require.Equal(t, want, sentBytes(t, tt.method, tt.body, header, send), "%s, %s", via, tt.method)
				}
			}
		})
	}
}

// sentBytes returns what arrives at a socket when the client sends a request.
func sentBytes(
	t *testing.T, method, body string, header http.Header,
	client func(http.RoundTripper) func(*http.Request) (*http.Response, error),
) string {
	t.Helper()
	arrived := make(chan string, 1)
	url := raw(t, func(conn net.Conn) {
		var copied bytes.Buffer
		if req, err := http.ReadRequest(bufio.NewReader(io.TeeReader(conn, &copied))); err == nil {
			io.Copy(io.Discard, req.Body)
		}
		arrived <- copied.String()
		io.WriteString(conn, "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
		conn.Close()
	})
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	require.NoError(t, err)
	req.Host, req.Header = "service.test", header.Clone()
	resp, err := client(ownTransport(t))(req)
	require.NoError(t, err)
	resp.Body.Close()
	return <-arrived
}

// Nor does a call that a Call describes bring headers that no Profile names.
func TestSend_withoutProfile(t *testing.T) {
	t.Parallel()
	rt := script(status(503), status(200))
	call := post(stubURL)
	call.Cancels, call.FirstSent = mustKey("forward-1"), time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	_, err := newClient(t, under(nil, over(rt))).Send(t.Context(), call)
	require.NoError(t, err)
	for _, req := range rt.requests {
		require.Equal(t, http.Header{
			wire.HeaderKey: {`"k-1"`}, wire.HeaderCancels: {`"forward-1"`}, wire.HeaderFirstSent: {"2026-11-21T10:00:00Z"},
		}, req.Header, "what the Call itself asks for")
	}
}

// A service gets those of our headers that its Profile names, whoever makes the call.
func TestProfile_namesTheHeadersThatAreSent(t *testing.T) {
	t.Parallel()
	all := []string{
		wire.HeaderFirstSent, wire.HeaderCancels, wire.HeaderParent, wire.HeaderRetryAttempt, wire.HeaderRetryAllowance, wire.HeaderRequestTimeout,
	}
	for _, tt := range []struct {
		profile *retry.Profile
		want    []string
	}{
		{retry.Unguarded(), all},
		{&retry.Profile{}, nil},
		{retry.Stripe(), nil},
		{&retry.Profile{Headers: []string{"retry-attempt", wire.HeaderCancels}}, []string{wire.HeaderCancels, wire.HeaderRetryAttempt}},
	} {
		rt := script(status(200))
		c := newClient(t, under(tt.profile, over(rt)))
		call := post(stubURL)
		call.Cancels, call.FirstSent = mustKey("forward-1"), time.Now()
		run := wire.NewContext(t.Context(), wire.Inbound{Parent: [16]byte{7}})
		_, err := c.Send(run, call)
		require.NoError(t, err)
		req, _ := request(t, http.MethodPost, stubURL, "body")
		req = req.WithContext(run)
		req.Header.Set(wire.HeaderKey, "k-1")
		req.Header.Set(wire.HeaderCancels, "forward-1")
		req.Header.Set(wire.HeaderFirstSent, wire.FormatFirstSent(time.Now()))
		resp, err := c.Do(req)
		require.NoError(t, err)
		resp.Body.Close()
		for _, sent := range rt.requests {
			var got []string
			for _, name := range all {
				if len(sent.Header.Values(name)) > 0 {
					got = append(got, name)
				}
			}
			require.Equal(t, tt.want, got)
		}
	}
}

// The key of a request is carried as the Profile says: under another name, in the body, in
// quotes or without.
func TestDo_carriesTheKeyByItsProfile(t *testing.T) {
	t.Parallel()
	const own = "Paypal-Request-Id"
	tests := []struct {
		name    string
		profile *retry.Profile
		header  http.Header
		want    http.Header
		body    string
	}{
		{"bare", &retry.Profile{Bare: true}, http.Header{wire.HeaderKey: {`"k"`}}, http.Header{wire.HeaderKey: {"k"}}, `{"a":1}`},
		{"quoted", &retry.Profile{}, http.Header{"idempotency-key": {"k"}}, http.Header{wire.HeaderKey: {`"k"`}}, `{"a":1}`},
		{"under the service's name", &retry.Profile{KeyHeader: own, Bare: true}, http.Header{wire.HeaderKey: {"k"}}, http.Header{own: {"k"}}, `{"a":1}`},
		{"under it already", &retry.Profile{KeyHeader: own, Bare: true}, http.Header{own: {"k"}}, http.Header{own: {"k"}}, `{"a":1}`},
		{"under both", &retry.Profile{KeyHeader: own, Bare: true}, http.Header{own: {"k"}, wire.HeaderKey: {`"k"`}}, http.Header{own: {"k"}}, `{"a":1}`},
		{"in the body", &retry.Profile{BodyField: "id"}, http.Header{wire.HeaderKey: {`"k"`}}, http.Header{}, `{"id":"k","a":1}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			rt := script(status(503), status(200))
			req, _ := request(t, http.MethodPost, stubURL, `{"a":1}`)
			req.Header = tt.header
			if tt.header[wire.HeaderKey] == nil && tt.profile.KeyHeader != "" {
				tt.header["paypal-request-id"] = nil // another spelling without a line
			}
			resp, err := newClient(t, under(tt.profile, over(rt))).Do(req)
			require.NoError(t, err)
			resp.Body.Close()
			require.Equal(t, 2, rt.count(), "it is safe to repeat")
			for i, sent := range rt.requests {
				require.Equal(t, tt.want, sent.Header)
				require.Equal(t, tt.body, rt.bodies[i])
			}
		})
	}
}

func TestDo_refusesWhatItsProfileCannotCarry(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name         string
		profile      *retry.Profile
		header       http.Header
		method, body string
	}{
		{"two keys", &retry.Profile{KeyHeader: "X-Key"}, http.Header{wire.HeaderKey: {"a"}, "X-Key": {"b"}}, "POST", ""},
		{"two spellings", nil, http.Header{wire.HeaderKey: {"a"}, "idempotency-key": {"a"}}, "POST", ""},
		{"no key", &retry.Profile{KeyHeader: "X-Key"}, http.Header{"X-Key": {`"a`}}, "POST", ""},
		{"a long key", retry.UUIDOnly(), http.Header{wire.HeaderKey: {strings.Repeat("a", 37)}}, "POST", ""},
		{"other characters", retry.UUIDOnly(), http.Header{wire.HeaderKey: {"order-7"}}, "POST", ""},
		{"no JSON", &retry.Profile{BodyField: "id"}, http.Header{wire.HeaderKey: {"a"}}, "POST", "a=1"},
		{"no object", &retry.Profile{BodyField: "id"}, http.Header{wire.HeaderKey: {"a"}}, "POST", "null"},
		{"two objects", &retry.Profile{BodyField: "id"}, http.Header{wire.HeaderKey: {"a"}}, "POST", "{} {}"},
		{"no body", &retry.Profile{BodyField: "id"}, http.Header{wire.HeaderKey: {"a"}}, "POST", ""},
		{"a member of that name", &retry.Profile{BodyField: "id"}, http.Header{wire.HeaderKey: {"a"}}, "PUT", `{"id":"b"}`},
	}
	for _, tt := range tests {
		rt := script(status(200))
		req, closed := request(t, tt.method, stubURL, tt.body)
		req.Header = tt.header
		_, err := newClient(t, under(tt.profile, over(rt))).Do(req) //nolint:bodyclose // there is none
		require.ErrorIs(t, err, retry.ErrInvalid, tt.name)
		require.ErrorIs(t, err, retry.ErrNotSent, tt.name)
		require.Zero(t, rt.count(), tt.name)
		require.EqualValues(t, 1, closed.Load(), tt.name)
	}
}

// A key in the body needs no body where the method alone makes the call safe to repeat.
func TestSend_bodyFieldWithoutBody(t *testing.T) {
	t.Parallel()
	rt := script(status(503), status(200))
	call := post(stubURL)
	call.Method, call.Body = http.MethodDelete, nil
	_, err := newClient(t, under(&retry.Profile{BodyField: "id"}, over(rt))).Send(t.Context(), call)
	require.NoError(t, err)
	require.Equal(t, []string{"", ""}, rt.bodies)
}

// A long body that a request could open anew is read into memory if it must carry the key.
func TestDo_bodyFieldOfALongBody(t *testing.T) {
	t.Parallel()
	rt := script(status(503), status(200))
	text := `{"a":"` + strings.Repeat("x", 2<<20) + `"}`
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, stubURL, strings.NewReader(text))
	require.NoError(t, err)
	req.Header.Set(wire.HeaderKey, "k")
	resp, err := newClient(t, under(&retry.Profile{BodyField: "id"}, over(rt))).Do(req)
	require.NoError(t, err)
	resp.Body.Close()
	require.Equal(t, `{"id":"k",`+text[1:], rt.bodies[1])
}

func TestSend_conflictByItsProfile(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		conflict retry.Verdict
		outcome  retry.Outcome
		sent     int
	}{
		{retry.Verdict{}, retry.Unknown, 4},
		{retry.Verdict{Action: retry.Wait}, retry.Unknown, 61}, // it asks until MaxPolls
		{retry.Verdict{Outcome: retry.Rejected}, retry.Rejected, 1},
	} {
		profile := &retry.Profile{Conflict: tt.conflict}
		rt := script(status(409))
		failed := failure(t, newClient(t, under(profile, over(rt))), post(stubURL))
		require.Equal(t, tt.outcome, failed.Outcome)
		require.Equal(t, tt.sent, rt.count())

		// A service that honoured the key decides, and its code goes first.
		rt = script(status(409, wire.HeaderReplayed+": true"))
		failed = failure(t, newClient(t, under(profile, over(rt))), post(stubURL))
		require.Equal(t, retry.Rejected, failed.Outcome)
		require.Equal(t, 1, rt.count())
		rt = script(problem(wire.InProgress), status(200))
		_, err := newClient(t, under(profile, over(rt))).Send(t.Context(), post(stubURL))
		require.NoError(t, err)
	}
}

// A call that was first sent too long ago is not sent, nor sent again.
func TestSend_retention(t *testing.T) {
	t.Parallel()
	profile := &retry.Profile{Retention: 10 * time.Hour}
	for _, tt := range []struct {
		name   string
		age    time.Duration
		change func(*retry.Call)
		sent   int
		want   error
	}{
		{"young", 9 * time.Hour, nil, 1, nil},
		{"older than the margin allows", 9*time.Hour + 30*time.Minute, nil, 0, retry.ErrKeyExpired},
		{"nobody knows", 0, func(c *retry.Call) { c.FirstSent = time.Time{} }, 1, nil},
		{"its own end", 11 * time.Hour, func(c *retry.Call) { c.Expires = time.Now().Add(time.Hour) }, 1, nil},
		{"reading", 11 * time.Hour, func(c *retry.Call) { c.Method = http.MethodGet }, 1, nil},
		{"without a key", 11 * time.Hour, func(c *retry.Call) { c.Key = childkey.Key{} }, 1, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				rt := script(status(200))
				call := post(stubURL)
				call.FirstSent = time.Now()
				time.Sleep(tt.age)
				if tt.change != nil {
					tt.change(&call)
				}
				_, err := newClient(t, under(profile, over(rt))).Send(t.Context(), call)
				require.Equal(t, tt.sent, rt.count())
				if tt.want == nil {
					require.NoError(t, err)
					return
				}
				require.ErrorIs(t, err, tt.want)
				require.ErrorIs(t, err, retry.ErrUnknown, "somebody sent it before")
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		rt := script(status(503, wire.HeaderRetryAfter+": 30"))
		call := post(stubURL)
		call.FirstSent = time.Now()
		time.Sleep(9*time.Hour + 30*time.Minute - 10*time.Second)
		failed := failure(t, newClient(t, under(profile, over(rt))), call)
		require.ErrorIs(t, failed, retry.ErrKeyExpired)
		require.Equal(t, 1, rt.count())
	})
}

func TestNew_refusesProfiles(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		profile retry.Profile
		want    string // field and value
		is      error  // nil: any
	}{
		{"two carriers", retry.Profile{KeyHeader: "X-Key", BodyField: "key"}, `BodyField: "key"`, nil},
		{"a carrier that is no name", retry.Profile{KeyHeader: "X Key"}, `KeyHeader: "X Key"`, nil},
		{"a carrier with another meaning", retry.Profile{KeyHeader: "authorization"}, "KeyHeader:", nil},
		{"a carrier of the connection", retry.Profile{KeyHeader: "Te"}, "KeyHeader:", nil},
		{"a carrier of ours", retry.Profile{KeyHeader: "idempotency-cancels"}, "KeyHeader:", nil},
		{"a member that is no text", retry.Profile{BodyField: "a\xff"}, "BodyField:", nil},
		{"a header of others", retry.Profile{Headers: []string{"X-Other"}}, `Headers: "X-Other"`, nil},
		{"the key's header", retry.Profile{Headers: []string{"idempotency-key"}}, "Headers: Idempotency-Key", nil},
		{"a header twice", retry.Profile{Headers: []string{"Retry-Attempt", "retry-attempt"}}, "Headers: Retry-Attempt", nil},
		{"no encoding", retry.Profile{Encoding: 99}, "Encoding:", childkey.ErrBadEncoding},
		{"long keys", retry.Profile{Encoding: childkey.Hex64, MaxKeyBytes: 40}, "Encoding: hex64 is 64 bytes, at most 40", nil},
		{"a negative length", retry.Profile{MaxKeyBytes: -1}, "MaxKeyBytes: -1", nil},
		{"a length over all", retry.Profile{MaxKeyBytes: 256}, "MaxKeyBytes: 256", nil},
		{"a charset without letters", retry.Profile{Charset: "0123456789"}, `Charset: "0123456789" has not all characters of hex32`, nil},
		{"a charset in upper case", retry.Profile{Encoding: childkey.UUIDv4, Charset: "0123456789ABCDEF-"}, "Charset:", nil},
		{"a charset with a quote", retry.Profile{Charset: `0123456789abcdef"`}, "Charset:", nil},
		{"a zero secret", retry.Profile{Keyed: &childkey.Keyed{}}, "Keyed:", nil},
		{"a negative retention", retry.Profile{Retention: -time.Hour}, "Retention: -1h0m0s", nil},
		{"no conflict", retry.Profile{Conflict: retry.Verdict{Outcome: retry.Completed}}, "Conflict: Outcome Completed", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := retry.New(retry.Config{Profile: &tt.profile})
			require.ErrorIs(t, err, retry.ErrConfig)
			require.ErrorContains(t, err, "retry: bad config: Profile."+tt.want)
			if tt.is != nil {
				require.ErrorIs(t, err, tt.is)
			}
		})
	}
	for _, p := range []*retry.Profile{nil, {}, retry.Fanonce(), retry.Stripe(), retry.Adyen(), retry.UUIDOnly()} {
		_, err := retry.New(retry.Config{Profile: p})
		require.NoError(t, err)
	}
}

// The client has a copy of the profile: changes afterwards do not matter.
func TestNew_copiesItsProfile(t *testing.T) {
	t.Parallel()
	rt := script(status(200))
	profile := retry.Unguarded()
	c := newClient(t, under(profile, over(rt)))
	profile.Headers[2], profile.KeyHeader, profile.Bare = "X", "X-Other", true
	_, err := c.Send(t.Context(), post(stubURL))
	require.NoError(t, err)
	require.Equal(t, `"k-1"`, rt.header(wire.HeaderKey))
	require.Equal(t, "1", rt.header(wire.HeaderRetryAttempt))
}

func TestProfile_Derive(t *testing.T) {
	t.Parallel()
	parent := mustKey("order-1042")
	secret, err := childkey.NewKeyed("k1", []byte("0123456789abcdef"))
	require.NoError(t, err)
	plain, err := childkey.Derive(parent, "payment", "charge", "line-1")
	require.NoError(t, err)
	sum, err := secret.Sum(parent, "payment", "charge", "line-1")
	require.NoError(t, err)
	hidden, err := childkey.Hex32.Key(sum)
	require.NoError(t, err)
	for _, tt := range []struct {
		profile *retry.Profile
		want    childkey.Key
		length  int
	}{
		{nil, plain, 32},
		{retry.Fanonce(), plain, 32},
		{&retry.Profile{Keyed: secret}, hidden, 32},
		{retry.UUIDOnly(), childkey.Key{}, 36},
	} {
		key, err := tt.profile.Derive(parent, "payment", "charge", "line-1")
		require.NoError(t, err)
		require.Len(t, key.String(), tt.length)
		if !tt.want.IsZero() {
			require.Equal(t, tt.want, key)
		}
	}
	_, err = (*retry.Profile)(nil).Derive(parent, "payment", "")
	require.ErrorIs(t, err, childkey.ErrEmpty)
}

func TestProfile_Expires(t *testing.T) {
	t.Parallel()
	first := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	require.Equal(t, first.Add(19*time.Hour), (&retry.Profile{Retention: 20 * time.Hour}).Expires(first))
	require.Zero(t, retry.Fanonce().Expires(first))
	require.Zero(t, (*retry.Profile)(nil).Expires(first))
}

// Check says what Send would refuse, and sends nothing.
func TestClient_Check(t *testing.T) {
	t.Parallel()
	rt := script(status(200))
	c := newClient(t, under(&retry.Profile{BodyField: "id"}, over(rt)))
	require.NoError(t, c.Check(post(stubURL)))
	call := post(stubURL)
	call.Body = []byte(`{"id":1}`)
	require.ErrorIs(t, c.Check(call), retry.ErrInvalid)
	call = post("ftp://payment.test")
	require.ErrorIs(t, c.Check(call), retry.ErrInvalid)
	require.ErrorIs(t, new(retry.Client).Check(post(stubURL)), retry.ErrConfig)
	require.Zero(t, rt.count())
}
