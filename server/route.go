package server

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/fanonce/fanonce/server/internal/record"
	"github.com/fanonce/fanonce/server/store"
)

// A Route declares how one handler is guarded.
type Route struct {
	// Effect is where the handler's effects go. Required.
	Effect Effect
	// Name labels the route's events and metrics, and the records of an Opaque
	// route. It is UTF-8 without NUL, at most [MaxNameBytes] long. Zero means
	// the pattern that the router matched, as ServeMux and chi note it, or "default".
	Name string
	// Wait replaces [Config.Wait]. Negative means that a duplicate does not wait.
	Wait time.Duration
	// Key reads the key of a request from its body or from a header of another name, or it maps the Idempotency-Key header,
	// as for old clients whose keys have spaces. It returns 1 to 255 bytes as [childkey.Parse] accepts them. It is called
	// with the request and its whole body before anything is claimed, and must change neither. Many requests may call
	// it at once.
	//
	// Key must return the same key for a request and for its retry. It may use only parts
	// that the caller sends again: nothing random, no time, and no number of the attempt.
	// The guard notices two mistakes. It calls Key twice for each request, and both texts must be the same. If the request
	// has an Idempotency-Key header with another key, Key is also called without that header: the same text once more
	// means that it ignores the key by which the caller knows the request. A panic, an empty text or one of these
	// mistakes is answered with 500 key-invalid and logged, and nothing runs.
	//
	// A mapped key is the key from there on: in [InboundKey], and for [Guard.LookupHandler]. So map only what Parse refuses.
	// The forward key of an undo is mapped as well: Key gets the Idempotency-Cancels header in the place of the other.
	// Undo and forward route therefore need the same Key.
	//
	// An error refuses the request with key-invalid (400), or with key-missing if it wraps [ErrNoKey]. A
	// [*StatusError] with a 4xx other than 408, 421, 425 and 429 sets the status and the detail. The error's text is
	// neither sent nor logged. nil reads the Idempotency-Key header.
	Key func(r *http.Request, body []byte) (string, error)
	// HandlerTimeout replaces [Config.HandlerTimeout] for the runs of this route. It may be longer. Zero means the guard's.
	// It is the only deadline of a run's ctx: [Guard.Handler] says why those around the guard do not count.
	HandlerTimeout time.Duration
	// KeyOptional lets requests without an Idempotency-Key through to the handler. They leave no record: each of them runs,
	// and their answers have no header of this package. A Keyed or Opaque handler gets them as they came, outside of a
	// run.
	//
	// A Transactional handler gets them in a transaction of its own, which ends as that of a run: committed below 400,
	// otherwise rolled back, and after a conflict the handler runs again. So the scope and the limits of bodies and
	// answers hold for these requests too. [Settle] works, [Fence] is 0, there is no key, and [Barrier] is ErrNoForwardKey.
	// If the answer to the COMMIT is lost the caller gets outcome-unknown, and nobody can find out.
	KeyOptional bool
	// RefuseUnknownMembers answers 400 to a JSON body with a member that the input's type
	// lacks. Clients notice a misspelt member by that; but a caller that is deployed before
	// this service cannot send a new member yet. It is for [HandleRoute] and for operations
	// in JSON; elsewhere it is a [*ConfigError]. False ignores such members.
	RefuseUnknownMembers bool
	// Stream is the policy for an answer that cannot be stored: of a handler that
	// flushes or hijacks, or of more than [Config.MaxResponseBytes]. Zero means
	// [StreamBuffer].
	Stream StreamPolicy
	// Fingerprint returns the bytes that represent the request body in the fingerprint. Method, path, query, media type
	// and content encoding are part of it, too. Another spelling of an escape, another order of the query's names and
	// the charset utf-8 make no other request.
	//
	// It is needed if the bytes of a retry differ although the meaning is the same, as
	// with multipart boundaries. It must not change body or read r.Body. An error refuses
	// the request as an error of Key does. nil: the bytes as received.
	Fingerprint func(r *http.Request, body []byte) ([]byte, error)
	// Redact returns the answer to store instead of the handler's. The first caller gets
	// the handler's answer, and retries get the redacted one. The status stays. Redact
	// must not change its argument. After an error or a panic the key is completed without
	// an answer: retries get response-gone. nil stores the handler's answer.
	Redact func(Response) (Response, error)
	// Render makes the answer to a retry of a run that settled with a [Reference]. It gets
	// the stored status and reference. r is the retry, whose body has been read. An error
	// is logged and answered with 503 store-unavailable, so that
	// the caller tries again. nil: such a retry gets response-gone.
	Render func(r *http.Request, status int, reference string) (Response, error)
	// OnCommitError answers a run whose COMMIT the store refused for a violated
	// constraint (SQLSTATE class 23): a deferred constraint is checked only there, and
	// statements of pgstore.Queue are sent with it.
	// Everything is rolled back before the call. The answer is stored, and every
	// retry gets it. ctx is the run's, without a transaction.
	//
	// It returns the answer, or a [*StatusError] as a typed handler does. The status
	// must be a 4xx that is stored ([Effect] says which). Any other result is logged
	// and answered with 500 transaction-failed; so is the refused COMMIT if
	// OnCommitError is nil. A panic goes on, as a handler's does. Only for
	// Transactional routes.
	OnCommitError func(ctx context.Context, refused *store.TxError) (Response, error)
	// Memo returns the reference by which [Route.Reconcile] finds a request in the
	// system that had the effect, such as an order's number. It is at most
	// [MaxMemoBytes] long, and is stored with the claim. The request's ctx carries
	// the parent key that the handler's ctx will carry. An error refuses the request
	// as one of Key does.
	//
	// nil on a route with Reconcile means the text of that parent key
	// ([childkey.FromContext] in the handler). Where [Config.Codec] is nil, people can
	// read it in the table. nil on any other route stores no memo.
	Memo func(r *http.Request, body []byte) ([]byte, error)
	// Reconcile finds out the outcome of a run that died or failed: only for Opaque routes with a Name. The next call
	// with the key asks it, and so does [Guard.Reconcile]. Until then the key is outcome-unknown. rec is the key's
	// record, with an opened Memo and without an answer. Its Fence grows each time that the key is run or moved. nil:
	// a person decides ([Guard.Resolve]).
	//
	// It must not have effects of its own. It may be called several times for
	// one record, and in rare cases at once. ctx ends after
	// [Config.HandlerTimeout]. After an error, a panic or [StillUnknown] it is
	// asked again later. That pause is as long as the record is old, from one
	// HandlerTimeout up to an hour.
	Reconcile func(ctx context.Context, rec store.Record) (Resolution, error)
}

