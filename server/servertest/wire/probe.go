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

func (p *probe) failed() bool { return p.failure != "" || p.unclear != "" }

// want notes a failure unless ok.
func (p *probe) want(ok bool, format string, args ...any) {
	if !ok && !p.failed() {
		p.failure = fmt.Sprintf(format, args...)
	}
}

// skip ends the row: what it checks cannot be seen at this service.
func (p *probe) skip(why string) {
	if !p.failed() {
		p.unclear = why
	}
}

// newKey returns a key that no other row has.
func newKey() string { return "wire-" + rand.Text() }

// forward is the request of most rows: the body that succeeds, under the row's key.
func (p *probe) forward() request {
	return request{
		method: http.MethodPost, path: p.path, keys: []string{quoted(p.key)}, body: p.body,
		contentType: p.contentType, auth: p.auth,
	}
}

// cancel is the undo of the row's key, under a key of its own.
func (p *probe) cancel() request {
	r := p.forward()
	r.path, r.body, r.keys = p.undo, p.undoBody, []string{quoted(p.key + "-undo")}
	return r.with(wire.HeaderCancels, quoted(p.key))
}

func quoted(key string) string { return `"` + key + `"` }

// send sends r, unless the row has failed.
func (p *probe) send(r request) answer {
	if p.failed() {
		return answer{header: http.Header{}}
	}
	a, err := p.target.send(p.ctx, r)
	p.want(err == nil, "no answer: %v", err)
	if err != nil {
		a.header = http.Header{}
	}
	return a
}

// ran sends r and wants the answer of a first run.
func (p *probe) ran(r request) answer {
	a := p.send(r)
	p.success(a)
	p.marked(a, false)
	return a
}

// replayed sends r and wants the answer of an earlier run.
func (p *probe) replayed(r request, first answer) answer {
	a := p.send(r)
	p.want(a.status == first.status, "status %d, want that of the first run: %d", a.status, first.status)
	p.marked(a, true)
	p.want(bytes.Equal(a.body, first.body), "body %.80q, want that of the first run: %.80q", a.body, first.body)
	return a
}

func (p *probe) success(a answer) {
	p.want(a.status/100 == 2, "status %d (%s), want a 2xx", a.status, a.header.Get(wire.HeaderCode))
}

// marked wants one line of Idempotent-Replayed, which says replayed.
func (p *probe) marked(a answer, replayed bool) {
	flag, ok := wire.ParseFlag(a.header.Values(wire.HeaderReplayed))
	p.want(ok && flag == replayed, "%s: %q, want %v", wire.HeaderReplayed, a.header.Values(wire.HeaderReplayed), replayed)
}

// refusal sends r and wants to be refused with the code.
func (p *probe) refusal(r request, code wire.Code) answer {
	a := p.send(r)
	p.refusedWith(a, code)
	return a
}

// refusedWith wants the headers of a refusal with the code.
func (p *probe) refusedWith(a answer, code wire.Code) {
	s, _ := code.Situation()
	p.want(a.status == s.Status, "status %d, want %d %s", a.status, s.Status, code)
	p.want(a.header.Get(wire.HeaderCode) == string(code), "%s: %q, want %s", wire.HeaderCode, a.header.Get(wire.HeaderCode), code)
}

// advice wants the two headers about retries to be there, and to say again.
func (p *probe) advice(a answer, again bool) {
	for _, name := range []string{wire.HeaderShouldRetry, wire.HeaderXShouldRetry} {
		flag, ok := wire.ParseFlag(a.header.Values(name))
		p.want(ok && flag == again, "%s: %q, want %v", name, a.header.Values(name), again)
	}
}

// hint wants Retry-After and Retry-After-Ms to be one wait, and returns it in milliseconds.
func (p *probe) hint(a answer) int64 {
	seconds, err := strconv.ParseInt(a.header.Get(wire.HeaderRetryAfter), 10, 64)
	p.want(err == nil && seconds >= 1, "%s: %q, want whole seconds, at least 1", wire.HeaderRetryAfter, a.header.Get(wire.HeaderRetryAfter))
	ms, err := strconv.ParseInt(a.header.Get(wire.HeaderRetryAfterMs), 10, 64)
	p.want(err == nil && ms >= 1, "%s: %q, want whole milliseconds, at least 1", wire.HeaderRetryAfterMs, a.header.Get(wire.HeaderRetryAfterMs))
	p.want(ms <= seconds*1000 && (ms > (seconds-1)*1000 || seconds == 1), "%s: %d is not the wait that %s rounds up: %d",
		wire.HeaderRetryAfterMs, ms, wire.HeaderRetryAfter, seconds)
	return ms
}

// noHint wants no wait: a retry cannot help.
func (p *probe) noHint(a answer) {
	for _, name := range []string{wire.HeaderRetryAfter, wire.HeaderRetryAfterMs} {
		p.want(a.header.Get(name) == "", "%s: %q, want none: no retry can help", name, a.header.Get(name))
	}
}

var instance = regexp.MustCompile(`^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)

// problem wants the body of a refusal to be a problem, and returns its members.
func (p *probe) problem(a answer) map[string]any {
	mediaType, _, err := mime.ParseMediaType(a.header.Get("Content-Type"))
	p.want(err == nil && mediaType == wire.ProblemContentType, "Content-Type: %q, want %s", a.header.Get("Content-Type"), wire.ProblemContentType)
	var members map[string]any
	err = json.Unmarshal(a.body, &members)
	p.want(err == nil && members != nil, "body %.80q is not a JSON object", a.body)
	return members
}

// hides wants the key to be nowhere in the answer.
func (p *probe) hides(a answer) {
	p.want(!bytes.Contains(a.body, []byte(p.key)), "the body repeats the key")
	for name, lines := range a.header {
		p.want(!strings.Contains(strings.Join(lines, "\n"), p.key), "%s repeats the key", name)
	}
}
