package retry_test

import (
	"bytes"
	"crypto/x509"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/retry"
)

// The clients in other languages are tested with the same file: each makes these calls, and
// must end them as this package does.
const sharedTable = "testdata/calls.json"

var updateTable = flag.Bool("retry.update", false, "write "+sharedTable)

// A sharedCall is one call of the table: what is answered to its attempts, and its end.
type sharedCall struct {
	Name   string       `json:"name"`
	Method string       `json:"method"`
	Keyed  bool         `json:"keyed"`
	Config sharedConfig `json:"config"`
	Steps  []sharedStep `json:"steps"` // the last one repeats
	Want   sharedWant   `json:"want"`
}

// A sharedConfig has the fields of a Config; zero means its default.
type sharedConfig struct {
	Guarded          bool    `json:"guarded,omitempty"` // a guard is in front of the service: the profile is Fanonce
	MaxAttempts      int     `json:"max_attempts,omitempty"`
	MaxPolls         int     `json:"max_polls,omitempty"`
	TimeoutMs        int64   `json:"timeout_ms,omitempty"`
	RetryAfterCapMs  int64   `json:"retry_after_cap_ms,omitempty"`
	MaxResponseBytes int64   `json:"max_response_bytes,omitempty"`
	BudgetReserve    float64 `json:"budget_reserve,omitempty"`
	Random           float64 `json:"random,omitempty"` // what Rand returns
}

// sharedNow is when every call begins.
var sharedNow = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// A sharedStep answers an attempt, or makes it fail.
type sharedStep struct {
	Failure string      `json:"failure,omitempty"`
	Status  int         `json:"status,omitempty"`
	Header  [][2]string `json:"header,omitempty"`
	Body    string      `json:"body,omitempty"`
}

type sharedWant struct {
	Outcome   string  `json:"outcome"`
	Attempts  int     `json:"attempts"`
	Status    int     `json:"status"` // of the last complete answer; 0: none
	Code      string  `json:"code"`
	Detail    string  `json:"detail"`
	Retryable bool    `json:"retryable"`
	Cause     string  `json:"cause"` // why no attempt follows, where the last answer does not say it
	WaitsMs   []int64 `json:"waits_ms"`
	OK        bool    `json:"ok"` // the call returns the answer
}

// sharedFailures are what each failure of the table is to this package. "truncated" is an
// answer that breaks off.
var sharedFailures = map[string]error{
	"no-such-host": &net.DNSError{Err: "no such host", Name: "payment.test", IsNotFound: true},
	"lookup":       &net.DNSError{Err: "server misbehaving", Name: "payment.test", IsTemporary: true},
	"refused":      &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED},
	"certificate":  x509.UnknownAuthorityError{},
	"reset":        syscall.ECONNRESET,
	"closed":       io.ErrUnexpectedEOF,
	"timeout":      retry.ErrAttemptTimeout,
	"other":        errBroken,
}

func (s sharedStep) name() string {
	if s.Failure != "" {
		return s.Failure
	}
	return fmt.Sprint(s.Status, s.Header)
}

func (s sharedStep) step() step {
	if s.Failure == "truncated" {
		return func(req *http.Request) (*http.Response, error) {
			body := io.MultiReader(strings.NewReader("{"), brokenOff{})
			return &http.Response{StatusCode: 200, Header: http.Header{}, ContentLength: -1, Body: io.NopCloser(body), Request: req}, nil
		}
	}
	if s.Failure != "" {
		return fails(sharedFailures[s.Failure])
	}
	var lines []string
	for _, h := range s.Header {
		lines = append(lines, h[0]+": "+h[1])
	}
	return answer(s.Status, s.Body, lines...)
}

type brokenOff struct{}

func (brokenOff) Read([]byte) (int, error) { return 0, errBroken }

func (c sharedCall) config(stub *stub) retry.Config {
	cfg := retry.Config{
		Transport: stub, Profile: retry.Unguarded(),
		MaxAttempts: c.Config.MaxAttempts, MaxPolls: c.Config.MaxPolls, MaxResponseBytes: c.Config.MaxResponseBytes,
		Timeout: time.Duration(c.Config.TimeoutMs) * time.Millisecond, RetryAfterCap: time.Duration(c.Config.RetryAfterCapMs) * time.Millisecond,
		Rand: func() float64 { return c.Config.Random },
	}
	if c.Config.Guarded {
		cfg.Profile = retry.Fanonce()
	}
	if c.Config.BudgetReserve > 0 {
		cfg.Budget = &retry.Budget{Reserve: c.Config.BudgetReserve}
	}
	return cfg
}

