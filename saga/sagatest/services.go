package sagatest

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/sdk"
)

// Services are all callees of a saga, in memory: they run each key once and
// replay its answer, an undo makes the forward key a tombstone, and they count
// effects. A script makes them misbehave. They do with keys what guarded
// services do, without leases, and serve in a testing/synctest bubble, where
// there is no network. Make them with [NewServices]; they are safe for
// concurrent use.
type Services struct {
	mu      sync.Mutex
	answers map[string][]byte
	scripts map[string][]Fault
	calls   map[string]int // deliveries, by step and direction
	records map[recordID]*record
	log     []Delivery
	sent    []copied // what may still be under way somewhere
	twice   bool     // each request
}

// copied is a request that the network could deliver again.
type copied struct {
	host string
	Delivery
}

type recordID struct{ service, key string }

// A record is what a service knows of a key.
type record struct {
	step    string // that the call was made for
	undo    bool
	state   state
	status  int
	body    []byte
	effects int
	undone  int // by undos that named it
}

type state uint8

const (
	running state = iota + 1
	done
	tombstone
	unknown // it ran, and the service lost track of it
)

// A Delivery is one request as a service got it.
type Delivery struct {
	Step    string
	Undo    bool
	Key     childkey.Key
	Cancels childkey.Key // zero: none
	Header  http.Header
	Body    []byte
	Status  int // of the answer; 0: there was none
}

// Effects is what became of one step.
type Effects struct {
	Done, Undone int
	// Tombstone: an undo came first, and the call will never run.
	Tombstone bool
	// Refused: the call was turned down for good.
	Refused bool
}

// NewServices returns services that answer each call with {}.
func NewServices() *Services {
	return &Services{
		answers: make(map[string][]byte), scripts: make(map[string][]Fault), calls: make(map[string]int),
		records: make(map[recordID]*record),
	}
}

// Client returns a client of the services with these names.
func (s *Services) Client(names ...string) (*sdk.Client, error) { return newClient(s, names) }

func newClient(transport http.RoundTripper, names []string) (*sdk.Client, error) {
	// No jitter, and no budget that one scenario could use up for the next.
	budget, err := retry.NewBudget(retry.BudgetConfig{Reserve: 1e9})
	if err != nil {
		return nil, err
	}
	cfg := sdk.Config{
		Services: make(map[string]sdk.Service, len(names)),
		Retry:    retry.Config{Transport: transport, Budget: budget, Rand: func() float64 { return 0.5 }},
	}
	for _, name := range names {
		cfg.Services[name] = sdk.Service{URL: "http://" + host(name)}
	}
	return sdk.New(cfg)
}

// host is a service's name as the name of a host; it only must be one.
func host(service string) string {
	return string(bytes.Map(func(r rune) rune {
		if r == '/' || r == '_' {
			return '-'
		}
		return r
	}, []byte(service)))
}

// Answer sets what the call of a step answers: JSON.
func (s *Services) Answer(step string, body string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers[step] = []byte(body)
}

// Script says what happens to the deliveries of a step's call: the first Fault
// to the first, and so on; later ones pass.
func (s *Services) Script(step string, faults ...Fault) { s.script(step, faults) }

// ScriptUndo is [Services.Script] for a step's undo.
func (s *Services) ScriptUndo(step string, faults ...Fault) { s.script("undo of "+step, faults) }

func (s *Services) script(call string, faults []Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scripts[call] = faults
}

// Deliveries returns what arrived so far, in order.
func (s *Services) Deliveries() []Delivery {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Delivery(nil), s.log...)
}

// Effects returns what became of a step, over all keys that it was called with.
func (s *Services) Effects(step string) Effects {
	s.mu.Lock()
	defer s.mu.Unlock()
	var e Effects
	for _, r := range s.records {
		if r.step != step || r.undo {
			continue
		}
		e.Done += r.effects
		e.Undone += r.undone
		e.Tombstone = e.Tombstone || r.state == tombstone
		e.Refused = e.Refused || r.state == done && r.status >= 300
	}
	return e
}

// RoundTrip makes Services the transport of a client. It finds the step by the
// ctx that the engine made the request with.
func (s *Services) RoundTrip(req *http.Request) (*http.Response, error) {
	info, _ := saga.FromContext(req.Context())
	d := Delivery{Step: info.Step, Undo: info.Undo, Header: req.Header.Clone()}
	var err error
	if req.Body != nil {
		if d.Body, err = io.ReadAll(req.Body); err != nil {
			return nil, err
		}
	}
	if d.Key, _, err = wire.ParseKeyHeader(req.Header.Values(wire.HeaderKey)); err != nil {
		return nil, err
	}
	if d.Cancels, _, err = wire.ParseKeyHeader(req.Header.Values(wire.HeaderCancels)); err != nil {
		return nil, err
	}
	return s.deliver(req, d)
}

