package server

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/fanonce/fanonce/childkey"
)

// A Route declares how one handler is guarded.
type Route struct {
	// Effect is where the handler's effects go. Required.
	Effect Effect
	// Name labels the route's events and metrics, and the records of an Opaque
	// one: UTF-8 without NUL, at most [MaxNameBytes]. Zero means the pattern
	// that http.ServeMux matched, or "default".
	Name string
	// Wait replaces [Config.Wait]. Negative means not at all.
	Wait time.Duration
	// Key reads the key of a request from its body, or from a header of another
	// name: 1 to 255 bytes as [childkey.Parse] accepts them. It is called with the
	// request and its whole body before anything is claimed, and must change
	// neither. Many requests may call it at once.
	//
	// Key must name the same key for a request and for its retry: only what the
	// caller sends again may go into it, and nothing random, no time and no
	// attempt's number. Two ways to break this rule are found out. Key is called
	// twice for each request, and must return the same text both times. A request
	// that has an Idempotency-Key header too must have the same key there. A panic,
	// an empty text or another key is answered with 500 key-invalid and logged, and
	// nothing runs.
	//
	// An error refuses the request with key-invalid (400), or with key-missing if it
	// wraps [ErrNoKey]. A [*StatusError] with another 4xx than 408, 421, 425 and 429
	// says the status and the detail. The error's text is neither sent nor logged.
	// nil reads the Idempotency-Key header.
	Key func(r *http.Request, body []byte) (string, error)
	// KeyPolicy refuses keys as [Config.KeyPolicy] does, beside it, on this
	// route: for keys of a fixed alphabet or of a least length. nil accepts all.
	KeyPolicy func(childkey.Key) error
	// KeyOptional lets requests without a key through to the handler,
	// unguarded and unmarked. Not for Transactional routes: without a claim
	// there is no transaction.
	KeyOptional bool
	// InProgressStatus is the status of an in-progress refusal:
	// http.StatusConflict, or http.StatusServiceUnavailable for callers whose
	// clients retry a 503 and take a 409 for final. The code is in-progress either
	// way. Zero means http.StatusConflict.
	InProgressStatus int
	// Stream says what happens when the handler flushes or hijacks. Zero means
	// [StreamBuffer].
	Stream StreamPolicy
	// Oversize says what happens to an answer of more than
	// [Config.MaxResponseBytes]. Zero means [OversizeTombstone].
	Oversize OversizePolicy
	// Fingerprint replaces the request body in the fingerprint with what it
	// returns: needed where the bytes of a retry differ although it means the
	// same, as multipart boundaries do. It must not change body or read
	// r.Body. An error refuses the request as one of Key does: before anything
	// is stored. nil: the bytes as received.
	Fingerprint func(r *http.Request, body []byte) ([]byte, error)
	// Redact replaces an answer where it is stored; the first caller gets it as
	// the handler made it, retries get what Redact returned. The status stays.
	// It must not change what it is given. An error or a panic stores nothing:
	// retries get response-gone, and nothing runs again. nil: stored as it is.
	Redact func(Response) (Response, error)
	// Render makes the answer to a retry of a run that called [NoStore], from
	// the status and the reference that were stored; r is the retry, its body
	// read. An error is logged and answered with 503 store-unavailable, so that
	// the caller tries again. nil: such a retry gets response-gone.
	Render func(r *http.Request, status int, reference string) (Response, error)
	// OnCommitError answers a run whose COMMIT the store refused for a violated
	// constraint (SQLSTATE class 23): a deferred constraint is checked only there.
	// Everything is rolled back before the call. The answer is stored, and every
	// retry gets it. ctx is the run's, without a transaction.
	//
	// It returns the answer, or a [*StatusError] as a typed handler does. The status
	// must be a 4xx that is stored ([Effect] says which). Any other result is logged
	// and answered with 500 transaction-failed; so is the refused COMMIT if
	// OnCommitError is nil. A panic goes on, as a handler's does. Only for
	// Transactional routes.
	OnCommitError func(ctx context.Context, refused *TxError) (Response, error)
	// Memo says what [Route.Reconcile] will need to look a request up in the
	// system that it had its effect in, such as an order's number: at most
	// [MaxMemoBytes], stored with the claim. [MemoKey] is the usual one. The
	// request's ctx carries the parent key that the handler's ctx will carry. An
	// error refuses the request as one of Key does.
	Memo func(r *http.Request, body []byte) ([]byte, error)
	// Reconcile looks into a run that died or failed, and says what became of
	// it: only for Opaque routes, with a Name and a Memo. The next call with
	// the key asks it, and so does [Guard.Reconcile]; until then the key is
	// outcome-unknown. nil: a person does ([Guard.Resolve]).
	//
	// It must not have effects of its own. It may be called several times for
	// one matter, though seldom at once; ctx ends after
	// [Config.HandlerTimeout]. After an error, a panic or [StillUnknown] it is
	// asked again later: after as long again as the matter is old, from one
	// HandlerTimeout up to an hour.
	Reconcile func(ctx context.Context, c Case) (Judgement, error)
}

