package sdk_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/sdk"
	"github.com/fanonce/fanonce/sdk/sdktest"
)

// through returns an http.Client of a service at url.
func through(tb testing.TB, s sdk.Service) *http.Client {
	tb.Helper()
	if s.Retry == nil {
		s.Retry = &quick
	}
	c, err := sdk.New(sdk.Config{Services: map[string]sdk.Service{"payment": s}})
	require.NoError(tb, err)
	return &http.Client{Transport: c.RoundTripper("payment")}
}

// do sends a request as a generated client does, and returns the status.
func do(ctx context.Context, c *http.Client, method, url, body string, header ...string) (int, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	for _, line := range header {
		if name, value, ok := strings.Cut(line, ": "); ok {
			req.Header.Add(name, value)
		}
	}
	resp, err := c.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}

// A request's key is derived from its method and path template, in the form that the
// service takes, and every attempt has it.
func TestRoundTripper_derivesTheKey(t *testing.T) {
	t.Parallel()
	byLine := func(req *http.Request) (string, []string, error) {
		return "book", []string{req.Header.Get("X-Line")}, nil
	}
	ctx := parent(t, "p")
	tests := []struct {
		name         string
		service      sdk.Service
		method, path string
		header       string
		want         childkey.Key
	}{
		{"method and path", sdk.Service{}, "POST", "/charges", "", child(ctx, t, "payment", "POST", "/charges")},
		{"an id in the path", sdk.Service{}, "POST", "/charges/7/refunds", "", child(ctx, t, "payment", "POST", "/charges/7/refunds")},
		{"a query", sdk.Service{}, "PUT", "/charges?at=now", "", child(ctx, t, "payment", "PUT", "/charges")},
		{"an escape", sdk.Service{}, "DELETE", "/a%2fb", "", child(ctx, t, "payment", "DELETE", "/a%2fb")},
		{"no path", sdk.Service{}, "POST", "", "", child(ctx, t, "payment", "POST", "/")},
		{"a template", sdk.Service{Templates: []string{"POST /charges/{id}/refunds", "GET /charges/{id}"}}, "POST", "/charges/7/refunds", "",
			child(ctx, t, "payment", "POST/charges/id/refunds", "/charges/7/refunds")},
		{"a template of any method", sdk.Service{Templates: []string{"/v1/{name...}"}}, "PATCH", "/v1/a:b/c", "",
			child(ctx, t, "payment", "PATCH/v1/name", "/v1/a:b/c")},
		{"the narrower template", sdk.Service{Templates: []string{"/v1/{id}", "POST /v1/batch:all"}}, "POST", "/v1/batch:all", "",
			child(ctx, t, "payment", "POST/v1/batch-all", "/v1/batch:all")},
		{"a function", sdk.Service{OperationFunc: byLine}, "POST", "/charges", "X-Line: 7", child(ctx, t, "payment", "book", "7")},
		{"a unary call of connect", sdk.Service{}, "POST", "/shop.v1.Orders/Place", "Content-Type: application/proto",
			child(ctx, t, "payment", "POST", "/shop.v1.Orders/Place")},
		{"a key of its own", sdk.Service{}, "POST", "/charges", "Idempotency-Key: 1732_random", child(ctx, t, "payment", "POST", "/charges")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, base := range []string{"", "/base/v2"} {
				for _, profile := range []*retry.Profile{nil, retry.Stripe()} {
					d := sdktest.New(t, nil)
					d.Script(base+strings.Split(tt.path, "?")[0], sdktest.Status(503, ""))
					s := tt.service
					s.URL, s.Profile = d.URL()+base, profile
					status, err := do(parent(t, "p"), through(t, s), tt.method, d.URL()+base+tt.path, `{"a":1}`, tt.header)
					require.NoError(t, err)
					require.Equal(t, 200, status)
					want := tt.want.Quoted()
					if profile != nil {
						want = tt.want.String()
					}
					for _, r := range d.Requests() {
						require.Equal(t, []string{want}, r.Header.Values(wire.HeaderKey))
						require.Equal(t, profile == nil, r.Header.Get(wire.HeaderRetryAttempt) != "")
						require.Equal(t, `{"a":1}`, string(r.Body))
					}
					require.NotEmpty(t, d.Requests())
				}
			}
		})
	}
}

