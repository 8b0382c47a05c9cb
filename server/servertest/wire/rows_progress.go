package main

import (
	"sync"
	"time"

	"github.com/fanonce/fanonce/childkey/wire"
)

// A slowRun is the slow request, while it runs.
type slowRun struct {
	answer answer // when done is closed
	err    error
	ended  time.Time
	done   chan struct{}
}

// maxStarts is how often a row starts a slow request, each time with a new key.
const maxStarts = 3

// start starts the slow request, and returns while it runs. It sends two copies, which do not
// wait. When one of them is refused because the key is in progress, the other one is running.
// Nobody knows which of them comes first.
func (p *probe) start() *slowRun {
	var first *slowRun
	for range maxStarts {
		ended := make(chan *slowRun, 2)
		a, b := p.sendCopy(ended), p.sendCopy(ended)
		first = <-ended
		if first.err == nil && first.answer.header.Get(wire.HeaderCode) == string(wire.InProgress) {
			if first == a {
				return b
			}
			return a
		}
		<-ended
		p.key = newKey()
	}
	p.want(first.err == nil, "no answer: %v", first.err)
	p.want(false, "of two copies of the slow request none was refused with 409 in-progress, and one got %d %s: the service does not "+
		"claim a key before it works, or the request runs for less than 300 ms", first.answer.status, first.answer.header.Get(wire.HeaderCode))
	return nil
}

// sendCopy sends the slow request, and says when it ended.
func (p *probe) sendCopy(ended chan<- *slowRun) *slowRun {
	s := &slowRun{done: make(chan struct{})}
	slow := p.slowRequest().with(wire.HeaderPrefer, "wait=0")
	go func() {
		s.answer, s.err = p.target.send(p.ctx, slow)
		s.ended = time.Now()
		close(s.done)
		ended <- s
	}()
	return s
}

// wait waits for the end of the slow request, and wants it to have succeeded.
func (p *probe) wait(s *slowRun) {
	if s == nil {
		return
	}
	<-s.done
	p.want(s.err == nil, "the slow request: no answer: %v", s.err)
	p.wantSuccess(s.answer)
	p.wantMark(s.answer, false)
}

// doDuringSlow does something while the slow request runs.
func (p *probe) doDuringSlow(do func()) {
	s := p.start()
	do()
	done := time.Now()
	p.wait(s)
	p.want(s == nil || done.Before(s.ended), "the answer came only when the slow request had ended")
}

// slowRequest is the slow request.
func (p *probe) slowRequest() request {
	r := p.forward()
	r.body = p.slow
	return r
}

func progressRows() []row {
	slow := []string{"-slow"}
	return []row{
		{
			id: "progress/refused", situation: "A duplicate that does not wait comes while the first request runs.",
			sent: "the slow body, and beside it the same with `Prefer: wait=0`", want: "409 `in-progress`, a retry can help, in both headers", source: draft + " 2.6; RFC 7240 4.3",
			needs: slow,
			check: func(p *probe) {
				p.doDuringSlow(func() {
					a := p.wantRefusal(p.slowRequest().with(wire.HeaderPrefer, "wait=0"), wire.InProgress)
					p.wantAdvice(a, true)
				})
			},
		},
		{
			id: "progress/hint", situation: "The refusal says when to come again.",
			sent: "as progress/refused", want: "`Retry-After` in seconds, at least 1, and `Retry-After-Ms`, the same wait before it was rounded up", source: "RFC 9110 10.2.3; " + spec,
			needs: slow,
			check: func(p *probe) {
				p.doDuringSlow(func() { p.wantHint(p.send(p.slowRequest().with(wire.HeaderPrefer, "wait=0"))) })
			},
		},
		{
			id: "progress/later", situation: "The refused duplicate comes again when the first request has ended.",
			sent: "as progress/refused, and again later", want: "the answer of the first request, as a replay", source: draft + " 2.6",
			needs: slow,
			check: func(p *probe) {
				p.doDuringSlow(func() { p.wantRefusal(p.slowRequest().with(wire.HeaderPrefer, "wait=0"), wire.InProgress) })
				a := p.send(p.slowRequest())
				p.wantSuccess(a)
				p.wantMark(a, true)
			},
		},
		{
			id: "progress/waits", situation: "A duplicate that waits comes while the first request runs.",
			sent: "the slow body, and beside it the same with `Prefer: wait=10`", want: "the answer of the first request, as a replay", source: "RFC 7240 4.3; " + spec,
			needs: slow,
			check: func(p *probe) {
				s := p.start()
				a := p.send(p.slowRequest().with(wire.HeaderPrefer, "wait=10"))
				p.wait(s)
				p.wantSuccess(a)
				p.wantMark(a, true)
			},
		},
		{
			id: "progress/once", situation: "Eight callers send one request at the same time.",
			sent: "the body that succeeds, eight times at once, each until it has an answer", want: "one body in all eight, and one run", source: draft + " 2.6",
			check: func(p *probe) { p.sendAtOnce(8) },
		},
	}
}

