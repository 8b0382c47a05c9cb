package retry_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/retry"
)

// The key goes to no other origin, whatever the status of the redirect.
func TestSend_neverRedirectsToAnotherOrigin(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, p protocol) {
		var leaked atomic.Int32
		other, _ := serve(t, p, func(http.ResponseWriter, *http.Request) { leaked.Add(1) })
		srv, cfg := serve(t, p, func(w http.ResponseWriter, r *http.Request) {
			code, _ := strconv.Atoi(r.URL.Query().Get("code"))
			http.Redirect(w, r, other.URL, code)
		})
		for _, method := range []string{http.MethodPost, http.MethodGet} {
			for _, code := range []int{301, 302, 303, 307, 308} {
				call := post(srv.URL + "?code=" + strconv.Itoa(code))
				call.Method = method
				failed := failure(t, newClient(t, cfg), call)
				require.Equal(t, code, failed.Status)
				require.Equal(t, 1, failed.Attempts)
			}
		}
		require.Zero(t, leaked.Load())
	})
}

func TestSend_sameOriginRedirects(t *testing.T) {
	t.Parallel()
	overEach(t, sameOriginRedirects)
}

func sameOriginRedirects(t *testing.T, p protocol) {
	var last *http.Request
	var body []byte
	srv, cfg := serve(t, p, func(w http.ResponseWriter, r *http.Request) {
		if code, _ := strconv.Atoi(r.URL.Query().Get("code")); code > 0 {
			http.Redirect(w, r, "/there", code)
			return
		}
		last = r
		body, _ = io.ReadAll(r.Body)
	})
	client := newClient(t, cfg)
	for _, tt := range []struct {
		method  string
		code    int
		follows bool
	}{
		{http.MethodPost, 307, true},
		{http.MethodPost, 308, true},
		{http.MethodPost, 301, false}, // would become a GET
		{http.MethodPost, 302, false},
		{http.MethodPost, 303, false},
		{http.MethodGet, 302, true},
	} {
		call := post(srv.URL + "?code=" + strconv.Itoa(tt.code))
		call.Method = tt.method
		resp, err := client.Send(t.Context(), call)
		if !tt.follows {
			require.Error(t, err, "%s %d", tt.method, tt.code)
			continue
		}
		require.NoError(t, err, "%s %d", tt.method, tt.code)
		require.Equal(t, 1, resp.Attempts, "a redirect is part of its attempt")
		require.Equal(t, tt.method, last.Method)
		require.Equal(t, `"k-1"`, last.Header.Get(wire.HeaderKey))
		require.Equal(t, `{"amount":5}`, string(body))
	}
}

func TestSend_redirectLoopEnds(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, p protocol) {
		var hits atomic.Int32
		srv, cfg := serve(t, p, func(w http.ResponseWriter, r *http.Request) {
			hits.Add(1)
			http.Redirect(w, r, "/again", http.StatusTemporaryRedirect)
		})
		failed := failure(t, newClient(t, cfg), post(srv.URL))
		require.Equal(t, retry.Rejected, failed.Outcome)
		require.Equal(t, 1, failed.Attempts, "redirects are part of their attempt")
		require.EqualValues(t, 6, hits.Load())
	})
}

// From https no redirect leads to http, where everybody can read the key.
func TestSend_neverRedirectsToAnotherScheme(t *testing.T) {
	t.Parallel()
	srv, cfg := serve(t, secure, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://"+r.Host+"/there", http.StatusPermanentRedirect)
	})
	failed := failure(t, newClient(t, cfg), post(srv.URL))
	require.Equal(t, http.StatusPermanentRedirect, failed.Status)
	require.Equal(t, retry.Rejected, failed.Outcome)
	require.Equal(t, 1, failed.Attempts)
}

// A redirect that the callee stored is the answer of a handler that ran. Where
// it leads to the key would be another request's, and be refused as reused.
func TestSend_storedRedirectIsNotFollowed(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, p protocol) {
		for _, replayed := range []string{"false", "true"} {
			var hits atomic.Int32
			srv, cfg := serve(t, p, func(w http.ResponseWriter, r *http.Request) {
				hits.Add(1)
				if r.URL.Path == "/there" {
					writeProblem(w, wire.KeyReused)
					return
				}
				w.Header().Set(wire.HeaderReplayed, replayed)
				http.Redirect(w, r, "/there", http.StatusTemporaryRedirect)
			})
			failed := failure(t, newClient(t, cfg), post(srv.URL))
			require.Equal(t, retry.Completed, failed.Outcome, "%v", failed)
			require.Equal(t, http.StatusTemporaryRedirect, failed.Status)
			require.EqualValues(t, 1, hits.Load())
		}
	})
}