// A request without a key passes through with the service's headers, also without a parent key.
func TestRoundTripper_passesWhatNeedsNoKey(t *testing.T) {
	t.Parallel()
	d := sdktest.New(t, nil)
	asks := 0
	c := through(t, sdk.Service{
		URL: d.URL(), Header: http.Header{"Authorization": {"Bearer shop"}, "X-Team": {"shop"}},
		HeaderFunc: func(_ context.Context, h http.Header) error { asks++; h.Set("X-Token", h.Get("X-Team")); return nil },
		OperationFunc: func(req *http.Request) (string, []string, error) {
			if req.URL.Path == "/search" {
				return "", nil, nil
			}
			return "o", nil, nil
		},
	})
	for _, tt := range []struct{ method, path string }{{"GET", "/x"}, {"OPTIONS", "/x"}, {"POST", "/search"}} {
		before := len(d.Requests())
		var calls retry.Calls
		_, err := do(calls.Context(t.Context()), c, tt.method, d.URL()+tt.path, "", "Authorization: Bearer me")
		require.NoError(t, err)
		require.Equal(t, tt.method == "POST", calls.Outcome() == retry.Completed, "what may have had an effect is noted")
		r := d.Requests()[before]
		require.Empty(t, r.Key)
		require.Equal(t, []string{"Bearer me"}, r.Header.Values("Authorization"), "the request's own wins")
		require.Equal(t, "shop", r.Header.Get("X-Team"))
		require.Equal(t, "shop", r.Header.Get("X-Token"))
	}
	_, err := do(parent(t, "p"), c, "POST", d.URL()+"/y", "")
	require.NoError(t, err)
	last := d.Requests()[3]
	require.NotEmpty(t, last.Key)
	require.Equal(t, "Bearer shop", last.Header.Get("Authorization"))
	require.Equal(t, "shop", last.Header.Get("X-Token"))
	require.Equal(t, 4, asks)
}

// An event stream is read while it is written.
func TestRoundTripper_passesStreams(t *testing.T) {
	t.Parallel()
	read := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "data: first\n\n")
		_ = http.NewResponseController(w).Flush()
		select {
		case <-read:
		case <-r.Context().Done():
		}
	}))
	defer srv.Close()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL+"/events", nil)
	require.NoError(t, err)
	resp, err := through(t, sdk.Service{URL: srv.URL}).Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	event := make([]byte, len("data: first"))
	_, err = io.ReadFull(resp.Body, event)
	require.NoError(t, err)
	require.Equal(t, "data: first", string(event))
	require.Equal(t, "/events", resp.Request.URL.Path)
	close(read)
	_, err = io.Copy(io.Discard, resp.Body)
	require.NoError(t, err)
}