func (s *Services) deliver(req *http.Request, d Delivery) (*http.Response, error) {
	fault := s.next(d)
	err := sleep(req.Context(), fault.delay)
	if err != nil {
		return nil, err
	}
	if fault.instead == nil && !fault.refused {
		s.mu.Lock()
		s.sent = append(s.sent, copied{req.URL.Host, d})
		s.mu.Unlock()
	}
	var a answer
	if fault.instead != nil {
		a = *fault.instead
	} else if !fault.lostRequest && !fault.refused {
		if a, err = s.runFor(req, d, fault); err != nil {
			return nil, err
		}
		if fault.twice || s.isTwice() {
			a = s.run(req.URL.Host, d, fault)
		}
	}
	switch {
	case fault.refused:
		return nil, &net.OpError{Op: "dial", Net: "memory", Err: syscall.ECONNREFUSED}
	case fault.lostRequest, fault.lostAnswer:
		return nil, errLost
	}
	d.Status = a.status
	s.mu.Lock()
	s.log = append(s.log, d)
	s.mu.Unlock()
	return a.response(req), nil
}

var errLost = errors.New("sagatest: the connection was lost")

func (s *Services) setTwice(twice bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.twice = twice
}

func (s *Services) isTwice() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.twice
}

// next books a delivery and returns what its script has for it.
func (s *Services) next(d Delivery) Fault {
	call := d.Step
	if d.Undo {
		call = "undo of " + d.Step
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.calls[call]
	s.calls[call]++
	script := s.scripts[call]
	var fault Fault
	switch {
	case n < len(script):
		fault = script[n]
	case len(script) > 0 && script[len(script)-1].always:
		fault = script[len(script)-1]
	}
	if fault.refused || fault.lostRequest || fault.lostAnswer {
		s.log = append(s.log, d)
	}
	return fault
}

// runFor is run, taking as long as the fault says. The work goes on without
// the caller.
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

// DeliverAgain delivers every request so far once more, as a network may that
// is late: also those that were lost. Nothing may come of it.
func (s *Services) DeliverAgain() {
	s.mu.Lock()
	sent := s.sent
	s.mu.Unlock()
	for _, c := range sent {
		s.run(c.host, c.Delivery, Fault{})
	}
}

// run does what a guarded service does with a key.
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
		r.status, r.body = fault.refusal, []byte(`{"refused":true}`)
	} else if !d.Cancels.IsZero() {
		if !s.cancel(recordID{service, d.Cancels.String()}, d) {
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
	return answer{status: r.status, body: r.body, replayed: "false"}
}

// cancel undoes the call with the forward key, or keeps it from ever running;
// false while it runs.
func (s *Services) cancel(forward recordID, d Delivery) bool {
	switch r := s.records[forward]; {
	case r == nil:
		s.records[forward] = &record{step: d.Step, state: tombstone}
	case r.state == running:
		return false
	default:
		r.undone += r.effects - r.undone // what is undone stays undone
		if r.state == unknown {
			r.state = tombstone
		}
	}
	return true
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
	return answer{status: r.status, body: r.body, replayed: "true"}
}

// An answer is what a service says.
type answer struct {
	status      int
	body        []byte
	contentType string
	replayed    string // the header; "": not from a guarded service
	shouldRetry string
}

func problem(code wire.Code) answer {
	row, _ := code.Situation()
	return answer{
		status: row.Status, body: wire.NewProblem(code, "").JSON(), contentType: wire.ProblemContentType,
		replayed: "false", shouldRetry: strconv.FormatBool(row.Retryable),
	}
}

func (a answer) response(req *http.Request) *http.Response {
	header := http.Header{"Content-Type": {a.contentType}}
	if a.contentType == "" {
		header.Set("Content-Type", "application/json")
	}
	if a.replayed != "" {
		header.Set(wire.HeaderReplayed, a.replayed)
	}
	if a.shouldRetry != "" {
		header.Set(wire.HeaderShouldRetry, a.shouldRetry)
	}
	return &http.Response{
		Status: strconv.Itoa(a.status), StatusCode: a.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header, Body: io.NopCloser(bytes.NewReader(a.body)), ContentLength: int64(len(a.body)), Request: req,
	}
}
