package server

import (
	"cmp"
	"context"
	"errors"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server/internal/engine"
	"github.com/fanonce/fanonce/server/internal/record"
	"github.com/fanonce/fanonce/server/store"
)

// guarded is a route's http.Handler. It translates between HTTP and the
// engine, and decides nothing.
type guarded struct {
	guard *Guard
	route Route
	next  http.Handler
	// reconcile is the route's Reconcile in the engine's form; nil if the route has none.
	reconcile engine.Reconcile
	misplaced misplaced
}

// ServeHTTP implements http.Handler.
func (h *guarded) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !h.guard.guardsMethod(r.Method) || h.keyless(r) && h.route.Effect != Transactional {
		h.next.ServeHTTP(w, r)
		return
	}
	expose(w, r)
	route := h.routeOf(r)
	c := h.newCall(route)
	in := h.guard.newIntake(w, r)
	defer in.release()
	form, post, multi := r.Form, r.PostForm, r.MultipartForm
	body, refusal := h.admit(in, r, c)
	// A function of the route may have parsed the form, without the body.
	r.Form, r.PostForm, r.MultipartForm = form, post, multi
	if refusal != nil {
		in.abandon(refusal)
		h.refuse(w, r, c, *refusal)
		return
	}
	var rec *recorder
	c.Work = func(ctx context.Context) engine.Result {
		rec = newRecorder(w, route, &h.guard.cfg)
		rec.traces = !h.misplaced.traced.Swap(true)
		attempt := withBody(r.Clone(ctx), body)
		if route.Stream != StreamTombstone {
			attempt.Header.Del("Upgrade") // a refused Hijack would come after the effect
		}
		defer removeForm(attempt)
		h.next.ServeHTTP(rec, attempt)
		res := rec.finish(h.guard.headers, engine.From(ctx).Fate(), h.redactor(ctx, c))
		h.warnMisplaced(ctx, route.Name, w.Header(), rec)
		return res
	}
	if route.OnCommitError != nil {
		c.OnCommitError = func(ctx context.Context, refused *store.TxError) (res engine.Result, err error) {
			rec, res, err = h.amend(ctx, w, r, c, refused)
			return res, err
		}
	}
	out := h.guard.engine.Do(r.Context(), &c.Call)
	h.respond(w, r, c, rec, out)
}

// newCall returns a call of route, which is the handler's route with a name.
func (h *guarded) newCall(route *Route) *call {
	return &call{route: route, Call: engine.Call{
		Route:     engine.Route{Name: route.Name, Effect: route.Effect, HandlerTimeout: route.HandlerTimeout, Reconcile: h.reconcile},
		CanRender: route.Render != nil,
	}}
}

// routeOf returns the route with a name: it may serve several patterns of a mux.
func (h *guarded) routeOf(r *http.Request) *Route {
	if h.route.Name != "" {
		return &h.route
	}
	route := h.route
	route.Name = cmp.Or(r.Pattern, "default")
	return &route
}

// keyless reports whether the request has no key and needs none. It is not guarded then; a Transactional handler gets it
// in a transaction.
func (h *guarded) keyless(r *http.Request) bool {
	return h.route.KeyOptional && len(r.Header.Values(wire.HeaderKey)) == 0
}

// admit checks a request, in an order that callers rely on, and completes the call.
// A refused request leaves no record.
func (h *guarded) admit(in *intake, r *http.Request, c *call) ([]byte, *outcome) {
	g := h.guard
	scope, refusal := g.scopeOf(r)
	if refusal != nil {
		return nil, refusal
	}
	keyless := h.keyless(r)
	if h.route.Key == nil && !keyless {
		if refusal := h.readKeys(r, nil, scope, c); refusal != nil {
			return nil, refusal
		}
	}
	body, refusal := in.read(scope)
	if refusal != nil {
		return nil, refusal
	}
	c.Bytes = int64(len(body))
	if keyless {
		return body, nil
	}
	if h.route.Key != nil {
		if refusal := h.readKeys(r, body, scope, c); refusal != nil {
			return nil, refusal
		}
	}
	var err error
	if c.FirstSent, err = g.firstSent(r); err != nil {
		return nil, &outcome{Code: wire.FirstSentInvalid, Err: err}
	}
	c.Subject = record.Subject{
		Scope: scope, Namespace: g.cfg.Namespace, Key: c.Key.String(),
		Method: r.Method, Path: pathOf(r), Query: r.URL.RawQuery,
		MediaType: mediaType(r.Header.Get("Content-Type")), Encoding: strings.Join(r.Header.Values("Content-Encoding"), ","),
		Cancels: c.Forward.String(), Body: body,
	}
	if c.route.Fingerprint != nil {
		if c.Subject.Body, err = c.route.Fingerprint(r, body); err != nil {
			return nil, refusedBy(err, errFingerprint)
		}
	}
	g.identify(c)
	if refusal := g.remember(r, c, body); refusal != nil {
		return nil, refusal
	}
	h.readWishes(r, c)
	return body, nil
}