func TestSend_malformedLocationIsAnAnswer(t *testing.T) {
	t.Parallel()
	failed := failure(t, newClient(t, over(script(status(307, "Location: http://%zz")))), post(stubURL))
	require.Equal(t, retry.Rejected, failed.Outcome)
	require.Equal(t, 307, failed.Status)
}

// Where a redirect leads, the request has the header of the first: the caller's,
// the client's, and what net/http adds where the caller says nothing else.
func TestSend_redirectKeepsHeader(t *testing.T) {
	t.Parallel()
	basic := "Basic " + base64.StdEncoding.EncodeToString([]byte("me:secret"))
	for _, tt := range []struct {
		name                   string
		given                  http.Header
		authorization, referer string
	}{
		{"none of them given", http.Header{}, basic, stubURL},
		{"given", http.Header{"Authorization": {"Bearer t"}, "Referer": {"http://from.test/"}}, "Bearer t", "http://from.test/"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var hops []http.Header
			rt := roundTrip(func(req *http.Request) (*http.Response, error) {
				hops = append(hops, req.Header)
				if len(hops) == 1 {
					return status(307, "Location: /there")(req)
				}
				return status(200)(req)
			})
			call := post(strings.Replace(stubURL, "://", "://me:secret@", 1))
			call.Header = tt.given
			call.Header["X-Trace"] = []string{"a", "b"}
			_, err := newClient(t, over(rt)).Send(t.Context(), call)
			require.NoError(t, err)
			require.Len(t, hops, 2)
			for _, h := range hops {
				require.Equal(t, []string{"a", "b"}, h["X-Trace"])
				require.Equal(t, []string{tt.authorization}, h["Authorization"])
				require.Equal(t, []string{`"k-1"`}, h[wire.HeaderKey])
			}
			require.Equal(t, []string{tt.referer}, hops[1]["Referer"])
		})
	}
}

// A GET stays a GET across any redirect, so it stays the same request (RFC 9110 section 15.4).
// Its body and the headers that describe the body go with it. net/http's client drops both, also
// here if that client follows the redirect.
func TestSend_redirectedGetKeepsItsBody(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, p protocol) {
		arrived := make(chan string, 1)
		srv, cfg := serve(t, p, func(w http.ResponseWriter, r *http.Request) {
			if code, _ := strconv.Atoi(r.URL.Query().Get("code")); code > 0 {
				http.Redirect(w, r, "/there", code)
				return
			}
			body, _ := io.ReadAll(r.Body)
			arrived <- fmt.Sprintf("%s %q %q %d %v", r.Method, body, r.Header.Values("Content-Type"), r.ContentLength, r.TransferEncoding)
		})
		client := newClient(t, cfg)
		kept, dropped := `GET "{\"amount\":5}" ["application/json"] 12 []`, `GET "" [] 0 []`
		for _, tt := range []struct {
			name string
			do   func(*http.Request) (*http.Response, error)
			want string
		}{
			{"Client.Do", client.Do, kept},
			{"RoundTripper", (&http.Client{Transport: client.RoundTripper()}).Do, dropped},
			{"net/http", (&http.Client{Transport: cfg.Transport}).Do, dropped},
		} {
			for _, code := range []string{"301", "302", "303"} {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL+"?code="+code, strings.NewReader(`{"amount":5}`))
				require.NoError(t, err)
				req.Header.Set("Content-Type", "application/json")
				resp, err := tt.do(req)
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())
				require.Equal(t, http.StatusOK, resp.StatusCode)
				require.Equal(t, tt.want, <-arrived, "%s %s", tt.name, code)
			}
		}
	})
}

// TestSend_redirectWithoutConnection shows that a call which was answered once is not NotSent.
func TestSend_redirectWithoutConnection(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
		rt := roundTrip(func(r *http.Request) (*http.Response, error) {
			if r.URL.Path == "/v2" {
				return nil, &net.OpError{Op: "dial", Err: errors.New("refused")}
			}
			return &http.Response{
				StatusCode: status, Header: http.Header{"Location": {"/v2"}}, Body: http.NoBody, Request: r, ProtoMajor: 1,
			}, nil
		})
		failed := failure(t, newClient(t, over(rt)), post(stubURL))
		require.Equal(t, retry.Rejected, failed.Outcome)
		require.True(t, failed.Retryable)
	}
}