// make makes the call in virtual time, and returns its end.
func (c sharedCall) make(t *testing.T) (got sharedWant) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(sharedNow))
		stub := new(stub)
		for _, s := range c.Steps {
			stub.steps = append(stub.steps, s.step())
		}
		call := post(stubURL)
		if call.Method = c.Method; c.Method == http.MethodGet {
			call.Body = nil
		}
		if !c.Keyed {
			call.Key = childkey.Key{}
		}
		resp, err := newClient(t, c.config(stub)).Send(t.Context(), call)
		got = sharedEnd(t, resp, err)
		got.WaitsMs = []int64{}
		for i := range stub.times[1:] {
			got.WaitsMs = append(got.WaitsMs, stub.times[i+1].Sub(stub.times[i]).Milliseconds())
		}
		require.Len(t, stub.times, got.Attempts)
	})
	return got
}

func sharedEnd(t *testing.T, resp *retry.Response, err error) sharedWant {
	t.Helper()
	if err == nil {
		return sharedWant{Outcome: retry.Completed.String(), Attempts: resp.Attempts, Status: resp.Status, OK: true}
	}
	var failed *retry.Error
	require.ErrorAs(t, err, &failed)
	got := sharedWant{
		Outcome: failed.Outcome.String(), Attempts: failed.Attempts, Status: failed.Status, Code: string(failed.Code),
		Detail: failed.Detail, Retryable: failed.Retryable,
	}
	for _, cause := range []struct {
		name string
		err  error
	}{
		{"not-retryable", retry.ErrNotRetryable},
		{"retry-after", retry.ErrRetryAfter},
		{"still-in-progress", retry.ErrStillInProgress},
		{"budget", retry.ErrBudgetExhausted},
		{"deadline", retry.ErrDeadline},
		{"too-large", retry.ErrResponseTooLarge},
		{"unmarked", retry.ErrUnmarked},
	} {
		if errors.Is(err, cause.err) {
			got.Cause = cause.name
			break
		}
	}
	return got
}

func TestSharedTable(t *testing.T) {
	t.Parallel()
	calls := sharedCalls()
	for i := range calls {
		calls[i].Want = calls[i].make(t)
	}
	var text bytes.Buffer
	text.WriteString("[\n")
	for i, c := range calls {
		line, err := json.Marshal(c)
		require.NoError(t, err)
		text.Write(line)
		if i < len(calls)-1 {
			text.WriteByte(',')
		}
		text.WriteByte('\n')
	}
	text.WriteString("]\n")
	if *updateTable {
		require.NoError(t, os.WriteFile(sharedTable, text.Bytes(), 0o600))
	}
	stored, err := os.ReadFile(sharedTable)
	require.NoError(t, err)
	got, want := strings.Split(text.String(), "\n"), strings.Split(string(stored), "\n")
	for i := range min(len(got), len(want)) {
		require.Equal(t, want[i], got[i], "line %d; to change what all clients do: go test ./retry -run TestSharedTable -retry.update", i+1)
	}
	require.Len(t, got, len(want))
}

// sharedCalls are the calls of the table without their ends.
func sharedCalls() []sharedCall {
	calls := slices.Concat(sharedStatuses(), sharedMarks(), sharedCodes(), sharedFailureCalls(), sharedSequences(), sharedWaits(), sharedBodies(), sharedLimits())
	for i := range calls {
		c := &calls[i]
		if c.Method == "" {
			c.Method = http.MethodPost
		}
		if c.Config.MaxAttempts == 0 && !strings.HasPrefix(c.Name, "default") {
			c.Config.MaxAttempts = 3
		}
		if c.Config.MaxPolls == 0 && !strings.HasPrefix(c.Name, "default") {
			c.Config.MaxPolls = 2
		}
	}
	return calls
}

func answered(status int, header ...string) sharedStep {
	s := sharedStep{Status: status}
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		s.Header = append(s.Header, [2]string{name, value})
	}
	return s
}

func refusedWith(code wire.Code, header ...string) sharedStep {
	p := wire.NewProblem(code, "Said to people.")
	s := answered(p.Status, append(header, "Content-Type: "+wire.ProblemContentType, wire.HeaderCode+": "+string(code))...)
	s.Body = string(p.JSON())
	return s
}

