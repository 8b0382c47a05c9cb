package main

import (
	"time"

	"github.com/fanonce/fanonce/childkey/wire"
)

func firstSentRows() []row {
	refused := func(name, situation, sent string, code wire.Code, want string, lines func(now time.Time) []string) row {
		return row{
			id: "first-sent/" + name, situation: situation, sent: sent, want: want + "; nothing is stored: the key runs later", source: spec + ", The request",
			check: func(p *probe) {
				a := p.wantRefusal(p.forward().with(wire.HeaderFirstSent, lines(time.Now())...), code)
				p.wantAdvice(a, false)
				p.wantRun(p.forward())
			},
		}
	}
	bad := "400 `first-sent-invalid`"
	return []row{
		{
			id: "first-sent/now", situation: "A request says when it was first sent, and its repeat says another time.",
			sent: "`Idempotency-First-Sent` of a minute ago, then of now", want: "2xx, then its replay", source: spec + ", The request",
			check: func(p *probe) {
				at := func(ago time.Duration) string { return wire.FormatFirstSent(time.Now().Add(-ago)) }
				first := p.wantRun(p.forward().with(wire.HeaderFirstSent, at(time.Minute)))
				p.wantReplay(p.forward().with(wire.HeaderFirstSent, at(0)), first)
			},
		},
		refused("unparsable", "The time is not in RFC 3339.", "`yesterday`", wire.FirstSentInvalid, bad,
			func(time.Time) []string { return []string{"yesterday"} }),
		refused("offset", "The time is not in UTC.", "the time of now in UTC+1", wire.FirstSentInvalid, bad,
			func(now time.Time) []string {
				return []string{now.In(time.FixedZone("", 3600)).Format(time.RFC3339)}
			}),
		refused("repeated", "There are two times.", "two lines", wire.FirstSentInvalid, bad,
			func(now time.Time) []string { return []string{wire.FormatFirstSent(now), wire.FormatFirstSent(now)} }),
		refused("future", "The time is in the future, beyond any skew of clocks.", "the time of tomorrow", wire.FirstSentInvalid, bad,
			func(now time.Time) []string { return []string{wire.FormatFirstSent(now.Add(24 * time.Hour))} }),
		refused("expired", "The request was first sent longer ago than any key is kept.", "the time of ten years ago", wire.KeyExpired, "412 `key-expired`",
			func(now time.Time) []string { return []string{wire.FormatFirstSent(now.AddDate(-10, 0, 0))} }),
	}
}

func undoRows() []row {
	needs := []string{"-undo"}
	fate := func(p *probe, a answer, want string) {
		p.wantSuccess(a)
		p.want(a.header.Get(wire.HeaderForward) == want, "%s: %q, want %s", wire.HeaderForward, a.header.Get(wire.HeaderForward), want)
	}
	return []row{
		{
			id: "undo/ran", situation: "A request that ran is undone.",
			sent: "the request, then its undo with `Idempotency-Cancels`", want: "2xx, `Idempotent-Forward: ran`", source: spec + ", The answer", needs: needs,
			check: func(p *probe) {
				p.wantRun(p.forward())
				fate(p, p.send(p.cancel()), wire.ForwardRan)
			},
		},
		{
			id: "undo/repeated", situation: "An undo is repeated.",
			sent: "the same undo twice", want: "the same answer as a replay", source: spec + ", The request", needs: needs,
			check: func(p *probe) {
				p.wantRun(p.forward())
				p.wantReplay(p.cancel(), p.wantRun(p.cancel()))
			},
		},
		{
			id: "undo/never-ran", situation: "A request that never came is undone.",
			sent: "the undo alone", want: "2xx, `Idempotent-Forward: never-ran`", source: spec + ", The answer", needs: needs,
			check: func(p *probe) { fate(p, p.send(p.cancel()), wire.ForwardNeverRan) },
		},
		{
			id: "undo/forgotten", situation: "A request is undone of which there is no record, by a caller that has its answer.",
			sent: "the undo alone, with `Idempotent-Forward: ran`", want: "2xx, `Idempotent-Forward: ran`", source: spec + ", The request", needs: needs,
			check: func(p *probe) { fate(p, p.send(p.cancel().with(wire.HeaderForward, wire.ForwardRan)), wire.ForwardRan) },
		},
		{
			id: "undo/late", situation: "The request comes after its undo.",
			sent: "the undo, then the request, twice", want: "410 `key-cancelled`, no retry: it does not run", source: spec + ", The codes", needs: needs,
			check: func(p *probe) {
				fate(p, p.send(p.cancel()), wire.ForwardNeverRan)
				for range 2 {
					a := p.wantRefusal(p.forward(), wire.KeyCancelled)
					p.wantAdvice(a, false)
					p.wantNoHint(a)
				}
			},
		},
		{
			id: "undo/after", situation: "The request is repeated after it ran and was undone.",
			sent: "the request, its undo, the request", want: "410 `key-cancelled`, and no replay", source: spec + ", The codes", needs: needs,
			check: func(p *probe) {
				p.wantRun(p.forward())
				fate(p, p.send(p.cancel()), wire.ForwardRan)
				p.wantRefusal(p.forward(), wire.KeyCancelled)
			},
		},
		{
			id: "undo/other-body", situation: "Another body comes after the undo.",
			sent: "the undo, then another body", want: "410 `key-cancelled`, not 422: a cancelled key has no payload", source: spec + ", The codes", needs: needs,
			check: func(p *probe) {
				fate(p, p.send(p.cancel()), wire.ForwardNeverRan)
				r := p.forward()
				r.body = p.other
				p.wantRefusal(r, wire.KeyCancelled)
			},
		},
		{
			id: "undo/in-flight", situation: "An undo comes while its request runs.",
			sent: "the slow body, and beside it the undo", want: "409 `in-progress`: nothing is undone yet", source: spec + ", The codes", needs: []string{"-undo", "-slow"},
			check: func(p *probe) {
				p.doDuringSlow(func() { p.wantRefusal(p.cancel().with(wire.HeaderPrefer, "wait=0"), wire.InProgress) })
			},
		},
		{
			id: "undo/own-key", situation: "An undo names its own key.",
			sent: "one key in both headers", want: "400 `key-invalid`", source: spec + ", The request", needs: needs,
			check: func(p *probe) {
				r := p.cancel()
				r.keys = []string{quoteKey(p.key)}
				p.wantRefusal(r, wire.KeyInvalid)
			},
		},
		{
			id: "undo/malformed", situation: "An undo names a malformed key.",
			sent: "`Idempotency-Cancels: a b`", want: "400 `key-invalid`", source: spec + ", The request", needs: needs,
			check: func(p *probe) { p.wantRefusal(p.cancel().with(wire.HeaderCancels, "a b"), wire.KeyInvalid) },
		},
		{
			id: "opaque/unknown", situation: "A handler whose effects nobody can see fails with a 5xx, and the request is repeated.",
			sent: "the body that fails to -opaque, twice", want: "a 5xx, then 423 `outcome-unknown`, no retry: no second run", source: spec + ", The codes",
			needs: []string{"-opaque", "-failing"},
			check: func(p *probe) {
				r := p.forward()
				r.path, r.body = p.opaque, p.failing
				first := p.send(r)
				p.want(first.status/100 == 5, "status %d, want a 5xx of the handler", first.status)
				a := p.wantRefusal(r, wire.OutcomeUnknown)
				p.wantAdvice(a, false)
				p.wantNoHint(a)
			},
		},
	}
}