// identify derives the store's keys of a call whose subject is known. A
// request's own ID is known already.
func (g *Guard) identify(c *call) {
	c.Fingerprint = g.fingerprints.Current(&c.Subject)
	if c.ID == (store.ID{}) {
		c.ID = store.NewID(c.Subject.Scope, c.Subject.Namespace, c.Key)
	}
	c.Hop = hopKey(&c.Subject, c.Key)
	if !c.Forward.IsZero() {
		c.ForwardID = store.NewID(c.Subject.Scope, c.Subject.Namespace, c.Forward)
		c.ForwardHop = hopKey(&c.Subject, c.Forward)
	}
}

var (
	errFingerprint = errors.New("server: the request has no fingerprint")
	errMemo        = errors.New("server: the request has no memo")
	errKeyPolicy   = errors.New("server: the key policy refused the key")
	errBadForward  = errors.New("server: the forward key is malformed")
	errSelfUndo    = errors.New("server: the forward key is the request's own key: an undo needs a key of its own")
)

// readKeys reads the request's key and, of an undo, the forward key. body is there if
// the route has a Key of its own.
func (h *guarded) readKeys(r *http.Request, body []byte, scope string, c *call) (refusal *outcome) {
	if h.route.Key != nil {
		c.Key, refusal = h.keyOf(r, body)
	} else {
		c.Key, refusal = parseKey(r.Header.Values(wire.HeaderKey))
	}
	if refusal != nil {
		return refusal
	}
	c.ID = store.NewID(scope, h.guard.cfg.Namespace, c.Key)
	err := h.checkKey(c.Key)
	if err == nil {
		err = h.readForward(r, body, c)
	}
	if err != nil {
		return &outcome{Code: wire.KeyInvalid, Err: err}
	}
	return nil
}

func parseKey(lines []string) (childkey.Key, *outcome) {
	key, present, err := wire.ParseKeyHeader(lines)
	switch {
	case err != nil:
		return key, &outcome{Code: wire.KeyInvalid, Err: err}
	case !present:
		return key, &outcome{Code: wire.KeyMissing}
	}
	return key, nil
}

var errFuture = errors.New("server: the first-sent time is in the future beyond Config.Skew: check the caller's clock")

func (g *Guard) firstSent(r *http.Request) (time.Time, error) {
	t, _, err := wire.ParseFirstSent(r.Header.Values(wire.HeaderFirstSent))
	if err == nil && time.Until(t) > g.cfg.Skew {
		err = errFuture
	}
	return t, err
}

// readWishes reads the caller's wishes and hints. No value of them causes a refusal.
func (h *guarded) readWishes(r *http.Request, c *call) {
	cfg := &h.guard.cfg
	c.Wait = cmp.Or(h.route.Wait, cfg.Wait)
	if wait, ok := wire.ParsePreferWait(r.Header.Values(wire.HeaderPrefer)); ok {
		c.Wait = min(wait, cfg.longestWait())
	}
	c.Inbound = wire.ParseInbound(r.Header.Values)
	if d := c.Inbound.Deadline; !d.IsZero() {
		now := time.Now()
		c.Wait = min(c.Wait, d.Sub(now))
		if longest := now.Add(cmp.Or(h.route.HandlerTimeout, cfg.HandlerTimeout)); longest.Before(d) {
			c.Inbound.Deadline = longest // no call takes longer than this
		}
	}
}

// pathOf returns the escaped path as received: a prefix that http.StripPrefix
// removed still distinguishes two routes.
func pathOf(r *http.Request) string {
	if path, _, _ := strings.Cut(r.RequestURI, "?"); strings.HasPrefix(path, "/") {
		return path
	}
	return r.URL.EscapedPath()
}

// mediaType returns a Content-Type in one spelling. The boundary of a
// multipart body is left out: it is in the body.
func mediaType(header string) string {
	if isPlainType(header) {
		return header
	}
	kind, params, err := mime.ParseMediaType(header)
	if err != nil {
		return header
	}
	delete(params, "boundary")
	return cmp.Or(mime.FormatMediaType(kind, params), header)
}

// isPlainType reports whether a Content-Type can have only one spelling. Most
// types are like application/json, and parsing them costs more than hashing
// them.
func isPlainType(header string) bool {
	for i := range len(header) {
		if c := header[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && strings.IndexByte("/+-.", c) < 0 {
			return false
		}
	}
	return true
}

// removeForm removes the files of a form that the handler parsed. net/http
// removes only the files of its own request, and the handler had a copy of the
// request.
func removeForm(r *http.Request) {
	if r.MultipartForm != nil {
		_ = r.MultipartForm.RemoveAll() // an error only leaves files behind
	}
}