func failing(name string) sharedStep { return sharedStep{Failure: name} }

func sharedStatuses() (calls []sharedCall) {
	var statuses []int
	statuses = append(statuses, between(200, 208)...)
	statuses = append(statuses, 226, 299)
	statuses = append(statuses, between(300, 308)...)
	statuses = append(statuses, 399)
	statuses = append(statuses, between(400, 431)...)
	statuses = append(statuses, 451, 460, 498, 499)
	statuses = append(statuses, between(500, 511)...)
	statuses = append(statuses, 520, 599, 600, 999)
	for _, status := range statuses {
		for _, keyed := range []bool{true, false} {
			calls = append(calls, sharedCall{Name: fmt.Sprintf("status %d, keyed %v", status, keyed), Keyed: keyed, Steps: []sharedStep{answered(status)}})
		}
		if status < 300 || status > 599 {
			continue
		}
		for _, header := range []string{"Idempotent-Replayed: true", "Idempotent-Replayed: false", "Idempotency-Should-Retry: false", "Idempotency-Should-Retry: true", "Idempotency-Should-Retry: False"} {
			calls = append(calls, sharedCall{Name: fmt.Sprintf("status %d, %s", status, header), Keyed: true, Steps: []sharedStep{answered(status, header)}})
		}
		calls = append(calls, sharedCall{Name: fmt.Sprintf("status %d, GET", status), Method: http.MethodGet, Steps: []sharedStep{answered(status)}})
	}
	return calls
}

// sharedMarks are calls to a service behind a guard: only the guard marks answers.
func sharedMarks() (calls []sharedCall) {
	guarded := sharedConfig{Guarded: true, MaxResponseBytes: 10}
	page := answered(200, "Content-Type: text/html")
	page.Body = "<!DOCTYPE html><title>Sign in</title>"
	for _, status := range []int{200, 201, 202, 204} {
		for _, header := range [][]string{nil, {"Idempotent-Replayed: true"}, {"Idempotent-Replayed: false"}, {"Idempotent-Replayed: ?1"}, {"Idempotent-Replayed: yes"}} {
			for _, keyed := range []bool{true, false} {
				calls = append(calls, sharedCall{
					Name: fmt.Sprintf("guarded: status %d %v, keyed %v", status, header, keyed), Keyed: keyed, Config: guarded, Steps: []sharedStep{answered(status, header...)},
				})
			}
		}
		calls = append(calls, sharedCall{Name: fmt.Sprintf("guarded: status %d, GET", status), Method: http.MethodGet, Config: guarded, Steps: []sharedStep{answered(status)}})
	}
	for _, first := range []sharedStep{failing("reset"), failing("refused"), answered(503), answered(429)} {
		for _, end := range []sharedStep{answered(200), page, answered(404), answered(404, "Idempotent-Replayed: false"), answered(404, "Idempotent-Replayed: false", "Idempotency-Should-Retry: false"), answered(401), answered(501), answered(307)} {
			calls = append(calls, sharedCall{Name: "guarded: first " + first.name() + ", then " + end.name(), Keyed: true, Config: guarded, Steps: []sharedStep{first, end}})
		}
	}
	for _, status := range []int{303, 404, 403, 409, 503} {
		for _, replayed := range []string{"true", "false"} {
			for _, advice := range []string{"true", "false"} {
				end := answered(status, "Idempotent-Replayed: "+replayed, "Idempotency-Should-Retry: "+advice)
				calls = append(calls, sharedCall{Name: "guarded: " + end.name(), Keyed: true, Config: guarded, Steps: []sharedStep{end}},
					sharedCall{Name: "first reset, then guarded: " + end.name(), Keyed: true, Config: guarded, Steps: []sharedStep{failing("reset"), end}})
			}
		}
	}
	return append(calls, sharedCall{Name: "guarded: a page that is too long", Keyed: true, Config: guarded, Steps: []sharedStep{page}})
}

