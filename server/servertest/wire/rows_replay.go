package main

import (
	"net/http"
	"slices"
	"strings"

	"github.com/fanonce/fanonce/childkey/wire"
)

// kept are the headers that are stored with an answer.
var kept = []string{
	"Content-Type", "Content-Language", "Content-Encoding", "Content-Disposition", "Content-Location", "Location", "Etag", "Last-Modified", "Link",
}

// dropped are the headers that no replay has, whatever the first answer had.
var dropped = []string{
	"Set-Cookie", "Authorization", "Www-Authenticate", "Proxy-Authenticate", "Proxy-Authorization", "Age", "Server-Timing", "X-Request-Id",
	"X-Ratelimit-Remaining", "Ratelimit-Remaining",
}

func replayRows() []row {
	return []row{
		{
			id: "replay/first", situation: "A key is new.",
			sent: "the body that succeeds", want: "2xx, `Idempotent-Replayed: false`", source: spec + ", The answer",
			check: func(p *probe) { p.wantRun(p.forward()) },
		},
		{
			id: "replay/equal", situation: "The request is repeated, three times.",
			sent: "the same request", want: "the same status and bytes, `Idempotent-Replayed: true`", source: draft + " 2.6",
			check: func(p *probe) {
				first := p.wantRun(p.forward())
				for range 3 {
					p.wantReplay(p.forward(), first)
				}
			},
		},
		{
			id: "replay/headers", situation: "A replay has the headers that are stored.",
			sent: "the same request", want: "Content-Type, Location, ETag, Link and the like as in the first answer", source: spec + ", The answer",
			check: func(p *probe) {
				first := p.wantRun(p.forward())
				p.want(len(first.body) == 0 || first.header.Get("Content-Type") != "", "the first answer has a body without Content-Type")
				again := p.wantReplay(p.forward(), first)
				for _, name := range kept {
					p.want(slices.Equal(first.header.Values(name), again.header.Values(name)), "%s: %q, want %q", name, again.header.Values(name), first.header.Values(name))
				}
			},
		},
		{
			id: "replay/dropped", situation: "A replay has no header that belongs to the first caller or moment.",
			sent: "the same request; the first answer had a Set-Cookie", want: "no Set-Cookie, Authorization, Server-Timing, request id or rate limit",
			source: "RFC 6265 3: a cookie is one session's",
			check: func(p *probe) {
				first := p.wantRun(p.forward())
				again := p.wantReplay(p.forward(), first)
				for _, name := range dropped {
					p.want(len(again.header.Values(name)) == 0, "a replay has %s", name)
				}
				if len(first.header.Values("Set-Cookie")) == 0 {
					p.skip("the handler's answer has no Set-Cookie that a replay could repeat")
				}
			},
		},
		{
			id: "replay/no-store", situation: "No cache keeps a replay.",
			sent: "the same request", want: "`Cache-Control: no-store`", source: "RFC 9111 5.2.2.5",
			check: func(p *probe) {
				again := p.wantReplay(p.forward(), p.wantRun(p.forward()))
				p.want(strings.Contains(again.header.Get("Cache-Control"), "no-store"), "Cache-Control: %q, want no-store", again.header.Get("Cache-Control"))
			},
		},
		{
			id: "replay/no-code", situation: "An answer of the handler is not a refusal.",
			sent: "the body that succeeds, twice", want: "no `Idempotency-Code`", source: spec + ", The answer",
			check: func(p *probe) {
				first := p.wantRun(p.forward())
				for _, a := range []answer{first, p.wantReplay(p.forward(), first)} {
					p.want(a.header.Get(wire.HeaderCode) == "", "%s: %q, want none", wire.HeaderCode, a.header.Get(wire.HeaderCode))
				}
			},
		},
		refusalReplay(), failureReplay(), largeReplay(),
	}
}

func refusalReplay() row {
	return row{
		id: "replay/4xx", situation: "The handler refuses with a 4xx, and the request is repeated.",
		sent: "the body that is refused, twice", want: "the same 4xx as a replay; no retry, in both headers", source: draft + " 2.6; " + spec,
		needs: []string{"-refused"},
		check: func(p *probe) {
			r := p.forward()
			r.body = p.refused
			first := p.send(r)
			p.want(first.status/100 == 4 && first.header.Get(wire.HeaderCode) == "", "status %d, want a 4xx of the handler", first.status)
			p.wantMark(first, false)
			p.wantAdvice(first, false)
			p.wantAdvice(p.wantReplay(r, first), false)
		},
	}
}

func failureReplay() row {
	return row{
		id: "replay/5xx", situation: "The handler fails with a 5xx, and the request is repeated.",
		sent: "the body that fails, twice", want: "two runs, a 5xx each; a retry can help, in both headers", source: spec + ", The answer",
		needs: []string{"-failing"},
		check: func(p *probe) {
			r := p.forward()
			r.body = p.failing
			for range 2 {
				a := p.send(r)
				p.want(a.status/100 == 5 && a.header.Get(wire.HeaderCode) == "", "status %d, want a 5xx of the handler", a.status)
				p.wantMark(a, false)
				p.wantAdvice(a, true)
			}
		},
	}
}

// largeBytes is more than the buffers that servers and proxies have for one read.
const largeBytes = 96 << 10

