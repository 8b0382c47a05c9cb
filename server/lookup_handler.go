package server

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/wire"
)

// lookupDocument is what the lookup handler answers.
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

// LookupHandler tells a caller where its key stands, without running anything:
// GET or HEAD, the key in the Idempotency-Key header or in a {key} wildcard of
// the pattern it is mounted at.
//
//	mux.Handle("GET /idempotency/{key}", guard.LookupHandler())
//
// The answer is a JSON object: id, state (in_progress, completed, released, unknown,
// poisoned or cancelled), fence, status and replayable of a completed key,
// created_at, lease_until, replay_until and expires_at. With the query answer=1 a
// replayable answer is sent as a retry would get it. A key that has no record is
// refused with key-not-found (404), another scope's key alike: the scope is the
// guard's [ScopeFunc]'s. Other methods are refused with method-not-allowed (405).
// Bad requests are refused as a guarded route would.
func (g *Guard) LookupHandler() http.Handler { return &lookupHandler{guarded{guard: g}} }

type lookupHandler struct{ guarded }

// ServeHTTP implements http.Handler.
func (h *lookupHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	expose(w, r)
	route := &Route{Name: cmp.Or(r.Pattern, "lookup")}
	w.Header().Set("Cache-Control", "no-store")
	c := &call{route: route}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		h.refuse(w, r, c, outcome{code: wire.MethodNotAllowed})
		return
	}
	scope, refusal := h.guard.scopeOf(r)
	if refusal != nil {
		h.refuse(w, r, c, *refusal)
		return
	}
	key, code, err := lookupKey(r)
	if code != "" {
		h.refuse(w, r, c, outcome{code: code, err: err})
		return
	}
	c.id = h.guard.IDOf(scope, key)
	found, err := h.guard.Lookup(r.Context(), scope, key)
	switch {
	case errors.Is(err, ErrNotFound):
		h.refuse(w, r, c, outcome{code: wire.KeyNotFound})
	case err != nil:
		h.refuse(w, r, c, storeRefusal(err))
	case r.URL.Query().Get("answer") == "1" && found.Replayable:
		h.send(w, r, c, &found)
	default:
		h.describe(w, r, c, &found)
	}
}

// lookupKey reads the key from the path, or else from the header.
func lookupKey(r *http.Request) (childkey.Key, wire.Code, error) {
	lines := r.Header.Values(wire.HeaderKey)
	if inPath := r.PathValue("key"); inPath != "" {
		lines = []string{inPath}
	}
	key, present, err := wire.ParseKeyHeader(lines)
	switch {
	case err != nil:
		return childkey.Key{}, wire.KeyInvalid, err
	case !present:
		return childkey.Key{}, wire.KeyMissing, nil
	}
	return key, "", nil
}

func (h *lookupHandler) send(w http.ResponseWriter, r *http.Request, c *call, l *Lookup) {
	envelope, err := h.guard.envelope(l.Response)
	if err != nil || !h.replay(w, &Answer{Status: l.Response.Status, Envelope: envelope}) {
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
		wire.SetRetryAfter(w.Header(), retryAfter(l.Now.Sub(l.CreatedAt), l.LeaseUntil.Sub(l.Now)))
	}
	if !l.ReplayUntil.IsZero() {
		doc.ReplayUntil = &l.ReplayUntil
	}
	body, err := json.Marshal(doc)
	if err != nil { // times beyond the year 9999
		h.refuse(w, r, c, outcome{code: wire.RecordUnreadable, err: err})
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body) // a client that is gone asks again
}
