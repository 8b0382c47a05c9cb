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
)

// guarded is a route's http.Handler. It translates between HTTP and the
// engine, and decides nothing.
type guarded struct {
	guard *Guard
	route Route
	next  http.Handler
}

// ServeHTTP implements http.Handler.
func (h *guarded) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !h.guard.guardsMethod(r.Method) || h.keyless(r) {
		h.next.ServeHTTP(w, r)
		return
	}
	expose(w, r)
	route := h.named(r)
	c := &call{route: route}
	in := h.guard.newIntake(w, r)
	defer in.release()
	form, post, multi := r.Form, r.PostForm, r.MultipartForm
	body, refusal := h.admit(in, r, c)
	// A function of the route may have parsed the form, of a request without a body.
	r.Form, r.PostForm, r.MultipartForm = form, post, multi
	if refusal != nil {
		in.abandon(refusal)
		h.refuse(w, r, c, *refusal)
		return
	}
	var rec *recorder
	c.work = func(ctx context.Context) result {
		rec = newRecorder(w, route, &h.guard.cfg)
		turn := withBody(r.Clone(ctx), body)
		if route.Stream != StreamTombstone {
			turn.Header.Del("Upgrade") // a refused Hijack would come after the effect
		}
		defer removeForm(turn)
		h.next.ServeHTTP(rec, turn)
		return rec.finish(h.guard.headers, turnFrom(ctx).told(), h.redactor(c))
	}
	if route.OnCommitError != nil {
		c.onCommitError = func(ctx context.Context, refused *TxError) (res result, err error) {
			rec, res, err = h.amend(ctx, w, r, c, refused)
			return res, err
		}
	}
	out := h.guard.do(r.Context(), c)
	h.respond(w, r, c, rec, out)
}

// named returns the route with a name: it may serve several patterns of a mux.
func (h *guarded) named(r *http.Request) *Route {
	if h.route.Name != "" {
		return &h.route
	}
	route := h.route
	route.Name = cmp.Or(r.Pattern, "default")
	return &route
}

// keyless reports whether the request goes without a guard because it has no
// key and needs none.
func (h *guarded) keyless(r *http.Request) bool {
	return h.route.KeyOptional && len(r.Header.Values(wire.HeaderKey)) == 0
}