// sendAtOnce sends one request n times at once. Each copy that is told to wait comes again.
func (p *probe) sendAtOnce(n int) {
	answers := make([]answer, n)
	probes := make([]probe, n)
	var running sync.WaitGroup
	for i := range n {
		probes[i] = probe{target: p.target, ctx: p.ctx, key: p.key}
		running.Go(func() { answers[i] = probes[i].untilFinal(p.forward()) })
	}
	running.Wait()
	runs := 0
	for i := range n {
		p.want(probes[i].failure == "", "%s", probes[i].failure)
		p.wantSuccess(answers[i])
		p.want(string(answers[i].body) == string(answers[0].body), "two bodies: %.80q and %.80q", answers[0].body, answers[i].body)
		if replayed, ok := wire.ParseFlag(answers[i].header.Values(wire.HeaderReplayed)); ok && !replayed {
			runs++
		}
	}
	p.want(runs == 1, "%d of %d answers say that they are of a first run, want 1", runs, n)
}

// untilFinal sends r until the answer is not in-progress.
func (p *probe) untilFinal(r request) answer {
	for {
		a := p.send(r)
		if p.hasEnded() || a.header.Get(wire.HeaderCode) != string(wire.InProgress) {
			return a
		}
		time.Sleep(50 * time.Millisecond) // as a caller's backoff
	}
}

func callerRows() []row {
	return []row{
		{
			id: "caller/two", situation: "Two callers choose the same key.",
			sent: "one key as two callers, with two bodies", want: "two runs", source: spec + ", The request",
			needs: []string{"-auth", "-other-auth"},
			check: func(p *probe) {
				first := p.wantRun(p.forward())
				r := p.forward()
				r.auth, r.body = p.otherAuth, p.body+" "
				p.wantRun(r)
				p.wantReplay(p.forward(), first)
			},
		},
		{
			id: "caller/nobody", situation: "A request has no credentials.",
			sent: "no credentials", want: "401 `scope-missing` with WWW-Authenticate", source: "RFC 9110 15.5.2; " + spec,
			needs: []string{"-auth"},
			check: func(p *probe) {
				r := p.forward()
				r.auth = [2]string{}
				a := p.wantRefusal(r, wire.ScopeMissing)
				p.want(a.header.Get("Www-Authenticate") != "", "no WWW-Authenticate")
			},
		},
		{
			id: "caller/first", situation: "A request has neither credentials nor a key.",
			sent: "no credentials, no key", want: "401 `scope-missing`: the caller is checked first", source: spec + ", The codes",
			needs: []string{"-auth"},
			check: func(p *probe) {
				r := p.forward()
				r.auth, r.keys = [2]string{}, nil
				p.wantRefusal(r, wire.ScopeMissing)
			},
		},
	}
}