// A StreamPolicy says what happens when a handler calls Flush or Hijack, and when its answer is too large to be stored.
//
// Hijack is refused unless the policy is [StreamTombstone]. It returns an error that matches [ErrNotStorable] and
// http.ErrNotSupported. The answer is 500 not-storable, and the run counts as failed. To refuse it before the handler
// has an effect, the guard removes the Upgrade header from the handler's request. A server may ignore that header
// (RFC 9110 section 7.8).
type StreamPolicy uint8

// The policies of [Route].Stream.
const (
	// StreamBuffer ignores Flush: the caller gets the whole answer after it is
	// recorded, and a retry gets it again. Handlers that flush, such as
	// httputil.ReverseProxy and handlers of server-sent events, need no change.
	//
	// An answer of more than [Config.MaxResponseBytes] is served to the first caller.
	// The key is recorded as finished, without an answer: a retry gets response-gone.
	// One of more than 16 times as much is not served. A Transactional run is rolled
	// back, and its answer is 500 not-storable. A Keyed or Opaque run completes: the
	// guard drops the rest of the answer, and the first caller gets response-gone too.
	// If its status is not stored, the first caller gets 500 not-storable.
	StreamBuffer StreamPolicy = iota
	// StreamRefuse answers a Flush, and an answer of more than
	// [Config.MaxResponseBytes], with 500 not-storable; no byte was sent. The run
	// counts as failed: Transactional rows are rolled back.
	StreamRefuse
	// StreamTombstone lets the bytes pass to the first caller and records that
	// the key is finished, without an answer: a retry gets response-gone. The
	// bytes leave before the outcome is recorded; if recording fails, the
	// connection is cut. An answer that is not flushed is treated as by
	// [StreamBuffer]. Not for Transactional routes.
	StreamTombstone
)

// Handler returns next guarded by g, for effects of the given class. It is
// Route(Route{Effect: effect}, next).
//
// A conflict of transactions rolls a [Transactional] run back, and next runs again in the same call, twice at most. Each
// run has a request and a ResponseWriter of its own, and shares the values of the request's ctx with the run before. So
// put the guard directly before the handler. What lies between them must be able to run twice in one request. A router
// that notes in the ctx how far it came, as chi does before a Mount, cannot. The folder examples/integrations/frameworks
// shows what to do.
//
// A panic of next settles the key as its effect class says. Then it goes on to a middleware around the guard, or to
// net/http, which cuts the connection.
//
// The ctx of next's request has the values of the caller's ctx, but neither its end nor its deadline. A client that hangs
// up does not stop next, and neither does a timeout around the guard: the client's retry would begin the work again. The
// ctx ends after the HandlerTimeout, when the lease is lost, or when [Guard.Shutdown] runs out of time; context.Cause is
// [ErrHandlerTimeout], [ErrLeaseLost] or [ErrShutdown]. After that next should return.
//
// No layer between the guard and next may answer while next goes on. http.TimeoutHandler does. After its 503 the key is
// settled and the ctx has ended, so that a statement in the run's transaction is refused. But an effect for which next does
// not use its ctx happens, and the next run of the key may be beside it. Set [Route].HandlerTimeout instead, or put such a
// layer around the guard, where it only bounds how long the client waits.
//
// The guard notices four layers that should be around it, and logs each once for a route: http.TimeoutHandler, one that
// recovers when the answer has begun, one that compresses, and one that sets the headers of CORS. It replays an answer with
// Content-Encoding gzip without that encoding to a client that does not accept gzip. Other encodings are replayed as they
// are.
func (g *Guard) Handler(effect Effect, next http.Handler) (http.Handler, error) {
	return g.Route(Route{Effect: effect}, next)
}

// CanonicalJSON returns a [Route.Fingerprint] for bodies whose bytes differ between
// retries though they are the same JSON value. It uses the canonical form of RFC 8785.
// The top-level members named in ignore, such as a client's timestamp, are left out: a
// retry that differs in them gets the first answer.
//
// A body without a canonical form counts byte for byte. Such a body is not JSON in UTF-8,
// or repeats a member name, or has a number that a double cannot hold. Otherwise two
// different amounts could look the same.
func CanonicalJSON(ignore ...string) func(*http.Request, []byte) ([]byte, error) {
	ignore = slices.Clone(ignore)
	return func(_ *http.Request, body []byte) ([]byte, error) {
		if canonical, ok := record.CanonicalJSON(body, ignore); ok {
			return append([]byte("jcs:"), canonical...), nil
		}
		return append([]byte("raw:"), body...), nil
	}
}