// admit checks a request, in an order that callers rely on, and completes the call.
// Nothing is stored for a request that it refuses.
func (h *guarded) admit(in *intake, r *http.Request, c *call) ([]byte, *outcome) {
	g := h.guard
	scope, refusal := g.scopeOf(r)
	if refusal != nil {
		return nil, refusal
	}
	if h.route.Key == nil {
		if refusal := h.readKeys(r, nil, scope, c); refusal != nil {
			return nil, refusal
		}
	}
	body, refusal := in.read(scope)
	if refusal != nil {
		return nil, refusal
	}
	c.bytes = int64(len(body))
	if h.route.Key != nil {
		if refusal := h.readKeys(r, body, scope, c); refusal != nil {
			return nil, refusal
		}
	}
	var err error
	if c.firstSent, err = g.firstSent(r, c.key); err != nil {
		return nil, &outcome{code: wire.FirstSentInvalid, err: err}
	}
	c.subject = subject{
		scope: scope, namespace: g.cfg.Namespace, key: c.key.String(),
		method: r.Method, path: pathOf(r), query: r.URL.RawQuery,
		mediaType: mediaType(r.Header.Get("Content-Type")), encoding: strings.Join(r.Header.Values("Content-Encoding"), ","),
		cancels: c.forward.String(), body: body,
	}
	if c.route.Fingerprint != nil {
		if c.subject.body, err = c.route.Fingerprint(r, body); err != nil {
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

// identify names the keys of a call whose subject is there, as the store knows
// them. A request's own ID is there already.
func (g *Guard) identify(c *call) {
	c.fingerprints = &g.fingerprints
	c.fingerprint, _ = g.fingerprints.of(&c.subject, g.fingerprints.current) // it has that one
	if c.id == (ID{}) {
		c.id = lookupID(c.subject.scope, c.subject.namespace, c.key)
	}
	c.hop = c.subject.hopKey(c.key)
	if !c.forward.IsZero() {
		c.forwardID = lookupID(c.subject.scope, c.subject.namespace, c.forward)
		c.forwardHop = c.subject.hopKey(c.forward)
	}
}

var (
	errFingerprint = errors.New("server: the request has no fingerprint")
	errMemo        = errors.New("server: the request has no memo")
	errKeyPolicy   = errors.New("server: refused by the key policy")
	errShortKey    = errors.New("server: key shorter than MinKeyBytes")
	errBadForward  = errors.New("server: malformed forward key")
	errSelfUndo    = errors.New("server: the forward key is the request's own key")
)

// readKeys reads the request's key and, of an undo, the forward key. body is there if
// the route has a Key of its own.
func (h *guarded) readKeys(r *http.Request, body []byte, scope string, c *call) (refusal *outcome) {
	if h.route.Key != nil {
		c.key, refusal = h.keyOf(r, body)
	} else {
		c.key, refusal = keyInHeader(r)
	}
	if refusal != nil {
		return refusal
	}
	c.id = lookupID(scope, h.guard.cfg.Namespace, c.key)
	err := h.checkKey(c.key)
	if err == nil {
		err = h.readForward(r, c)
	}
	if err != nil {
		return &outcome{code: wire.KeyInvalid, err: err}
	}
	return nil
}

func keyInHeader(r *http.Request) (childkey.Key, *outcome) {
	key, present, err := wire.ParseKeyHeader(r.Header.Values(wire.HeaderKey))
	switch {
	case err != nil:
		return key, &outcome{code: wire.KeyInvalid, err: err}
	case !present:
		return key, &outcome{code: wire.KeyMissing}
	}
	return key, nil
}

var errFuture = errors.New("server: first sent in the future")

func (g *Guard) firstSent(r *http.Request, key childkey.Key) (time.Time, error) {
	t, present, err := wire.ParseFirstSent(r.Header.Values(wire.HeaderFirstSent))
	if !present && g.cfg.FirstSentFromKey {
		t, _ = key.V7Time()
	}
	if err == nil && time.Until(t) > g.cfg.Skew {
		err = errFuture
	}
	return t, err
}

// readWishes reads what the caller wants and says, none of which can be wrong.
func (h *guarded) readWishes(r *http.Request, c *call) {
	cfg := &h.guard.cfg
	c.wait = cmp.Or(h.route.Wait, cfg.Wait)
	if wait, ok := wire.ParsePreferWait(r.Header.Values(wire.HeaderPrefer)); ok {
		c.wait = min(wait, cfg.WaitCap)
	}
	c.inbound = wire.Inbound{
		Attempt:   wire.ParseRetryAttempt(r.Header.Values(wire.HeaderRetryAttempt)),
		Allowance: wire.ParseRetryAllowance(r.Header.Values(wire.HeaderRetryAllowance)),
	}
	if timeout, ok := wire.ParseRequestTimeout(r.Header.Values(wire.HeaderRequestTimeout)); ok {
		c.inbound.Deadline = time.Now().Add(min(timeout, cfg.HandlerTimeout)) // no call is made for longer
		c.wait = min(c.wait, timeout)
	}
}

// pathOf returns the escaped path as received: what http.StripPrefix took away
// still tells two routes apart.
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

// isPlainType reports whether a Content-Type has one spelling only: most are like
// application/json, and parsing costs more than hashing them.
func isPlainType(header string) bool {
	for i := range len(header) {
		if c := header[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && strings.IndexByte("/+-.", c) < 0 {
			return false
		}
	}
	return true
}

// removeForm removes the files of a form that the handler parsed: net/http
// removes only those of its own request, and the handler had a copy.
func removeForm(r *http.Request) {
	if r.MultipartForm != nil {
		_ = r.MultipartForm.RemoveAll() // left-over files are all that can go wrong
	}
}