func TestRoundTripper_refusesBeforeAnythingIsSent(t *testing.T) {
	t.Parallel()
	d := sdktest.New(t, nil)
	failing := errors.New("no token")
	at := func(change func(*sdk.Service)) sdk.Service {
		s := sdk.Service{URL: d.URL() + "/v1"}
		if change != nil {
			change(&s)
		}
		return s
	}
	tests := []struct {
		name         string
		service      sdk.Service
		ctx          context.Context
		method, path string
		header       string
		want         error
	}{
		{"no parent", at(nil), t.Context(), "POST", "/v1/x", "", sdk.ErrNoParent},
		{"another host", at(func(s *sdk.Service) { s.URL = "http://other.test" }), parent(t, "p"), "POST", "/x", "", sdk.ErrRequest},
		{"another host, reading", at(func(s *sdk.Service) { s.URL = "http://other.test" }), parent(t, "p"), "GET", "/x", "", sdk.ErrRequest},
		{"another path", at(nil), parent(t, "p"), "POST", "/v10/x", "", sdk.ErrRequest},
		{"no template", at(func(s *sdk.Service) { s.Templates = []string{"POST /y", "PUT /x"} }), parent(t, "p"), "POST", "/v1/x", "", sdk.ErrRequest},
		{"gRPC", at(nil), parent(t, "p"), "POST", "/v1/x", "Content-Type: application/grpc+proto", sdk.ErrRequest},
		{"a stream of connect", at(nil), parent(t, "p"), "POST", "/v1/x", "Content-Type: application/connect+json", sdk.ErrRequest},
		{"a function's error", at(func(s *sdk.Service) {
			s.OperationFunc = func(*http.Request) (string, []string, error) { return "o", nil, failing }
		}), parent(t, "p"), "POST", "/v1/x", "", failing},
		{"a bad name", at(func(s *sdk.Service) {
			s.OperationFunc = func(*http.Request) (string, []string, error) { return "a b", nil, nil }
		}), parent(t, "p"), "POST", "/v1/x", "", childkey.ErrBadName},
		{"HeaderFunc", at(func(s *sdk.Service) {
			s.HeaderFunc = func(context.Context, http.Header) error { return failing }
		}), parent(t, "p"), "POST", "/v1/x", "", failing},
		{"HeaderFunc, reading", at(func(s *sdk.Service) {
			s.HeaderFunc = func(context.Context, http.Header) error { return failing }
		}), t.Context(), "GET", "/v1/x", "", failing},
		{"a header of ours by HeaderFunc", at(func(s *sdk.Service) {
			s.HeaderFunc = func(_ context.Context, h http.Header) error { h.Set(wire.HeaderKey, "mine"); return nil }
		}), parent(t, "p"), "POST", "/v1/x", "", sdk.ErrRequest},
		{"a body that cannot carry the key", at(func(s *sdk.Service) {
			s.Profile = &retry.Profile{BodyField: "id"}
		}), parent(t, "p"), "POST", "/v1/x", "", retry.ErrInvalid},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var calls retry.Calls
			var closed atomic.Int32
			req, err := http.NewRequestWithContext(calls.Context(tt.ctx), tt.method, d.URL()+tt.path, closing{strings.NewReader("x=1"), &closed})
			require.NoError(t, err)
			if name, value, ok := strings.Cut(tt.header, ": "); ok {
				req.Header.Set(name, value)
			}
			_, err = through(t, tt.service).Do(req) //nolint:bodyclose // there is none
			require.ErrorIs(t, err, tt.want)
			require.ErrorIs(t, err, retry.ErrNotSent)
			require.EqualValues(t, 1, closed.Load(), "the body is closed")
			require.Equal(t, retry.NotSent, calls.Outcome())
		})
	}
	for _, c := range []*sdk.Client{nil, newClient(t, d)} {
		_, err := do(parent(t, "p"), &http.Client{Transport: c.RoundTripper("mail")}, "POST", d.URL(), "")
		require.ErrorIs(t, err, retry.ErrNotSent)
		_, err = c.RoundTripper("payment").RoundTrip(nil) //nolint:bodyclose // there is none
		require.ErrorIs(t, err, retry.ErrNotSent)
	}
	require.Empty(t, d.Requests())
}

// A request that differs in what its key is not derived from is refused: it must not pass
// for a repetition of another.
func TestRoundTripper_refusesAKeyOfAnotherRequest(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		change func(*http.Request)
		want   error
	}{
		{"a query", func(r *http.Request) { r.URL.RawQuery = "live=1" }, childkey.ErrDuplicateChild},
		{"a host of its own", func(r *http.Request) { r.Host = "tenant.test" }, childkey.ErrDuplicateChild},
		{"no slash", func(r *http.Request) { r.URL.Path = "/v1" }, childkey.ErrDuplicateChild},
		{"an opaque URL", func(r *http.Request) { r.URL.Opaque = "//" + r.URL.Host + "/v1/2" }, sdk.ErrRequest},
		{"an opaque URL, reading", func(r *http.Request) {
			r.Method, r.URL.Opaque = http.MethodGet, "//"+r.URL.Host+"/v1/2"
		}, sdk.ErrRequest},
		{"the host of the URL", func(r *http.Request) { r.Host = "" }, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := sdktest.New(t, nil)
			c, ctx := through(t, sdk.Service{URL: d.URL() + "/v1"}), parent(t, "p")
			send := func(change func(*http.Request)) error {
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.URL()+"/v1/", nil)
				require.NoError(t, err)
				change(req)
				resp, err := c.Do(req)
				if err == nil {
					resp.Body.Close()
				}
				return err
			}
			require.NoError(t, send(func(*http.Request) {}))
			err := send(tt.change)
			if tt.want == nil {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, tt.want)
			require.ErrorIs(t, err, retry.ErrNotSent)
			require.Len(t, d.Requests(), 1)
		})
	}
}

// A closing counts how often it is closed.
type closing struct {
	io.Reader
	n *atomic.Int32
}

func (c closing) Close() error { c.n.Add(1); return nil }

