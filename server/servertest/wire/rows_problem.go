package main

import (
	"fmt"

	"github.com/fanonce/fanonce/childkey/wire"
)

// A refused is one of the refusals that every service can be made to give.
type refused struct {
	code  wire.Code
	asked bool // after the key was looked up: the answer is marked
	a     answer
}

// refusals provokes each of them.
func (p *probe) refusals() []refused {
	without, malformed, unsent := p.forward(), p.forward(), p.forward()
	without.keys, malformed.keys = nil, []string{"a b"}
	reused := p.forward()
	reused.body = p.other
	p.wantRun(p.forward())
	return []refused{
		{wire.KeyMissing, false, p.send(without)},
		{wire.KeyInvalid, false, p.send(malformed)},
		{wire.FirstSentInvalid, false, p.send(unsent.with(wire.HeaderFirstSent, "yesterday"))},
		{wire.KeyReused, true, p.send(reused)},
	}
}

func problemRows() []row {
	every := func(name, situation, want, source string, needs []string, check func(p *probe, r refused)) row {
		return row{
			id: "problem/" + name, situation: situation, sent: "a missing key, a malformed key, a malformed time and a reused key", want: want, source: source, needs: needs,
			check: func(p *probe) {
				for _, r := range p.refusals() {
					check(p, r)
				}
			},
		}
	}
	body := []string{"-own-problems=false"}
	return []row{
		every("code", "A refusal has a code.", "`Idempotency-Code`, whatever the body", spec+", The answer", nil, func(p *probe, r refused) {
			p.checkRefusal(r.a, r.code)
		}),
		every("advice", "A refusal says whether a retry can help.", "`Idempotency-Should-Retry: false` and `X-Should-Retry: false`, no `Retry-After`", spec+", The answer", nil, func(p *probe, r refused) {
			p.wantAdvice(r.a, false)
			p.wantNoHint(r.a)
		}),
		every("mark", "Only a key that was looked up was honoured.", "`Idempotent-Replayed: false` with 422, and none with 400", spec+", The answer", nil, func(p *probe, r refused) {
			if r.asked {
				p.wantMark(r.a, false)
				return
			}
			p.want(len(r.a.header.Values(wire.HeaderReplayed)) == 0, "%s: %q with %s, want none", wire.HeaderReplayed, r.a.header.Values(wire.HeaderReplayed), r.code)
		}),
		every("no-store", "No cache keeps a refusal.", "`Cache-Control: no-store`", "RFC 9111 5.2.2.5", nil, func(p *probe, r refused) {
			p.want(r.a.header.Get("Cache-Control") == "no-store", "Cache-Control: %q, want no-store", r.a.header.Get("Cache-Control"))
		}),
		every("secret", "A refusal does not repeat the key.", "the key neither in a header nor in the body", spec+", The answer", nil, func(p *probe, r refused) {
			p.wantHidden(r.a)
		}),
		every("media-type", "A refusal is a problem.", "`application/problem+json`, a JSON object", "RFC 9457 3", body, func(p *probe, r refused) {
			p.wantProblem(r.a)
		}),
		every("type", "The problem has the type of its code.", "`type` is `https://fanonce.dev/problems/` and the code; `code` is the code", "RFC 9457 3.1.1; "+spec, body, func(p *probe, r refused) {
			members := p.wantProblem(r.a)
			p.member(members, "type", wire.TypePrefix+string(r.code))
			p.member(members, "code", string(r.code))
		}),
		every("members", "The problem repeats status and advice.", "`status` is the status, `retryable` is false, `title` and `detail` are texts", "RFC 9457 3.1; "+spec, body, func(p *probe, r refused) {
			members := p.wantProblem(r.a)
			p.member(members, "status", fmt.Sprint(r.a.status))
			p.member(members, "retryable", "false")
			for _, name := range []string{"title", "detail"} {
				text, ok := members[name].(string)
				p.want(ok && text != "", "member %s: %v, want a text", name, members[name])
			}
		}),
		every("instance", "The problem has an instance, by which people find the key.", "`instance` is `urn:uuid:` and an ID", "RFC 9457 3.1.5; "+spec, body, func(p *probe, r refused) {
			text, _ := p.wantProblem(r.a)["instance"].(string)
			p.want(instance.MatchString(text), "member instance: %q, want urn:uuid: and an ID", text)
		}),
		{
			id: "problem/wait", situation: "The problem of a refusal that a retry can help repeats the wait.",
			sent: "the slow body, and beside it the same with `Prefer: wait=0`", want: "`retryable` is true, and `retry_after_ms` is `Retry-After-Ms`", source: spec + ", The answer",
			needs: []string{"-slow", "-own-problems=false"},
			check: func(p *probe) {
				p.doDuringSlow(func() {
					a := p.wantRefusal(p.slowRequest().with(wire.HeaderPrefer, "wait=0"), wire.InProgress)
					members := p.wantProblem(a)
					p.member(members, "retryable", "true")
					p.member(members, "retry_after_ms", fmt.Sprint(p.wantHint(a)))
				})
			},
		},
	}
}

// member wants a member of a problem to have this value, as it is printed.
func (p *probe) member(members map[string]any, name, want string) {
	p.want(fmt.Sprint(members[name]) == want, "member %s: %v, want %s", name, members[name], want)
}
