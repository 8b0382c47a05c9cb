package main

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
)

// A defect is what a service does wrong. It is planted by a proxy before a service without
// defects, which spoils requests or answers.
type defect struct {
	name    string
	request func(r *http.Request)                                  // before it is passed on; nil: nothing
	answer  func(resp *http.Response)                              // before it is passed back; nil: nothing
	instead func(w http.ResponseWriter, r *http.Request) (ok bool) // answers itself; nil: never
	caught  string                                                 // the rows that must fail
}

func drop(name string) func(*http.Response) {
	return func(resp *http.Response) { resp.Header.Del(name) }
}

func set(name, value string, codes ...wire.Code) func(*http.Response) {
	return func(resp *http.Response) {
		if len(codes) == 0 || has(resp, codes...) {
			resp.Header.Set(name, value)
		}
	}
}

func status(code wire.Code, instead int) func(*http.Response) {
	return func(resp *http.Response) {
		if has(resp, code) {
			resp.StatusCode = instead
		}
	}
}

func has(resp *http.Response, codes ...wire.Code) bool {
	for _, c := range codes {
		if resp.Header.Get(wire.HeaderCode) == string(c) {
			return true
		}
	}
	return false
}

// member changes a member of every problem.
func member(name string, value any) func(*http.Response) {
	return func(resp *http.Response) {
		if resp.Header.Get("Content-Type") != wire.ProblemContentType {
			return
		}
		var members map[string]any
		if json.NewDecoder(resp.Body).Decode(&members) != nil {
			return
		}
		if members[name] = value; value == nil {
			delete(members, name)
		}
		body, _ := json.Marshal(members)
		replaceBody(resp, body)
	}
}

func replaceBody(resp *http.Response, body []byte) {
	resp.Body = io.NopCloser(bytes.NewReader(body))
	resp.ContentLength = int64(len(body))
	resp.Header.Set("Content-Length", strconv.Itoa(len(body)))
}

// replays changes the answers that are replays.
func replays(change func(*http.Response)) func(*http.Response) {
	return func(resp *http.Response) {
		if resp.Header.Get(wire.HeaderReplayed) == "true" {
			change(resp)
		}
	}
}

func undos(change func(*http.Response)) func(*http.Response) {
	return func(resp *http.Response) {
		if resp.Request.URL.Path == "/undo" {
			change(resp)
		}
	}
}

func setKey(text func(lines []string) string) func(*http.Request) {
	return func(r *http.Request) {
		if lines := r.Header.Values(wire.HeaderKey); len(lines) > 0 {
			r.Header[wire.HeaderKey] = []string{text(lines)}
		}
	}
}

// eachNew is a service that knows no key again.
func eachNew([]string) string { return rand.Text() }

// lenient is a service that takes any text for a key.
func lenient(lines []string) string {
	if _, present, err := wire.ParseKeyHeader(lines); err != nil || !present {
		return rand.Text()
	}
	return lines[0]
}

func body(change func(text string) string) func(*http.Request) {
	return func(r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		changed := change(string(text))
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(changed)), int64(len(changed))
	}
}

func without(name string) func(*http.Request) { return func(r *http.Request) { r.Header.Del(name) } }

// late holds every request but the slow ones until a slow one would have ended.
func late(w http.ResponseWriter, r *http.Request) bool {
	if r.URL.Path == "/undo" || r.Header.Get("Prefer") != "" {
		return false
	}
	text, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(text))
	if !strings.Contains(string(text), "slow") {
		time.Sleep(2 * slowFor) // so that what is asked beside a slow request is answered after it
	}
	return false
}

// marks a GET and a HEAD as if they were guarded.
func guardEverything(resp *http.Response) {
	if m := resp.Request.Method; m == http.MethodGet || m == http.MethodHead {
		resp.Header.Set(wire.HeaderReplayed, "true")
	}
}