func largeReplay() row {
	return row{
		id: "replay/large", situation: "The request is large.",
		sent: "the body that succeeds with 96 KiB of spaces behind it, twice", want: "2xx, then its replay", source: spec + ", The answer",
		check: func(p *probe) {
			r := p.large(" ")
			p.wantReplay(r, p.wantRun(r))
		},
	}
}

// large is the request with a large body, which ends in end.
func (p *probe) large(end string) request {
	r := p.forward()
	if int64(len(p.body)+largeBytes+1) > p.maxBody {
		p.skip("-max-body is less than 96 KiB")
	}
	r.body = p.body + strings.Repeat(" ", largeBytes) + end
	return r
}

func reuseRows() []row {
	mismatch := func(id, situation, sent string, needs []string, change func(*probe, *request)) row {
		return row{
			id: "reuse/" + id, situation: situation, sent: sent, want: "422 `key-reused`, no retry; then the replay of the first", source: draft + " 2.6, 2.7",
			needs: needs,
			check: func(p *probe) {
				first := p.wantRun(p.forward())
				r := p.forward()
				change(p, &r)
				a := p.wantRefusal(r, wire.KeyReused)
				p.wantAdvice(a, false)
				p.wantNoHint(a)
				p.wantReplay(p.forward(), first)
			},
		}
	}
	return []row{
		mismatch("body", "A key comes with another body.", "another body", nil, func(p *probe, r *request) { r.body = p.other }),
		mismatch("query", "A key comes with another query.", "`?again=1`", nil, func(_ *probe, r *request) { r.path += "?again=1" }),
		mismatch("path", "A key comes to another route.", "the same body to another path", []string{"-other-path"}, func(p *probe, r *request) { r.path = p.otherPath }),
		mismatch("method", "A key comes with another method.", "the same body with another method", []string{"-other-method"}, func(p *probe, r *request) { r.method = p.method }),
		mismatch("media-type", "A key comes with another media type.", "`Content-Type: text/plain`, or `application/json` if it was that",
			nil, func(p *probe, r *request) {
				if r.contentType = "text/plain"; p.contentType == r.contentType {
					r.contentType = "application/json"
				}
			}),
		{
			id: "reuse/tail", situation: "Two large bodies differ in the last byte.",
			sent: "96 KiB that end in a space, then in a line feed", want: "422 `key-reused`", source: draft + " 2.4",
			check: func(p *probe) {
				p.wantRun(p.large(" "))
				p.wantRefusal(p.large("\n"), wire.KeyReused)
			},
		},
		{
			id: "reuse/in-flight", situation: "A key comes with another body while the first request runs.",
			sent: "the slow body, and beside it another one", want: "422 `key-reused` before the first request ends", source: spec + ", The codes",
			needs: []string{"-slow"},
			check: func(p *probe) {
				p.doDuringSlow(func() {
					r := p.forward()
					r.body = p.other
					p.wantRefusal(r, wire.KeyReused)
				})
			},
		},
	}
}

func limitRows() []row {
	return []row{
		{
			id: "limit/body", situation: "The body is longer than the service accepts.",
			sent: "one byte more than -max-body", want: "413 `body-too-large`, and nothing is stored: the key runs later", source: "RFC 9110 15.5.14; " + spec,
			check: func(p *probe) {
				r := p.forward()
				r.body += strings.Repeat(" ", int(p.maxBody)+1-len(r.body))
				p.wantRefusal(r.with("Expect", "100-continue"), wire.BodyTooLarge) // or the answer is lost with the connection
				p.wantRun(p.forward())
			},
		},
		{
			id: "limit/get", situation: "A GET has a key.",
			sent: "GET with the key of a request that ran", want: "no `Idempotent-Replayed`, no `Idempotency-Code`: a GET is not guarded", source: "RFC 9110 9.2.1",
			check: func(p *probe) { p.wantUnguarded(http.MethodGet) },
		},
		{
			id: "limit/head", situation: "A HEAD has a key.",
			sent: "HEAD with the key of a request that ran", want: "no `Idempotent-Replayed`, no `Idempotency-Code`: a HEAD is not guarded", source: "RFC 9110 9.2.1",
			check: func(p *probe) { p.wantUnguarded(http.MethodHead) },
		},
		{
			id: "limit/cors", situation: "A request comes from a script of another origin.",
			sent: "`Origin: https://example.com`", want: "`Access-Control-Expose-Headers` names the headers of the contract", source: "Fetch standard, CORS protocol",
			check: func(p *probe) {
				a := p.wantRun(p.forward().with("Origin", "https://example.com"))
				exposed := strings.ToLower(strings.Join(a.header.Values("Access-Control-Expose-Headers"), ","))
				for _, name := range []string{wire.HeaderReplayed, wire.HeaderCode, wire.HeaderShouldRetry, wire.HeaderRetryAfter, wire.HeaderRetryAfterMs} {
					p.want(strings.Contains(exposed, strings.ToLower(name)), "Access-Control-Expose-Headers: %q, want %s in it", exposed, name)
				}
			},
		},
	}
}

// wantUnguarded wants the answer to a method without effects to be no answer of the contract.
func (p *probe) wantUnguarded(method string) {
	p.wantRun(p.forward())
	r := p.forward()
	r.method, r.body = method, ""
	a := p.send(r)
	for _, name := range []string{wire.HeaderReplayed, wire.HeaderCode} {
		p.want(len(a.header.Values(name)) == 0, "%s: %q, want none", name, a.header.Values(name))
	}
}
