package retry

import (
	"cmp"
	"hash/maphash"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// maxPause is how long a Retry-After keeps other calls from a service. The call that was told waits for all of it.
const maxPause = 5 * time.Second

// maxPauses is how many pauses a client keeps. Without room for one more the calls find out for themselves.
const maxPauses = 1024

// pauses are the services that asked the client to wait, each for the callers that it told.
type pauses struct {
	active atomic.Int32 // how many there are: most calls need to know no more

	mu   sync.Mutex
	seed maphash.Seed
	all  map[pauseID]pause
}

// A pauseID tells the callers of a service apart: a limit of one of them stops no other.
type pauseID struct {
	service    string
	credential uint64 // a hash, since a credential is not kept
}

type pause struct {
	end    time.Time
	lifted chan struct{} // closed by a success
}

// credentialWords are in the names of the header fields and query parameters that say who calls.
var credentialWords = []string{"auth", "token", "key", "secret", "cookie", "session", "tenant", "account", "user", "client", "org"}

// namesCredential reports whether a field or a parameter of that name says who calls. The ID of a request does not.
func namesCredential(name string) bool {
	name = strings.ToLower(name)
	return !strings.Contains(name, "request") && !strings.Contains(name, "idempotency") && slices.ContainsFunc(credentialWords, func(word string) bool { return strings.Contains(name, word) })
}

// idOf returns the ID of what the request asks of the service. The client's own header fields differ from call to call. p.mu
// is held.
func (p *pauses) idOf(service string, req *http.Request, c *carrier) pauseID {
	var h maphash.Hash
	h.SetSeed(p.seed)
	add := func(values map[string][]string) {
		for _, name := range slices.Sorted(maps.Keys(values)) {
			if !namesCredential(name) || c.owns(name) {
				continue
			}
			for _, value := range values[name] {
				maphash.WriteComparable(&h, [2]string{strings.ToLower(name), value})
			}
		}
	}
	add(req.Header)
	add(url.Values(req.URL.Query()))
	if req.URL.User != nil {
		maphash.WriteComparable(&h, req.URL.User.String())
	}
	return pauseID{cmp.Or(service, req.URL.Host), h.Sum64()}
}

// begin has calls like req wait.
func (p *pauses) begin(service string, req *http.Request, c *carrier, wait time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.all == nil {
		p.all, p.seed = make(map[pauseID]pause), maphash.MakeSeed()
	}
	id, now := p.idOf(service, req, c), time.Now()
	old, ok := p.all[id]
	if !ok && len(p.all) >= maxPauses {
		maps.DeleteFunc(p.all, func(_ pauseID, old pause) bool { return !old.end.After(now) })
	}
	switch end := now.Add(min(wait, maxPause)); {
	case ok && old.end.After(end):
	case ok:
		p.all[id] = pause{end, old.lifted}
	case len(p.all) < maxPauses:
		p.all[id] = pause{end, make(chan struct{})}
	}
	p.active.Store(int32(len(p.all)))
}

// lift ends the pause of calls like req.
func (p *pauses) lift(service string, req *http.Request, c *carrier) {
	if p.active.Load() == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	id := p.idOf(service, req, c)
	if old, ok := p.all[id]; ok {
		close(old.lifted)
		p.drop(id)
	}
}

// find returns the pause of calls like req, and how long it lasts; 0: there is none.
func (p *pauses) find(service string, req *http.Request, c *carrier) (lifted <-chan struct{}, left time.Duration) {
	if p.active.Load() == 0 {
		return nil, 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	id := p.idOf(service, req, c)
	found, ok := p.all[id]
	if left = time.Until(found.end); !ok || left > 0 {
		return found.lifted, max(left, 0)
	}
	p.drop(id) // those who wait hear of its end by the clock
	return nil, 0
}

// drop forgets a pause. p.mu is held.
func (p *pauses) drop(id pauseID) {
	delete(p.all, id)
	p.active.Store(int32(len(p.all)))
}

// A pausedError ends an attempt that was not made: its call's time ended while it waited for the service.
type pausedError struct{ err error }

func (e *pausedError) Error() string { return "retry: the service had asked to wait: " + e.err.Error() }

func (e *pausedError) Unwrap() error { return e.err }

// awaitPause waits as long as the service has asked calls like req to wait. It leaves time for an attempt: the service may
// have recovered, and its answer tells the caller more than none. awaitPause reports whether it waited. The error is
// a pausedError.
func (r *run) awaitPause(req *http.Request) (waited bool, err error) {
	for {
		lifted, left := r.client.pauses.find(r.task.Service, req, &r.client.carrier)
		if left == 0 {
			return waited, nil
		}
		waited = true
		wait := later(left, r.client.cfg.Rand()) // everybody waits for the same end
		cut := r.cut(wait)
		last := cut < wait
		wait = cut
		if end, ok := r.caller.Deadline(); !ok || !end.Equal(r.deadline) {
			wait = min(wait, time.Until(r.deadline)) // else the caller's ctx ends by itself, with its cause
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-lifted:
		case <-r.caller.Done():
		}
		timer.Stop()
		if stop := r.checkTime(time.Now()); stop != nil {
			return true, &pausedError{stop}
		}
		if last {
			return true, nil
		}
	}
}

// notePause takes in what an answer says of the calls like req: a success that they are welcome, and a Retry-After of 429 or
// 503 that they must wait.
func (r *run) notePause(req *http.Request, status int, v Verdict) {
	switch {
	case status/100 == 2 && v.Outcome == Completed:
		r.client.pauses.lift(r.task.Service, req, &r.client.carrier)
	case v.RetryAfter > 0 && (status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable):
		r.client.pauses.begin(r.task.Service, req, &r.client.carrier, v.RetryAfter)
	}
}