var defects = []defect{
	{name: "no key is known again", request: setKey(eachNew),
		caught: "key/quoted key/parameters replay/equal replay/headers replay/no-store replay/no-code replay/4xx replay/large reuse/* progress/* " +
			"caller/two first-sent/now undo/ran undo/late undo/after undo/in-flight undo/other-body undo/own-key opaque/unknown problem/code problem/wait"},
	{name: "a missing key is made up", request: func(r *http.Request) {
		if len(r.Header.Values(wire.HeaderKey)) == 0 {
			r.Header.Set(wire.HeaderKey, rand.Text())
		}
	}, caught: "key/missing problem/code problem/advice problem/mark problem/media-type"},
	{name: "any text is a key", request: setKey(lenient), caught: "key-invalid/* problem/code"},
	{name: "quotes are part of a key", request: setKey(func(l []string) string { return strings.NewReplacer(`"`, "-").Replace(l[0]) }), caught: "key/quoted key-invalid/open-quote"},
	{name: "parameters are part of a key", request: setKey(func(l []string) string { return strings.NewReplacer(`"`, "", ";", "-").Replace(l[0]) }), caught: "key/parameters"},
	{name: "keys are cut off", request: setKey(func(l []string) string {
		if text := strings.Trim(l[0], `"`); len(text) > 64 && len(text) < 256 {
			return text[:64]
		}
		return l[0]
	}), caught: "key/longest"},
	{name: "keys are folded", request: setKey(func(l []string) string { return strings.ToLower(l[0]) }), caught: "key/case"},
	{name: "no mark", answer: drop(wire.HeaderReplayed), caught: "replay/first replay/equal replay/4xx replay/5xx problem/mark progress/later progress/waits progress/once"},
	{name: "every answer is marked as a replay", answer: set(wire.HeaderReplayed, "true"), caught: "replay/first replay/5xx progress/once caller/two problem/mark limit/get"},
	{name: "400s are marked", answer: set(wire.HeaderReplayed, "false", wire.KeyMissing, wire.KeyInvalid), caught: "problem/mark"},
	{name: "a replay has another status", answer: replays(func(resp *http.Response) { resp.StatusCode = 200 }), caught: "replay/equal replay/4xx replay/large"},
	{name: "a replay has another body", answer: replays(func(resp *http.Response) { replaceBody(resp, []byte(`{"run":0}`)) }),
		caught: "replay/equal replay/4xx replay/large progress/once undo/repeated first-sent/now"},
	{name: "a replay loses a header", answer: replays(drop("Location")), caught: "replay/headers"},
	{name: "a replay repeats a cookie", answer: replays(set("Set-Cookie", "session=1")), caught: "replay/dropped"},
	{name: "a replay may be cached", answer: replays(drop("Cache-Control")), caught: "replay/no-store"},
	{name: "a refusal may be cached", answer: drop("Cache-Control"), caught: "problem/no-store replay/no-store"},
	{name: "the handler's answer has a code", answer: func(resp *http.Response) {
		if resp.Header.Get(wire.HeaderCode) == "" {
			resp.Header.Set(wire.HeaderCode, "in-progress")
		}
	}, caught: "replay/no-code replay/4xx replay/5xx limit/get limit/head"},
	{name: "no code", answer: drop(wire.HeaderCode), caught: "key/missing key-invalid/* reuse/* progress/refused caller/nobody caller/first " +
		"first-sent/unparsable first-sent/offset first-sent/repeated first-sent/future first-sent/expired undo/late undo/after undo/other-body undo/own-key undo/malformed limit/body problem/code opaque/unknown"},
	{name: "only X-Should-Retry", answer: drop(wire.HeaderShouldRetry), caught: "replay/4xx replay/5xx problem/advice progress/refused key-invalid/space"},
	{name: "only Idempotency-Should-Retry", answer: drop(wire.HeaderXShouldRetry), caught: "replay/4xx replay/5xx problem/advice progress/refused"},
	{name: "no retry after a 5xx", answer: func(resp *http.Response) {
		if resp.StatusCode == 500 {
			resp.Header.Set(wire.HeaderShouldRetry, "false")
			resp.Header.Set(wire.HeaderXShouldRetry, "false")
		}
	}, caught: "replay/5xx"},
	{name: "a reused key may be retried", answer: set(wire.HeaderShouldRetry, "true", wire.KeyReused), caught: "reuse/body problem/advice"},
	{name: "a reused key comes with a wait", answer: set(wire.HeaderRetryAfter, "1", wire.KeyReused), caught: "reuse/body problem/advice"},
	{name: "a reused key is 409", answer: status(wire.KeyReused, 409), caught: "reuse/* problem/code"},
	{name: "the body is not compared", request: body(func(text string) string {
		if strings.Contains(text, "slow") || strings.Contains(text, "fail") {
			return text
		}
		return "{}"
	}), caught: "reuse/body reuse/tail problem/code"},
	{name: "the query is not compared", request: func(r *http.Request) { r.URL.RawQuery = "" }, caught: "reuse/query"},
	{name: "the path is not compared", request: func(r *http.Request) {
		if r.URL.Path == "/other" {
			r.URL.Path = "/work"
		}
	}, caught: "reuse/path"},
	{name: "the method is not compared", request: func(r *http.Request) {
		if r.Method == http.MethodPut {
			r.Method = http.MethodPost
		}
	}, caught: "reuse/method"},
	{name: "the media type is not compared", request: without("Content-Type"), caught: "reuse/media-type"},
	{name: "only the beginning of a body is compared", request: body(func(text string) string { return text[:min(len(text), 4096)] }), caught: "reuse/tail"},
	{name: "a mismatch waits for the first request", instead: late, caught: "reuse/in-flight"},
	{name: "a duplicate is refused with 425", answer: status(wire.InProgress, 425), caught: "progress/refused undo/in-flight progress/later"},
	{name: "no Retry-After", answer: drop(wire.HeaderRetryAfter), caught: "progress/hint problem/wait"},
	{name: "no Retry-After-Ms", answer: drop(wire.HeaderRetryAfterMs), caught: "progress/hint problem/wait"},
	{name: "Retry-After-Ms is another wait", answer: set(wire.HeaderRetryAfterMs, "90000", wire.InProgress), caught: "progress/hint problem/wait"},
	{name: "Retry-After is 0", answer: set(wire.HeaderRetryAfter, "0", wire.InProgress), caught: "progress/hint"},
	{name: "in-progress may not be retried", answer: set(wire.HeaderShouldRetry, "false", wire.InProgress), caught: "progress/refused"},
	{name: "nobody waits", request: func(r *http.Request) { r.Header.Set("Prefer", "wait=0") }, caught: "progress/waits"},
	{name: "callers share their keys", request: func(r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			r.Header.Set("Authorization", "Bearer all")
		}
	}, caught: "caller/two"},
	{name: "no credentials are needed", request: func(r *http.Request) {
		if r.Header.Get("Authorization") == "" {
			r.Header.Set("Authorization", "Bearer anybody")
		}
	}, caught: "caller/nobody caller/first"},
	{name: "the key is checked before the caller", instead: func(w http.ResponseWriter, r *http.Request) bool {
		if len(r.Header.Values(wire.HeaderKey)) > 0 {
			return false
		}
		w.Header().Set(wire.HeaderCode, string(wire.KeyMissing))
		w.WriteHeader(400)
		return true
	}, caught: "caller/first"},
	{name: "no challenge", answer: drop("Www-Authenticate"), caught: "caller/nobody"},
	{name: "the first-sent time is ignored", request: without(wire.HeaderFirstSent),
		caught: "first-sent/unparsable first-sent/offset first-sent/repeated first-sent/future first-sent/expired"},
	{name: "the first-sent time is in the fingerprint", request: func(r *http.Request) {
		if at := r.Header.Get(wire.HeaderFirstSent); at != "" {
			r.URL.RawQuery = url.Values{"at": {at}}.Encode()
		}
	}, caught: "first-sent/now"},
	{name: "an expired key is 410", answer: status(wire.KeyExpired, 410), caught: "first-sent/expired"},
	{name: "an undo is an ordinary request", request: func(r *http.Request) {
		if r.URL.Path == "/undo" {
			r.URL.Path = "/work"
			r.Header.Del(wire.HeaderCancels)
		}
	}, caught: "undo/ran undo/never-ran undo/late undo/after undo/other-body undo/in-flight undo/own-key undo/malformed"},
	{name: "an undo does not say what became of its request", answer: drop(wire.HeaderForward), caught: "undo/ran undo/never-ran"},
	{name: "no undo hears that its request ran", answer: undos(set(wire.HeaderForward, wire.ForwardNeverRan)), caught: "undo/ran undo/forgotten undo/after"},
	{name: "every request ran, says its undo", answer: undos(set(wire.HeaderForward, wire.ForwardRan)), caught: "undo/never-ran"},
	{name: "an undo is not stored", request: func(r *http.Request) {
		if r.URL.Path == "/undo" {
			r.Header.Set(wire.HeaderKey, rand.Text())
		}
	}, caught: "undo/repeated"},
	{name: "a cancelled key is 404", answer: status(wire.KeyCancelled, 404), caught: "undo/late undo/after undo/other-body"},
	{name: "an unknown outcome runs again", request: func(r *http.Request) {
		if r.URL.Path == "/opaque" {
			r.Header.Set(wire.HeaderKey, rand.Text())
		}
	}, caught: "opaque/unknown"},
	{name: "an unknown outcome is 409", answer: status(wire.OutcomeUnknown, 409), caught: "opaque/unknown"},
	{name: "a refusal is plain JSON", answer: set("Content-Type", "application/json", wire.KeyMissing, wire.KeyInvalid, wire.KeyReused, wire.FirstSentInvalid), caught: "problem/media-type problem/type problem/members problem/instance"},
	{name: "another type", answer: member("type", "about:blank"), caught: "problem/type"},
	{name: "no code in the problem", answer: member("code", nil), caught: "problem/type"},
	{name: "another status in the problem", answer: member("status", 500), caught: "problem/members"},
	{name: "no detail", answer: member("detail", nil), caught: "problem/members"},
	{name: "no title", answer: member("title", ""), caught: "problem/members"},
	{name: "everything is retryable", answer: member("retryable", true), caught: "problem/members"},
	{name: "no instance", answer: member("instance", nil), caught: "problem/instance"},
	{name: "no wait in the problem", answer: member("retry_after_ms", nil), caught: "problem/wait"},
	{name: "the key is in the answer", answer: func(resp *http.Response) {
		resp.Header.Set("X-Key", strings.Join(resp.Request.Header.Values(wire.HeaderKey), " "))
	}, caught: "problem/secret"},
	{name: "large bodies are cut off", request: body(func(text string) string { return text[:min(len(text), 100)] }), caught: "limit/body reuse/tail"},
	{name: "large bodies are refused", instead: func(w http.ResponseWriter, r *http.Request) bool {
		if r.ContentLength < 64<<10 {
			return false
		}
		w.WriteHeader(http.StatusRequestEntityTooLarge)
		return true
	}, caught: "replay/large limit/body"},
	{name: "a GET is guarded", answer: guardEverything, caught: "limit/get limit/head"},
	{name: "scripts cannot see the headers", answer: drop("Access-Control-Expose-Headers"), caught: "limit/cors"},
}