// A StreamPolicy says what happens when a handler calls Flush or Hijack.
//
// Hijack is refused unless the policy is [StreamTombstone]: it returns an error
// that matches [ErrNotStorable] and http.ErrNotSupported, the answer is 500
// not-storable, and the run counts as failed. To refuse it before the handler has an
// effect, the guard removes the Upgrade header from the handler's request. A server
// may ignore that header (RFC 9110 section 7.8).
type StreamPolicy uint8

// The policies of [Route].Stream.
const (
	// StreamBuffer ignores Flush: the caller gets the whole answer after it is
	// recorded, and a retry gets it again. Handlers that flush need no change,
	// such as httputil.ReverseProxy and handlers of server-sent events.
	StreamBuffer StreamPolicy = iota
	// StreamRefuse answers a Flush with 500 not-storable; no byte was sent. The
	// run counts as failed.
	StreamRefuse
	// StreamTombstone lets the bytes pass to the first caller and records that
	// the key is finished, without an answer: a retry gets response-gone. The
	// bytes leave before the outcome is recorded; if recording fails, the
	// connection is cut. Not for Transactional routes.
	StreamTombstone
)

// An OversizePolicy says what happens to an answer too large to be stored.
type OversizePolicy uint8

const (
	// OversizeTombstone serves the answer to the first caller and records that
	// the key is finished, without an answer: a retry gets response-gone.
	//
	// An answer of more than [Config.MaxServedBytes] is not served. A
	// Transactional run is rolled back, and its answer is 500 not-storable. A
	// Keyed or Opaque run completes: the guard drops the rest of the answer,
	// and the first caller gets response-gone too. If its status is not stored,
	// the first caller gets 500 not-storable.
	OversizeTombstone OversizePolicy = iota
	// OversizeRefuse answers 500 not-storable. The run counts as failed:
	// Transactional rows are rolled back.
	OversizeRefuse
)

// Handler returns next guarded by g, for effects of the given class. It is
// Route(Route{Effect: effect}, next).
//
// A panic of next settles the key as its effect class says, and goes on: to a middleware
// of yours around the guard, or to net/http, which cuts the connection.
func (g *Guard) Handler(effect Effect, next http.Handler) (http.Handler, error) {
	return g.Route(Route{Effect: effect}, next)
}

// storedRoute returns the name of one of g's routes as records have it: behind the
// namespace and a colon. A reconciler of another namespace, over the same store, must
// not be asked about it, though its route has the same name. A name that needs no
// telling apart is stored as it is.
func (g *Guard) storedRoute(name string) string {
	if name == "" || g.cfg.Namespace == "" && !strings.Contains(name, ":") {
		return name
	}
	return g.cfg.Namespace + ":" + name
}

// ownRoute returns the name of one of g's routes from how a record has it; false if the
// record is another guard's. No namespace has a colon.
func (g *Guard) ownRoute(stored string) (name string, own bool) {
	namespace, name, apart := strings.Cut(stored, ":")
	if !apart {
		return stored, g.cfg.Namespace == ""
	}
	return name, g.cfg.Namespace == namespace
}

// shownRoute returns a record's route for people: the name alone for one of g's own.
func (g *Guard) shownRoute(stored string) string {
	if name, own := g.ownRoute(stored); own {
		return name
	}
	return stored
}