func TestNew_refusesTemplates(t *testing.T) {
	t.Parallel()
	byFunc := func(*http.Request) (string, []string, error) { return "o", nil, nil }
	for _, tt := range []struct {
		service sdk.Service
		want    string
	}{
		{sdk.Service{Templates: []string{"charges"}}, `Services["s"].Templates: "charges": `},
		{sdk.Service{Templates: []string{"POST host.test/charges"}}, `Services["s"].Templates: "POST host.test/charges": `},
		{sdk.Service{Templates: []string{"/{id"}}, `Services["s"].Templates: "/{id": `},
		{sdk.Service{Templates: []string{"/a/{b}", "/a/{c}"}}, `Services["s"].Templates: "/a/{c}": `},
		{sdk.Service{Templates: []string{"/" + strings.Repeat("x", 130)}}, `Services["s"].Templates: "/x`},
		{sdk.Service{Templates: []string{"/a"}, OperationFunc: byFunc}, `Services["s"].OperationFunc: `},
	} {
		tt.service.URL = "http://s"
		_, err := sdk.New(sdk.Config{Services: map[string]sdk.Service{"s": tt.service}})
		require.ErrorIs(t, err, sdk.ErrConfig)
		require.ErrorContains(t, err, tt.want)
	}
}

// A request is the same call when it is made again, and one with another body is refused.
func TestRoundTripper_again(t *testing.T) {
	t.Parallel()
	d := sdktest.New(t, nil)
	c := through(t, sdk.Service{URL: d.URL()})
	ctx := parent(t, "p")
	for range 2 {
		_, err := do(ctx, c, "POST", d.URL()+"/charges", "a=1", "Idempotency-Key: random-"+fmt.Sprint(len(d.Requests())))
		require.NoError(t, err)
	}
	require.Len(t, d.Effects(), 1)
	_, err := do(ctx, c, "POST", d.URL()+"/charges", "a=2")
	require.ErrorIs(t, err, childkey.ErrDuplicateChild)
	_, err = do(parent(t, "p"), c, "POST", d.URL()+"/charges", "a=1") // another process
	require.NoError(t, err)
	require.Len(t, d.Effects(), 1)
}

// A lost request is not taken for undone because a later one is refused. The ctx's Calls know it.
func TestRoundTripper_outcomes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		says []int // request by request; 0: lost
		want retry.Outcome
	}{
		{"done", []int{201}, retry.Completed},
		{"refused", []int{402}, retry.Rejected},
		{"lost", []int{0}, retry.Unknown},
		{"failed", []int{500}, retry.Unknown},
		{"failed, then refused by a gateway", []int{500, 401}, retry.Unknown},
		{"failed, then done", []int{500, 200}, retry.Completed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				say := 0
				wired := roundTrip(func(*http.Request) (*http.Response, error) {
					if say == 0 {
						return nil, errors.New("connection lost")
					}
					return status(say, nil), nil
				})
				c := through(t, sdk.Service{URL: "http://payment", Retry: &retry.Config{Transport: wired, Profile: retry.Unguarded()}})
				var calls retry.Calls
				ctx := calls.Context(parent(t, "p"))
				for _, say = range tt.says {
					got, err := do(ctx, c, "POST", "http://payment/o", "a=1")
					if say == 0 {
						require.ErrorIs(t, err, retry.ErrUnknown)
						continue
					}
					require.NoError(t, err, "an answer is no error of a transport")
					require.Equal(t, say, got)
				}
				require.Equal(t, tt.want, calls.Outcome())
			})
		})
	}
}

// A request of a run that began before starts as Unknown, and is not sent when its service
// has forgotten the key.
func TestRoundTripper_inARerun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sent := 0
		wired := roundTrip(func(req *http.Request) (*http.Response, error) {
			sent++
			return status(http.StatusUnauthorized, nil), nil
		})
		c := through(t, sdk.Service{URL: "http://payment", Profile: retry.Stripe(), Retry: &retry.Config{Transport: wired}})
		first := time.Now()
		var calls retry.Calls
		rerun := func() context.Context {
			return calls.Context(wire.NewContext(parent(t, "p"), wire.Inbound{FirstSent: first, Rerun: true}))
		}
		time.Sleep(time.Hour)
		got, err := do(rerun(), c, "POST", "http://payment/o", "")
		require.NoError(t, err)
		require.Equal(t, http.StatusUnauthorized, got)
		require.Equal(t, retry.Unknown, calls.Outcome())
		time.Sleep(23 * time.Hour)
		_, err = do(rerun(), c, "POST", "http://payment/o", "")
		require.ErrorIs(t, err, retry.ErrKeyExpired)
		require.ErrorIs(t, err, retry.ErrUnknown)
		require.Equal(t, 1, sent)
	})
}

