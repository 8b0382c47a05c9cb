package sagatest

import (
	"net/http"
	"time"

	"github.com/fanonce/fanonce/childkey/wire"
)

type recordID struct{ service, key string }

// A record is a service's record of a key.
type record struct {
	step    string // the step of the call
	undo    bool
	state   state
	status  int
	body    []byte
	effects int
	undone  int    // by undos that named it
	forward string // for an undo: the outcome of the call that it undid
}

type state uint8

const (
	running state = iota + 1
	done
	tombstone
	unknown // the call ran, and the service lost track of it
)

// runFor is run with the duration of the fault. The work continues if the caller leaves.
func (s *Services) runFor(req *http.Request, d Delivery, fault Fault) (answer, error) {
	if fault.slow == 0 {
		return s.run(req.URL.Host, d, fault), nil
	}
	id := recordID{req.URL.Host, d.Key.String()}
	s.mu.Lock()
	first := s.records[id] == nil
	if first {
		s.records[id] = &record{step: d.Step, undo: d.Undo, state: running}
	}
	s.mu.Unlock()
	if !first {
		return s.run(req.URL.Host, d, fault), nil
	}
	ended := make(chan answer, 1)
	go func() {
		time.Sleep(fault.slow)
		s.mu.Lock()
		delete(s.records, id)
		s.mu.Unlock()
		ended <- s.run(req.URL.Host, d, fault)
	}()
	select {
	case a := <-ended:
		return a, nil
	case <-req.Context().Done():
		return answer{}, req.Context().Err()
	}
}

// DeliverAgain delivers every request so far once more, as a slow network may. This includes lost
// requests. The second delivery must have no effect.
func (s *Services) DeliverAgain() {
	s.mu.Lock()
	sent := s.sent
	s.mu.Unlock()
	for _, c := range sent {
		s.run(c.host, c.Delivery, Fault{})
	}
}

// run handles a key as a guarded service does.
func (s *Services) run(service string, d Delivery, fault Fault) answer {
	id := recordID{service, d.Key.String()}
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.records[id]; r != nil {
		return r.repeat(fault)
	}
	r := &record{step: d.Step, undo: d.Undo, state: done, status: http.StatusOK, body: s.answers[d.Step]}
	if d.Undo || r.body == nil {
		r.body = []byte("{}")
	}
	if fault.refusal != 0 {
		r.status, r.body = fault.refusal, fault.why
		if r.body == nil {
			r.body = []byte(`{"refused":true}`)
		}
	} else if !d.Cancels.IsZero() {
		if r.forward = s.cancel(recordID{service, d.Cancels.String()}, d); r.forward == "" {
			return problem(wire.InProgress)
		}
	} else if !fault.noEffect {
		r.effects = 1
	}
	s.records[id] = r
	if fault.forgets {
		r.state = unknown
		return problem(wire.OutcomeUnknown)
	}
	return answer{status: r.status, body: r.body, replayed: "false", forward: r.forward}
}

// cancel undoes the call with the forward key, or prevents it from ever running. It returns the
// outcome of the call; "" while the call runs.
func (s *Services) cancel(forward recordID, d Delivery) string {
	r := s.records[forward]
	switch {
	case r == nil:
		s.records[forward] = &record{step: d.Step, state: tombstone}
		return wire.ForwardNeverRan
	case r.state == running:
		return ""
	}
	r.undone += r.effects - r.undone // an undone effect stays undone
	switch {
	case r.state == unknown:
		r.state = tombstone
		return wire.ForwardMaybeRan
	case r.state == done && r.status < http.StatusMultipleChoices:
		return wire.ForwardRan
	}
	return wire.ForwardNeverRan
}

// repeat answers a further delivery of a key.
func (r *record) repeat(fault Fault) answer {
	switch {
	case r.state == tombstone:
		return problem(wire.KeyCancelled)
	case r.state == running:
		return problem(wire.InProgress)
	case r.state == unknown:
		return problem(wire.OutcomeUnknown)
	case fault.gone && r.status < 300:
		return problem(wire.ResponseGone)
	}
	return answer{status: r.status, body: r.body, replayed: "true", forward: r.forward}
}