// plant returns the address of a proxy before the service at target that has the defect.
func plant(t *testing.T, target string, d defect) string {
	t.Helper()
	base, err := url.Parse(target)
	require.NoError(t, err)
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(base)
			r.Out.Host = r.In.Host
			if d.request != nil {
				d.request(r.Out)
			}
		},
		ModifyResponse: func(resp *http.Response) error {
			if d.answer != nil {
				d.answer(resp)
			}
			return nil
		},
		Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true, ExpectContinueTimeout: 5 * time.Second},
	}
	return serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if d.instead == nil || !d.instead(w, r) {
			proxy.ServeHTTP(w, r)
		}
	}))
}

// pattern returns the rows of a list: "a/b c/*".
func pattern(list string) string {
	var alternatives []string
	for _, id := range strings.Fields(list) {
		alternatives = append(alternatives, strings.ReplaceAll(regexp.QuoteMeta(id), `\*`, ".*"))
	}
	return "^(" + strings.Join(alternatives, "|") + ")$"
}

// Every row passes behind a proxy that spoils nothing, and fails behind one that has a defect
// that the row is there for.
func TestRows_areSeenToFail(t *testing.T) {
	t.Parallel()
	target := serve(t, newCallee(t))
	status, stdout, _ := command(t, append(calleeFlags(plant(t, target, defect{})), "-strict")...)
	require.Equal(t, statusPassed, status, stdout)

	var mu sync.Mutex
	red := map[string]bool{}
	t.Run("defects", func(t *testing.T) {
		for _, d := range defects {
			t.Run(d.name, func(t *testing.T) {
				t.Parallel()
				_, stdout, stderr := command(t, append(calleeFlags(plant(t, target, d)), "-json", "-run", pattern(d.caught))...)
				var got report
				require.NoError(t, json.Unmarshal([]byte(stdout), &got), stderr)
				require.NotEmpty(t, got.Rows)
				for _, l := range got.Rows {
					if l.Status != failed {
						t.Errorf("row %s: %s, want it to fail", l.ID, l.Status)
					}
					mu.Lock()
					red[l.ID] = red[l.ID] || l.Status == failed
					mu.Unlock()
				}
			})
		}
	})
	for _, r := range rows() {
		if !red[r.id] {
			t.Errorf("no defect makes row %s fail", r.id)
		}
	}
}
