package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/fanonce/fanonce/childkey/wire"
)

// A probe runs one row. It remembers the first failure. After it, nothing is sent and nothing
// is checked.
type probe struct {
	*target

	ctx     context.Context
	key     string // of this row, and of no other run of it
	failure string
	unclear string // why the row could not be checked; "": it could
}

func (p *probe) hasEnded() bool { return p.failure != "" || p.unclear != "" }

// want notes a failure unless ok.
func (p *probe) want(ok bool, format string, args ...any) {
	if !ok && !p.hasEnded() {
		p.failure = fmt.Sprintf(format, args...)
	}
}

// skip ends the row: what it checks cannot be seen at this service.
func (p *probe) skip(why string) {
	if !p.hasEnded() {
		p.unclear = why
	}
}

// newKey returns a key that no other row has.
func newKey() string { return "wire-" + rand.Text() }

// forward is the request of most rows: the body that succeeds, under the row's key.
func (p *probe) forward() request {
	return request{
		method: http.MethodPost, path: p.path, keys: []string{quoteKey(p.key)}, body: p.body,
		contentType: p.contentType, auth: p.auth,
	}
}

// cancel is the undo of the row's key, under a key of its own.
func (p *probe) cancel() request {
	r := p.forward()
	r.path, r.body, r.keys = p.undo, p.undoBody, []string{quoteKey(p.key + "-undo")}
	return r.with(wire.HeaderCancels, quoteKey(p.key))
}

func quoteKey(key string) string { return `"` + key + `"` }

// send sends r, unless the row has failed.
func (p *probe) send(r request) answer {
	if p.hasEnded() {
		return answer{header: http.Header{}}
	}
	a, err := p.target.send(p.ctx, r)
	p.want(err == nil, "no answer: %v", err)
	if err != nil {
		a.header = http.Header{}
	}
	return a
}

// wantRun sends r, and wants the answer of a first run.
func (p *probe) wantRun(r request) answer {
	a := p.send(r)
	p.wantSuccess(a)
	p.wantMark(a, false)
	return a
}

// wantReplay sends r and wants the answer of an earlier run.
func (p *probe) wantReplay(r request, first answer) answer {
	a := p.send(r)
	p.want(a.status == first.status, "status %d, want that of the first run: %d", a.status, first.status)
	p.wantMark(a, true)
	p.want(bytes.Equal(a.body, first.body), "body %.80q, want that of the first run: %.80q", a.body, first.body)
	return a
}

func (p *probe) wantSuccess(a answer) {
	p.want(a.status/100 == 2, "status %d (%s), want a 2xx", a.status, a.header.Get(wire.HeaderCode))
}

// wantMark wants one line of Idempotent-Replayed, which says replayed.
func (p *probe) wantMark(a answer, replayed bool) {
	flag, ok := wire.ParseFlag(a.header.Values(wire.HeaderReplayed))
	p.want(ok && flag == replayed, "%s: %q, want %v", wire.HeaderReplayed, a.header.Values(wire.HeaderReplayed), replayed)
}

// wantRefusal sends r and wants to be refused with the code.
func (p *probe) wantRefusal(r request, code wire.Code) answer {
	a := p.send(r)
	p.checkRefusal(a, code)
	return a
}

// checkRefusal wants the headers of a refusal with the code.
func (p *probe) checkRefusal(a answer, code wire.Code) {
	s, _ := code.Situation()
	p.want(a.status == s.Status, "status %d, want %d %s", a.status, s.Status, code)
	p.want(a.header.Get(wire.HeaderCode) == string(code), "%s: %q, want %s", wire.HeaderCode, a.header.Get(wire.HeaderCode), code)
}

// wantAdvice wants the two headers about retries to be there, and to say again.
func (p *probe) wantAdvice(a answer, again bool) {
	for _, name := range []string{wire.HeaderShouldRetry, wire.HeaderXShouldRetry} {
		flag, ok := wire.ParseFlag(a.header.Values(name))
		p.want(ok && flag == again, "%s: %q, want %v", name, a.header.Values(name), again)
	}
}

// wantHint wants Retry-After and Retry-After-Ms to be one wait, and returns it in milliseconds.
func (p *probe) wantHint(a answer) int64 {
	seconds, err := strconv.ParseInt(a.header.Get(wire.HeaderRetryAfter), 10, 64)
	p.want(err == nil && seconds >= 1, "%s: %q, want whole seconds, at least 1", wire.HeaderRetryAfter, a.header.Get(wire.HeaderRetryAfter))
	ms, err := strconv.ParseInt(a.header.Get(wire.HeaderRetryAfterMs), 10, 64)
	p.want(err == nil && ms >= 1, "%s: %q, want whole milliseconds, at least 1", wire.HeaderRetryAfterMs, a.header.Get(wire.HeaderRetryAfterMs))
	p.want(ms <= seconds*1000 && (ms > (seconds-1)*1000 || seconds == 1), "%s: %d is not the wait that %s rounds up: %d",
		wire.HeaderRetryAfterMs, ms, wire.HeaderRetryAfter, seconds)
	return ms
}

// wantNoHint wants no wait: a retry cannot help.
func (p *probe) wantNoHint(a answer) {
	for _, name := range []string{wire.HeaderRetryAfter, wire.HeaderRetryAfterMs} {
		p.want(a.header.Get(name) == "", "%s: %q, want none: no retry can help", name, a.header.Get(name))
	}
}

var instance = regexp.MustCompile(`^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)

// wantProblem wants the body of a refusal to be a problem, and returns its members.
func (p *probe) wantProblem(a answer) map[string]any {
	mediaType, _, err := mime.ParseMediaType(a.header.Get("Content-Type"))
	p.want(err == nil && mediaType == wire.ProblemContentType, "Content-Type: %q, want %s", a.header.Get("Content-Type"), wire.ProblemContentType)
	var members map[string]any
	err = json.Unmarshal(a.body, &members)
	p.want(err == nil && members != nil, "body %.80q is not a JSON object", a.body)
	return members
}

// wantHidden wants the key to be nowhere in the answer.
func (p *probe) wantHidden(a answer) {
	p.want(!bytes.Contains(a.body, []byte(p.key)), "the body repeats the key")
	for name, lines := range a.header {
		p.want(!strings.Contains(strings.Join(lines, "\n"), p.key), "%s repeats the key", name)
	}
}