func sharedCodes() (calls []sharedCall) {
	for _, s := range wire.Situations() {
		for _, header := range [][]string{nil, {"Idempotency-Should-Retry: true"}, {"Idempotency-Should-Retry: false"}} {
			calls = append(calls, sharedCall{Name: fmt.Sprintf("code %s %v", s.Code, header), Keyed: true, Steps: []sharedStep{refusedWith(s.Code, header...)}})
		}
		inBody := refusedWith(s.Code)
		inBody.Header = [][2]string{{"Content-Type", wire.ProblemContentType + "; charset=utf-8"}}
		calls = append(calls,
			sharedCall{Name: fmt.Sprintf("code %s after a lost answer", s.Code), Keyed: true, Steps: []sharedStep{failing("reset"), refusedWith(s.Code)}},
			sharedCall{Name: fmt.Sprintf("code %s in the body alone", s.Code), Keyed: true, Steps: []sharedStep{inBody}},
			sharedCall{Name: fmt.Sprintf("code %s with another status", s.Code), Keyed: true, Steps: []sharedStep{answered(418, wire.HeaderCode+": "+string(s.Code))}},
			sharedCall{Name: fmt.Sprintf("code %s, no key", s.Code), Steps: []sharedStep{refusedWith(s.Code)}})
	}
	return calls
}

func sharedFailureCalls() (calls []sharedCall) {
	names := []string{"truncated"}
	for name := range sharedFailures {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		calls = append(calls,
			sharedCall{Name: "failure " + name, Keyed: true, Steps: []sharedStep{failing(name)}},
			sharedCall{Name: "failure " + name + ", no key", Steps: []sharedStep{failing(name)}},
			sharedCall{Name: "failure " + name + ", GET", Method: http.MethodGet, Steps: []sharedStep{failing(name)}},
			sharedCall{Name: "failure " + name + ", then 201", Keyed: true, Steps: []sharedStep{failing(name), answered(201)}})
	}
	return calls
}

func sharedSequences() (calls []sharedCall) {
	again := []sharedStep{failing("reset"), failing("refused"), answered(429), answered(425), answered(500), refusedWith(wire.InProgress), refusedWith(wire.StoreUnavailable)}
	last := []sharedStep{
		answered(201), answered(400), answered(401), answered(402, "Idempotent-Replayed: true"), answered(402, "Idempotent-Replayed: false"),
		answered(403, "Idempotent-Replayed: false"), answered(409), answered(500, "Idempotent-Replayed: true"), answered(302, "Idempotent-Replayed: true"),
		failing("no-such-host"), refusedWith(wire.ResponseGone), refusedWith(wire.KeyCancelled), refusedWith(wire.KeyReused), refusedWith(wire.OutcomeUnknown),
	}
	for _, first := range again {
		for _, end := range last {
			calls = append(calls, sharedCall{Name: "first " + first.name() + ", then " + end.name(), Keyed: true, Steps: []sharedStep{first, end}})
			calls = append(calls, sharedCall{Name: "no key: first " + first.name() + ", then " + end.name(), Steps: []sharedStep{first, end}})
		}
		for _, second := range again {
			calls = append(calls, sharedCall{Name: "first " + first.name() + ", then " + second.name() + ", for ever", Keyed: true, Steps: []sharedStep{first, second}})
		}
	}
	return calls
}

