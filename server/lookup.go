package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server/internal/engine"
	"github.com/fanonce/fanonce/server/store"
)

// A Lookup is the state of a key. All times are by the store's clock.
type Lookup struct {
	ID    store.ID
	State State
	// Fence is 1 for the first run and grows with each further one.
	Fence int64
	// Replayable reports that a retry gets the answer.
	Replayable bool
	// Response is the stored answer of a completed key. Its headers and body are there while the store keeps them,
	// which is longer than retries get them. After that only the status is there. Zero in other states.
	Response Response

	Now         time.Time
	CreatedAt   time.Time
	LeaseUntil  time.Time // while in progress
	ReplayUntil time.Time // of a completed key
	ExpiresAt   time.Time // the record may be deleted after it
}

// IDOf returns the ID of a key in the store, logs and events. scope is the scope of the key's caller, as the
// [ScopeFunc] returns it.
func (g *Guard) IDOf(scope string, key childkey.Key) store.ID {
	return store.NewID(scope, g.cfg.Namespace, key)
}

// Lookup returns the state of a key. It changes nothing, and asks the store every time. A
// key without a record is [ErrNotFound]. A scope that a [ScopeFunc] may not return, or the
// zero key, is an error wrapping [ErrArgument]. Other errors are the store's. An answer that
// cannot be opened is left out.
func (g *Guard) Lookup(ctx context.Context, scope string, key childkey.Key) (Lookup, error) {
	if !isScope(scope) {
		return Lookup{}, errBadScope
	}
	if key.IsZero() {
		return Lookup{}, fmt.Errorf("%w: the key is zero", ErrArgument)
	}
	return g.lookup(ctx, g.IDOf(scope, key))
}

// LookupTask is [Guard.Lookup] for a key of a task, with the task's scope and namespace.
func (g *Guard) LookupTask(ctx context.Context, t Task, key childkey.Key) (Lookup, error) {
	if err := g.CheckTask(t); err != nil {
		return Lookup{}, err
	}
	if key.IsZero() {
		return Lookup{}, fmt.Errorf("%w: the key is zero", ErrArgument)
	}
	return g.lookup(ctx, store.NewID(t.Scope, g.namespaceOf(&t), key))
}

func (g *Guard) lookup(ctx context.Context, id store.ID) (Lookup, error) {
	rec, err := g.engine.Store().Read(ctx, id)
	if err != nil {
		return Lookup{}, err
	}
	return g.lookedUp(&rec), nil
}

func (g *Guard) lookedUp(rec *store.Record) Lookup {
	l := Lookup{
		ID: rec.ID, State: rec.State, Fence: rec.Fence,
		Now: rec.Now, CreatedAt: rec.CreatedAt, ExpiresAt: rec.ExpiresAt,
	}
	switch rec.State {
	case StateInProgress:
		l.LeaseUntil = rec.LeaseUntil
	case StateCompleted:
		l.ReplayUntil = rec.ReplayUntil
		l.Response = Response{Status: rec.Answer.Status}
		if answer, err := g.sealer.OpenAnswer(rec); err == nil { // the text of a Reference is no envelope
			if a, err := openAnswer(answer.Status, answer.Envelope); err == nil {
				l.Response = a.response()
				l.Replayable = rec.Now.Before(rec.ReplayUntil)
			}
		}
	default:
	}
	return l
}

// lookupDocument is the answer of the lookup handler.
type lookupDocument struct {
	ID          string     `json:"id"`
	State       string     `json:"state"`
	Fence       int64      `json:"fence"`
	Status      int        `json:"status,omitempty"`
	Replayable  bool       `json:"replayable"`
	CreatedAt   time.Time  `json:"created_at"`
	LeaseUntil  *time.Time `json:"lease_until,omitempty"`
	ReplayUntil *time.Time `json:"replay_until,omitempty"`
	ExpiresAt   time.Time  `json:"expires_at"`
}

// LookupHandler tells a caller the state of its key, and runs nothing. It serves GET and
// HEAD. The key is in the Idempotency-Key header, or in a {key} wildcard of the pattern:
//
//	mux.Handle("GET /idempotency/{key}", guard.LookupHandler())
//
// The answer is a JSON object. Its members are id, state, fence, created_at, lease_until, replay_until and
// expires_at, and for a completed key status and replayable. The state is in_progress, completed, released, unknown,
// quarantined or cancelled. With the query answer=1 a replayable answer is sent as a retry would get it. A key without a
// record is refused with key-not-found (404), and so is a key of another scope: the scope comes from the guard's
// [ScopeFunc]. Other methods are refused with method-not-allowed (405). Bad requests are refused as a guarded route
// would.
func (g *Guard) LookupHandler() http.Handler { return &lookupHandler{guarded{guard: g}} }

type lookupHandler struct{ guarded }

// ServeHTTP implements http.Handler.
func (h *lookupHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	expose(w, r)
	route := &Route{Name: cmp.Or(r.Pattern, "lookup")}
	w.Header().Set("Cache-Control", "no-store")
	c := &call{route: route, Call: engine.Call{Route: engine.Route{Name: route.Name}}}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		h.refuse(w, r, c, outcome{Code: wire.MethodNotAllowed})
		return
	}
	scope, refusal := h.guard.scopeOf(r)
	if refusal != nil {
		h.refuse(w, r, c, *refusal)
		return
	}
	lines := r.Header.Values(wire.HeaderKey)
	if inPath := r.PathValue("key"); inPath != "" {
		lines = []string{inPath}
	}
	key, refusal := parseKey(lines)
	if refusal != nil {
		h.refuse(w, r, c, *refusal)
		return
	}
	c.ID = h.guard.IDOf(scope, key)
	found, err := h.guard.Lookup(r.Context(), scope, key)
	switch {
	case errors.Is(err, ErrNotFound):
		h.refuse(w, r, c, outcome{Code: wire.KeyNotFound})
	case r.Context().Err() != nil && err != nil: // the store is not to blame
		h.refuse(w, r, c, outcome{Code: wire.NotClaimed, RetryAfter: time.Second, Err: err})
	case err != nil:
		h.refuse(w, r, c, engine.StoreRefusal(err))
	case r.URL.Query().Get("answer") == "1" && found.Replayable:
		h.send(w, r, c, &found)
	default:
		h.describe(w, r, c, &found)
	}
}

func (h *lookupHandler) send(w http.ResponseWriter, r *http.Request, c *call, l *Lookup) {
	envelope, err := h.guard.envelope(l.Response)
	if err != nil || !h.replay(w, r, &store.Answer{Status: l.Response.Status, Envelope: envelope}) {
		h.describe(w, r, c, l) // stored under other limits
	}
}

func (h *lookupHandler) describe(w http.ResponseWriter, r *http.Request, c *call, l *Lookup) {
	doc := lookupDocument{
		ID: l.ID.String(), State: l.State.String(), Fence: l.Fence, Status: l.Response.Status, Replayable: l.Replayable,
		CreatedAt: l.CreatedAt, ExpiresAt: l.ExpiresAt,
	}
	if !l.LeaseUntil.IsZero() {
		doc.LeaseUntil = &l.LeaseUntil
		wire.SetRetryAfter(w.Header(), engine.RetryAfter(l.Now.Sub(l.CreatedAt), l.LeaseUntil.Sub(l.Now)))
	}
	if !l.ReplayUntil.IsZero() {
		doc.ReplayUntil = &l.ReplayUntil
	}
	body, err := json.Marshal(doc)
	if err != nil { // a time is beyond the year 9999
		h.refuse(w, r, c, outcome{Code: wire.RecordUnreadable, Err: err})
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body) // a client that is gone asks again
}