// A redirect within the service keeps the key; one away from it gets neither key nor
// headers of the service.
func TestRoundTripper_redirects(t *testing.T) {
	t.Parallel()
	var strangers atomic.Int32
	stranger := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		strangers.Add(1)
		if r.Header.Get("X-Secret") != "" || r.Header.Get(wire.HeaderKey) != "" {
			w.WriteHeader(http.StatusTeapot)
		}
	}))
	defer stranger.Close()
	var seen []string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		seen = append(seen, fmt.Sprint(r.URL.Path, " ", r.Header.Get(wire.HeaderKey), " ", string(body)))
		switch r.URL.Path {
		case "/old":
			http.Redirect(w, r, "/new", http.StatusTemporaryRedirect)
		case "/away":
			http.Redirect(w, r, stranger.URL, http.StatusTemporaryRedirect)
		}
	}))
	defer srv.Close()
	c := through(t, sdk.Service{URL: srv.URL, Header: http.Header{"X-Secret": {"s"}}, Templates: []string{"/old", "/new", "/away"}})
	ctx := parent(t, "p")
	got, err := do(ctx, c, "POST", srv.URL+"/old", "a=1")
	require.NoError(t, err)
	require.Equal(t, 200, got)
	key := child(ctx, t, "payment", "POST/old", "/old").Quoted()
	require.Equal(t, []string{"/old " + key + " a=1", "/new " + key + " a=1"}, seen)

	_, err = do(ctx, c, "POST", srv.URL+"/away", "a=1")
	require.ErrorIs(t, err, sdk.ErrRequest)
	require.ErrorIs(t, err, retry.ErrUnknown, "the service had it")
	require.Zero(t, strangers.Load())
	got, err = do(ctx, c, "GET", srv.URL+"/away", "")
	require.NoError(t, err)
	require.Equal(t, 200, got)
	require.EqualValues(t, 1, strangers.Load())
}

// Two branches of a fan-out may not make one call, however they make it.
func TestRoundTripper_branchesMayNotShareACall(t *testing.T) {
	t.Parallel()
	d := sdktest.New(t, nil)
	client, err := sdk.New(sdk.Config{Retry: quick, Services: map[string]sdk.Service{"payment": {URL: d.URL()}}})
	require.NoError(t, err)
	c := &http.Client{Transport: client.RoundTripper("payment")}
	fan := client.Fanout(parent(t, "p"))
	for _, name := range []string{"a", "b"} {
		sdk.AddFunc(fan, name, func(ctx context.Context) (int, error) { return do(ctx, c, "POST", d.URL()+"/o", "") })
	}
	require.ErrorIs(t, fan.Wait(), childkey.ErrDuplicateChild)
	require.Len(t, d.Requests(), 1)
}

// A path of any length is a call of its own: what is too long for a discriminator is hashed, and shorter paths stay as
// they are, so that the keys of stored calls do not change.
func TestRoundTripper_longPaths(t *testing.T) {
	t.Parallel()
	for _, templates := range [][]string{nil, {"PUT /files/{name}"}} {
		var keys []string
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			keys = append(keys, r.Header.Get(wire.HeaderKey))
			w.Header().Set(wire.HeaderReplayed, "false")
		}))
		c := through(t, sdk.Service{URL: srv.URL, Templates: templates})
		ctx := parent(t, "p")
		var paths []string
		for _, name := range []string{
			strings.Repeat("a", 249), strings.Repeat("a", 250), strings.Repeat("a", 251), strings.Repeat("a", 8000),
			url.PathEscape(strings.Repeat("ж", 43)), url.PathEscape(strings.Repeat("é", 127)),
		} {
			paths = append(paths, "/files/"+name)
		}
		for range 2 {
			for _, path := range paths {
				got, err := do(ctx, c, http.MethodPut, srv.URL+path, "content")
				require.NoError(t, err, "%d bytes", len(path))
				require.Equal(t, http.StatusOK, got)
			}
			ctx = parent(t, "p") // the same code again
		}
		require.Equal(t, keys[:len(paths)], keys[len(paths):], "each path keeps its key")
		slices.Sort(keys)
		require.Len(t, slices.Compact(keys), len(paths), "and has one of its own")
		srv.Close()
	}
}