func sharedWaits() (calls []sharedCall) {
	for _, random := range []float64{0, 0.5, 0.999} {
		calls = append(calls,
			sharedCall{Name: fmt.Sprintf("defaults of retries, random %v", random), Keyed: true, Config: sharedConfig{Random: random}, Steps: []sharedStep{answered(500)}},
			sharedCall{Name: fmt.Sprintf("defaults of polls, random %v", random), Keyed: true, Config: sharedConfig{Random: random, TimeoutMs: 3600_000}, Steps: []sharedStep{refusedWith(wire.InProgress)}},
			sharedCall{Name: fmt.Sprintf("Retry-After 2, random %v", random), Keyed: true, Config: sharedConfig{Random: random}, Steps: []sharedStep{answered(503, "Retry-After: 2")}})
	}
	calls[0].Name, calls[1].Name = "default retries", "default polls"
	date := "Date: Sun, 01 Mar 2026 13:00:00 GMT"
	for _, header := range [][]string{
		{"Retry-After: 0"}, {"Retry-After: 1"}, {"Retry-After:  1 "}, {"Retry-After: 60"}, {"Retry-After: 61"}, {"Retry-After: 3600"}, {"Retry-After: -1"}, {"Retry-After: 1.5"}, {"Retry-After: "},
		{"Retry-After: +1"}, {"Retry-After: 1e3"}, {"Retry-After: soon"}, {"Retry-After: 10000000000"}, {"Retry-After: 18446744074"}, {"Retry-After: 9223372036854775808"},
		{"Retry-After: Sun, 01 Mar 2026 12:00:07 GMT"}, {"Retry-After: Sun, 01 Mar 2026 11:00:00 GMT"}, {"Retry-After: Sunday, 01-Mar-26 12:00:07 GMT"}, {"Retry-After: Sun Mar  1 12:00:07 2026"},
		{"Retry-After: Sun, 01 Mar 2026 13:00:09 GMT", date}, {"Retry-After: Sun, 01 Mar 2026 12:59:00 GMT", date}, {"Retry-After: Sun, 01 Mar 2026 12:00:07 GMT", "Date: soon"},
		{"Retry-After: 2.001"}, {"Retry-After: 7.0"}, {"Retry-After: 299.997"}, {"Retry-After: 1."}, {"Retry-After: .5"}, {"Retry-After: 1.5.5"}, {"Retry-After-Ms: 250.5"},
		{"Retry-After: Sun, 1 Mar 2026 12:00:07 GMT"}, {"Retry-After: Sun, 01 Mar 2026 13:30:07 +0130"}, {"Retry-After: Sun, 01 Mar 2026 10:30:07 -0130"}, {"Retry-After: Sun, 01 Mar 2026 12:00:07 PST"},
		{"Retry-After: 2026-03-01T12:00:07Z"}, {"Retry-After: Sun, 01 Mar 2026 12:00:07 UTC"},
		{"Retry-After-Ms: 250"}, {"Retry-After-Ms: 0"}, {"Retry-After-Ms: x"}, {"X-Ms-Retry-After-Ms: 300"}, {"Retry-After: 1", "Retry-After-Ms: 250"}, {"Retry-After: 1", "Retry-After-Ms: 2500"},
		{"Retry-After: 3", "Retry-After-Ms: 250"}, {"Retry-After: 3", "Retry-After-Ms: 2250"}, {"Retry-After-Ms: 3600000"},
		{"Retry-After: Sat, 01 Jan 0000 00:00:00 GMT"}, {"Retry-After: Mon, 01 Jan 0001 00:00:00 GMT"}, {"Retry-After: Fri, 31 Dec 9999 23:59:59 GMT"},
		{"Retry-After: Sun, 01 Mar 2026 12:00:07 GMT", "Date: Sat, 01 Jan 0000 00:00:00 GMT"}, {"Retry-After: Sunday, 01-Mar-00 12:00:07 GMT"}, {"Retry-After: Sun Jan  1 00:00:00 0000"},
		{"Retry-After: Tue, 31 Feb 2026 12:00:07 GMT"}, {"Retry-After: Tue, 31 Jun 2026 12:00:07 GMT"}, {"Retry-After: Sun, 29 Feb 2026 12:00:07 GMT"}, {"Retry-After: Sun, 00 Mar 2026 12:00:07 GMT"},
		{"Retry-After: Xyz, 01 Mar 2026 12:00:07 GMT"}, {"Retry-After: Sun, 01 Foo 2026 12:00:07 GMT"}, {"Retry-After: sun, 01 mar 2026 12:00:07 GMT"}, {"Retry-After: Sun, 01 Mar 2026 12:00:60 GMT"},
		{"Retry-After: Sun, 01 Mar 2026 24:00:07 GMT"}, {"Retry-After: Sun, 01 Mar 2026 12:00:07 +2500"}, {"Retry-After: Sun, 01 Mar 2026 12:00:06.5 GMT"}, {"Retry-After: Sun,  1 Mar 2026 12:00:07 GMT"},
		{"Retry-After: 5", "Retry-After: 9", "Retry-After: 7"}, {"Retry-After: soon", "Retry-After: 5"}, {"Retry-After: 5", "Retry-After: Sun, 01 Mar 2026 12:00:07 GMT"}, {"Retry-After: 5", "Retry-After: "},
		{"Retry-After: 99999999999999999999999999999999"}, {"Retry-After: 1_000"}, {"Retry-After: NaN"}, {"Retry-After: Infinity"}, {"Retry-After-Ms: NaN"}, {"Retry-After-Ms: 99999999999999999999999999999999"},
	} {
		calls = append(calls, sharedCall{Name: strings.Join(header, ", "), Keyed: true, Config: sharedConfig{MaxAttempts: 2}, Steps: []sharedStep{answered(503, header...)}})
	}
	inProblem := refusedWith(wire.InProgress, "Retry-After: 1")
	inProblem.Body = strings.Replace(inProblem.Body, `"retryable":true`, `"retryable":true,"retry_after_ms":700`, 1)
	return append(calls,
		sharedCall{Name: "the wait of a problem", Keyed: true, Steps: []sharedStep{inProblem, answered(201)}},
		sharedCall{Name: "a poll with Retry-After-Ms", Keyed: true, Steps: []sharedStep{refusedWith(wire.InProgress, "Retry-After: 1", "Retry-After-Ms: 150"), answered(201)}},
		sharedCall{Name: "a longer cap", Keyed: true, Config: sharedConfig{RetryAfterCapMs: 7200_000, TimeoutMs: 7200_001}, Steps: []sharedStep{answered(503, "Retry-After: 3600"), answered(201)}})
}

