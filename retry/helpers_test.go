package retry_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/retry"
)

// key is the key of every call whose key does not matter.
var key = mustKey("k-1")

func mustKey(text string) childkey.Key {
	k, err := childkey.Parse(text)
	if err != nil {
		panic(err)
	}
	return k
}

// quick waits as little as a client can, and makes four attempts. Its services are stubs, which mark no answers.
var quick = retry.Config{
	MaxAttempts: 4,
	Profile:     retry.Unguarded(),
	Backoff:     retry.Backoff{Base: time.Millisecond, Cap: time.Millisecond},
	Poll:        retry.Backoff{Base: time.Millisecond, Cap: time.Millisecond},
}

// exact waits without jitter: waits are as long as they can be.
func exact() float64 { return 0 }

func newClient(tb testing.TB, cfg retry.Config) *retry.Client {
	tb.Helper()
	c, err := retry.New(cfg)
	require.NoError(tb, err)
	return c
}

// over returns quick with the transport.
func over(rt http.RoundTripper) retry.Config {
	cfg := quick
	cfg.Transport = rt
	return cfg
}

// under returns cfg with another profile; nil means none.
func under(p *retry.Profile, cfg retry.Config) retry.Config {
	cfg.Profile = p
	return cfg
}

func post(url string) retry.Call {
	return retry.Call{
		Method: http.MethodPost, URL: url, Body: []byte(`{"amount":5}`), Key: key,
		Service: "payment", Operation: "charge",
	}
}

const stubURL = "http://payment.test/charges"

// failure sends the call and returns its error.
func failure(tb testing.TB, c *retry.Client, call retry.Call) *retry.Error {
	tb.Helper()
	return failureContext(tb, context.Background(), c, call)
}

func failureContext(tb testing.TB, ctx context.Context, c *retry.Client, call retry.Call) *retry.Error { //nolint:revive // tb first, as in testing
	tb.Helper()
	resp, err := c.Send(ctx, call)
	require.Nil(tb, resp)
	var failed *retry.Error
	require.ErrorAs(tb, err, &failed)
	require.Error(tb, failed.Err)
	return failed
}

// A step is how a stub answers one request.
type step func(*http.Request) (*http.Response, error)

// A stub is a transport that answers by script; its last step repeats.
type stub struct {
	steps []step

	mu       sync.Mutex
	requests []*http.Request
	bodies   []string
	times    []time.Time
}

func script(steps ...step) *stub { return &stub{steps: steps} }

func (s *stub) RoundTrip(req *http.Request) (*http.Response, error) {
	var body []byte
	if req.Body != nil {
		body, _ = io.ReadAll(req.Body)
		req.Body.Close()
	}
	s.mu.Lock()
	n := len(s.requests)
	s.requests = append(s.requests, req)
	s.bodies = append(s.bodies, string(body))
	s.times = append(s.times, time.Now())
	s.mu.Unlock()
	return s.steps[min(n, len(s.steps)-1)](req)
}

func (s *stub) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.requests)
}

// header returns the values of one header over the requests.
func (s *stub) header(name string) string {
	var all []string
	for _, r := range s.requests {
		all = append(all, strings.Join(r.Header.Values(name), ","))
	}
	return strings.Join(all, " ")
}

// status answers with a status, and headers given as "Name: value".
func status(code int, headers ...string) step { return answer(code, "", headers...) }

func answer(code int, body string, headers ...string) step {
	return func(req *http.Request) (*http.Response, error) {
		h := http.Header{}
		for _, line := range headers {
			name, value, _ := strings.Cut(line, ": ")
			h.Add(name, value)
		}
		return &http.Response{
			StatusCode: code, Header: h, Body: io.NopCloser(strings.NewReader(body)),
			ContentLength: int64(len(body)), Request: req,
		}, nil
	}
}

// problem answers as a callee's idempotency layer does.
func problem(code wire.Code, headers ...string) step {
	p := wire.NewProblem(code, "")
	return answer(p.Status, string(p.JSON()), append(headers, "Content-Type: "+wire.ProblemContentType)...)
}

func fails(err error) step {
	return func(*http.Request) (*http.Response, error) { return nil, err }
}

// hangs until the attempt's time is up.
func hangs(req *http.Request) (*http.Response, error) {
	<-req.Context().Done()
	return nil, context.Cause(req.Context())
}

var errBroken = errors.New("connection broken")

// writeProblem writes what problem answers.
func writeProblem(w http.ResponseWriter, code wire.Code) {
	p := wire.NewProblem(code, "")
	w.Header().Set("Content-Type", wire.ProblemContentType)
	w.WriteHeader(p.Status)
	w.Write(p.JSON())
}
