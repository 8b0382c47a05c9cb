package sagatest

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/sdk"
)

// Services are all callees of a saga, in memory. They run each key once and replay its answer,
// and they count effects. An undo makes the forward key a tombstone. A script makes them fail.
// They handle keys as guarded services with the default retention do, but without leases: they forget a key
// a week after its first call, and refuse a call that may be older (key-expired). They work in a testing/synctest
// bubble, because they need no network. Make them with [NewServices]. They are safe for
// concurrent use.
type Services struct {
	mu      sync.Mutex
	answers map[string][]byte
	scripts map[string][]Fault
	calls   map[string]int       // deliveries, by step and direction
	began   map[string]time.Time // when the first of them was
	records map[recordID]*record
	log     []Delivery
	sent    []copied // requests that the network may still deliver
	twice   bool     // each request
}

// copied is a request that the network could deliver again.
type copied struct {
	host string
	Delivery
}

// A Delivery is one request as a service received it.
type Delivery struct {
	Step    string
	Undo    bool
	Key     childkey.Key
	Cancels childkey.Key // zero: none
	Path    string       // escaped
	Header  http.Header
	Body    []byte
	Status  int // of the answer; 0: there was none
}

// Effects is the outcome of one step.
type Effects struct {
	Done, Undone int
	// Tombstone: an undo came before the call, and the call will never run.
	Tombstone bool
	// Refused: the call was refused permanently.
	Refused bool
}

// NewServices returns services that answer each call with {}.
func NewServices() *Services {
	return &Services{
		answers: make(map[string][]byte), scripts: make(map[string][]Fault), calls: make(map[string]int),
		began: make(map[string]time.Time), records: make(map[recordID]*record),
	}
}

// Client returns a client of the services with these names.
func (s *Services) Client(names ...string) (*sdk.Client, error) { return newClient(s, names) }

func newClient(transport http.RoundTripper, names []string) (*sdk.Client, error) {
	// No jitter, and no budget that one scenario could use up for the next.
	budget := &retry.Budget{Reserve: 1e9}
	cfg := sdk.Config{
		Services: make(map[string]sdk.Service, len(names)),
		Retry:    retry.Config{Transport: transport, Budget: budget, Rand: func() float64 { return 0.5 }},
	}
	for _, name := range names {
		cfg.Services[name] = sdk.Service{URL: "http://" + host(name)}
	}
	return sdk.New(cfg)
}

// host returns a valid host name for a service. Any valid name will do.
func host(service string) string {
	return string(bytes.Map(func(r rune) rune {
		if r == '/' || r == '_' {
			return '-'
		}
		return r
	}, []byte(service)))
}

// Answer sets the answer to the call of a step, as JSON.
func (s *Services) Answer(step string, body string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers[step] = []byte(body)
}

// Script sets the faults of the deliveries of a step's call. The first Fault hits the first
// delivery, and so on. Later deliveries pass.
func (s *Services) Script(step string, faults ...Fault) { s.script(step, faults) }

// ScriptUndo is [Services.Script] for a step's undo.
func (s *Services) ScriptUndo(step string, faults ...Fault) { s.script("undo of "+step, faults) }

func (s *Services) script(call string, faults []Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scripts[call] = faults
}

// Deliveries returns the requests that arrived so far, in order.
func (s *Services) Deliveries() []Delivery {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Delivery(nil), s.log...)
}

// Effects returns the outcome of a step, over all keys of its calls.
func (s *Services) Effects(step string) Effects {
	s.mu.Lock()
	defer s.mu.Unlock()
	var effects Effects
	for _, r := range s.records {
		if r.step != step || r.undo {
			continue
		}
		effects.Done += r.effects
		effects.Undone += r.undone
		effects.Tombstone = effects.Tombstone || r.state == tombstone
		effects.Refused = effects.Refused || r.state == done && r.status >= 300
	}
	return effects
}

// RoundTrip makes Services the transport of a client. It finds the step by the
// ctx that the engine made the request with.
func (s *Services) RoundTrip(req *http.Request) (*http.Response, error) {
	info, _ := saga.FromContext(req.Context())
	d := Delivery{Step: info.Step, Undo: info.Undo, Path: req.URL.EscapedPath(), Header: req.Header.Clone()}
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
	fault := s.recordDelivery(d)
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

// recordDelivery records a delivery and returns the Fault of its script.
func (s *Services) recordDelivery(d Delivery) Fault {
	call := d.Step
	if d.Undo {
		call = "undo of " + d.Step
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.calls[call]
	if s.calls[call]++; n == 0 {
		s.began[call] = time.Now()
	}
	script := s.scripts[call]
	var fault Fault
	switch {
	case n < len(script):
		fault = script[n]
	case len(script) > 0 && script[len(script)-1].always:
		fault = script[len(script)-1]
	}
	if fault.lasts > 0 && time.Since(s.began[call]) >= fault.lasts {
		fault = Fault{}
	}
	if fault.refused || fault.lostRequest || fault.lostAnswer {
		s.log = append(s.log, d)
	}
	return fault
}