func sharedBodies() (calls []sharedCall) {
	for _, tt := range []struct{ name, contentType, body string }{
		{"problem of another", "application/problem+json", `{"type":"https://example.com/declined","code":"card-declined","detail":"No funds."}`},
		{"problem with our code and another type", "application/problem+json", `{"type":"https://example.com/x","code":"in-progress","detail":"x"}`},
		{"problem that is no object", "application/problem+json", `[]`},
		{"problem of the wrong media type", "application/json", `{"type":"https://fanonce.dev/problems/in-progress","code":"in-progress"}`},
		{"error object", "application/json", `{"error":{"code":"card_declined","message":"Your card was declined."}}`},
		{"errors array", "application/json", `{"errors":[{"code":7,"detail":"first"},{"code":8}]}`},
		{"OAuth", "application/json", `{"error":"invalid_grant","error_description":"expired"}`},
		{"message", "application/json", `{"message":"No."}`},
		{"text", "text/plain; charset=utf-8", "  No funds.\n"},
		{"HTML", "text/html", "<h1>No</h1>"},
		{"control characters", "text/plain", "a\u0007b"},
		{"broken JSON", "application/json", `{"code":`},
	} {
		s := answered(402, "Content-Type: "+tt.contentType)
		s.Body = tt.body
		calls = append(calls, sharedCall{Name: "body: " + tt.name, Keyed: true, Steps: []sharedStep{s}})
	}
	unknown := answered(402, wire.HeaderCode+": teapot")
	conflict := refusedWith(wire.KeyReused)
	conflict.Header = append(conflict.Header, [2]string{wire.HeaderCode, string(wire.InProgress)})
	conflict.Header = slices.DeleteFunc(conflict.Header, func(h [2]string) bool { return h == [2]string{wire.HeaderCode, string(wire.KeyReused)} })
	return append(calls,
		sharedCall{Name: "an unheard-of code", Keyed: true, Steps: []sharedStep{unknown}},
		sharedCall{Name: "two codes: the header wins", Keyed: true, Steps: []sharedStep{conflict}})
}

func sharedLimits() []sharedCall {
	long := answered(200)
	long.Body = "12345"
	return []sharedCall{
		{Name: "a 2xx that is too long", Keyed: true, Config: sharedConfig{MaxResponseBytes: 4}, Steps: []sharedStep{long}},
		{Name: "a 2xx that is just short enough", Keyed: true, Config: sharedConfig{MaxResponseBytes: 5}, Steps: []sharedStep{long}},
		{Name: "no time for the wait", Keyed: true, Config: sharedConfig{TimeoutMs: 1000}, Steps: []sharedStep{answered(503, "Retry-After: 5")}},
		{Name: "time for some waits", Keyed: true, Config: sharedConfig{TimeoutMs: 1000, MaxAttempts: 10}, Steps: []sharedStep{answered(503)}},
		{Name: "one attempt", Keyed: true, Config: sharedConfig{MaxAttempts: 1}, Steps: []sharedStep{answered(503)}},
		{Name: "an empty budget", Keyed: true, Config: sharedConfig{MaxAttempts: 5, BudgetReserve: 2}, Steps: []sharedStep{answered(503)}},
		{Name: "polls take no budget", Keyed: true, Config: sharedConfig{MaxAttempts: 5, BudgetReserve: 1, MaxPolls: 5}, Steps: []sharedStep{refusedWith(wire.InProgress)}},
	}
}
