package sdktest

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"testing"
)

// A Downstream is a service on loopback. Make one with [New], or with [Start]
// outside of tests. It is safe for concurrent use.
type Downstream struct {
	server  *httptest.Server
	work    http.Handler
	readKey func(r *http.Request, body []byte) string
	done    chan struct{}
	close   sync.Once

	mu         sync.Mutex
	scripts    map[string][]Fault
	deliveries map[string]int // by path and key
	requests   []Request
	keys       map[string]*record
	effects    map[string]int
}

// A Request is one delivery, as the service saw it.
type Request struct {
	Method, Path string
	Key          string // without quotes, as [childkey.Key.String]; "" if there was none
	Header       http.Header
	Body         []byte
	Delivery     int // counts from 1 for each path and key
}

// New returns a Downstream that does work, and is closed with the test. A nil
// work answers everything with 200 and {}.
func New(tb testing.TB, work http.Handler, options ...Option) *Downstream {
	tb.Helper()
	d := Start(work, options...)
	tb.Cleanup(d.Close)
	return d
}

// Start is [New] without a test; call [Downstream.Close]. Like httptest.NewServer
// it panics where loopback cannot be listened on.
func Start(work http.Handler, options ...Option) *Downstream {
	if work == nil {
		work = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, "{}")
		})
	}
	d := &Downstream{
		work: work, readKey: readIdempotencyKey, done: make(chan struct{}), scripts: make(map[string][]Fault),
		deliveries: make(map[string]int), keys: make(map[string]*record), effects: make(map[string]int),
	}
	for _, option := range options {
		option(d)
	}
	d.server = httptest.NewServer(http.HandlerFunc(d.serve))
	return d
}

// Close ends the service, and what [Hold] and [Delay] hold. It may be called again.
func (d *Downstream) Close() {
	d.close.Do(func() {
		close(d.done)
		d.server.Close()
	})
}

// URL is where the service is.
func (d *Downstream) URL() string { return d.server.URL }

// Script says what happens to the requests for path: the first Fault to the first delivery
// of each key, the second to the second, and so on; later deliveries pass. Requests without
// a key count as one key. It replaces the script that path had.
func (d *Downstream) Script(path string, faults ...Fault) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.scripts[path] = slices.Clone(faults)
}

// Requests returns the deliveries so far, in order of arrival.
func (d *Downstream) Requests() []Request {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.requests)
}

// Effects returns how often the work was done for each key, which is as a
// [Request] has it, with its quotes: 1 for every key if caller and callee do what
// they should, and all that came without a key under "". Work that answers 401, 403, 407,
// 408, 421, 423, 425 or 429 was not done.
func (d *Downstream) Effects() map[string]int {
	d.mu.Lock()
	defer d.mu.Unlock()
	effects := make(map[string]int, len(d.effects))
	for key, n := range d.effects {
		effects[key] = n
	}
	return effects
}

func (d *Downstream) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the caller hung up in the middle of it
	}
	fault, req := d.record(r, body)
	if fault.before != nil {
		fault.before(d.done)
	}
	if fault.answer != nil {
		fault.answer.write(w)
		return
	}
	if fault.drop && !fault.run {
		abort(w)
		return
	}
	got := d.runOnce(r, req)
	if fault.repeat {
		got = d.runOnce(r, req)
	}
	switch {
	case fault.drop:
		abort(w)
	case fault.cut > 0:
		got.truncate(w, fault.cut)
	default:
		got.write(w)
	}
}

// record notes the delivery and returns what the script has for it.
func (d *Downstream) record(r *http.Request, body []byte) (Fault, Request) {
	req := Request{
		Method: r.Method, Path: r.URL.Path, Key: d.readKey(r, body),
		Header: r.Header.Clone(), Body: body,
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	count := req.Path + "\x00" + req.Key
	d.deliveries[count]++
	req.Delivery = d.deliveries[count]
	d.requests = append(d.requests, req)
	if script := d.scripts[req.Path]; req.Delivery <= len(script) {
		return script[req.Delivery-1], req
	}
	return Fault{}, req
}

// abort closes the connection without an answer. A reset, not an orderly end:
// that is what a killed process leaves behind.
func abort(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// An answer is what the work said.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (a *answer) write(w http.ResponseWriter) {
	for name, values := range a.header {
		w.Header()[name] = values
	}
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body)
}

// truncate announces the whole body and sends n bytes of it.
func (a *answer) truncate(w http.ResponseWriter, n int) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "HTTP/1.1 %d %s\r\n", a.status, http.StatusText(a.status))
	header := a.header.Clone()
	header.Set("Content-Length", strconv.Itoa(len(a.body)+1))
	_ = header.Write(&b)
	b.WriteString("\r\n")
	b.Write(a.body[:min(n, len(a.body))])
	_, _ = conn.Write(b.Bytes())
	_ = conn.Close()
}
