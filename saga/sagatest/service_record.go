package sagatest

import (
	"net/http"
	"time"

	"github.com/fanonce/fanonce/childkey/wire"
)

type recordID struct{ service, key string }

const (
	// retention is how long a service keeps its record of a key, from the first call on. It is that of package server.
	retention = 7 * 24 * time.Hour
	// window is how old First-Sent may be for a key without a record to run: until then the key surely never ran.
	window = retention - 5*time.Minute
)

// A record has the state of a key, and the effects of its calls. A service forgets the state in time, and the effects
// stay.
type record struct {
	began   time.Time // of the first call
	step    string    // the step of the call
	undo    bool
	state   state
	request string // its path, and the body of a call that is no undo
	status  int
	body    []byte
	effects int
	undone  int    // by undos that named it
	forward string // for an undo: the outcome of the call that it undid
}

type state uint8

const (
	absent state = iota // no call ran yet, or the service forgot it
	running
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
	r := s.find(id, d)
	first := r.state == absent && !r.isTooOld(d)
	if first {
		r.begin(running)
	}
	s.mu.Unlock()
	if !first {
		return s.run(req.URL.Host, d, fault), nil
	}
	ended := make(chan answer, 1)
	go func() {
		time.Sleep(fault.slow)
		s.mu.Lock()
		r.state = absent
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

// request is what a guard compares: an undo says what its caller knows in its body, so that is no part of it.
func (d *Delivery) request() string {
	if !d.Cancels.IsZero() {
		return d.Path
	}
	return d.Path + "\n" + string(d.Body)
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
	r := s.find(id, d)
	if r.state == absent || r.request == "" { // or a tombstone of a call that comes now
		r.request = d.request()
	}
	switch {
	case r.request != d.request():
		return problem(wire.KeyReused)
	case r.state != absent:
		return r.repeat(fault)
	case r.isTooOld(d):
		return problem(wire.KeyExpired)
	}
	r.status, r.body = http.StatusOK, s.answers[d.Step]
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
		r.effects++
	}
	r.begin(done)
	if fault.forgets {
		r.state = unknown
		return problem(wire.OutcomeUnknown)
	}
	return answer{status: r.status, body: r.body, replayed: "false", forward: r.forward}
}

// cancel undoes the call with the forward key, or prevents it from ever running. It returns the
// outcome of the call; "" while the call runs.
func (s *Services) cancel(forward recordID, d Delivery) string {
	r := s.find(forward, Delivery{Step: d.Step})
	switch {
	case r.state == absent && d.Header.Get(wire.HeaderForward) == wire.ForwardRan: // the caller knows what the service forgot
		r.begin(tombstone)
		r.undone += r.effects - r.undone
		return wire.ForwardRan
	case r.state == absent:
		r.begin(tombstone)
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

// find returns the record of a key, without what the service has forgotten. The caller holds s.mu.
func (s *Services) find(id recordID, d Delivery) *record {
	r := s.records[id]
	if r == nil {
		r = &record{step: d.Step, undo: d.Undo}
		s.records[id] = r
	}
	if r.state != absent && time.Since(r.began) >= retention {
		r.state = absent
	}
	return r
}

// begin records a call of a key that is not remembered.
func (r *record) begin(as state) {
	if r.state == absent {
		r.began = time.Now()
	}
	r.state = as
}

// isTooOld reports whether the service may have forgotten an earlier call of the key.
func (r *record) isTooOld(d Delivery) bool {
	first, known, err := wire.ParseFirstSent(d.Header.Values(wire.HeaderFirstSent))
	return err == nil && known && time.Since(first) > window
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
