package engine

import (
	"context"
	"errors"
	"time"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server/internal/record"
	"github.com/fanonce/fanonce/server/store"
)

// A Route is the part of a route that the engine needs.
type Route struct {
	Name   string
	Effect store.Effect
	// HandlerTimeout bounds a run; 0: as long as Config says.
	HandlerTimeout time.Duration
	// Reconcile finds out the unknown outcome of an Opaque run. Its panic counts as an error. nil: only a person
	// decides.
	Reconcile Reconcile
}

// A Call is one request to the engine, from any adapter. It belongs to one
// goroutine.
type Call struct {
	Route      Route
	ID         store.ID
	Key        childkey.Key // as it arrived; zero: a Transactional run without a claim
	Hop        childkey.Key // the parent key of the run's own calls
	Forward    childkey.Key // of an undo, as it arrived; otherwise zero
	ForwardID  store.ID
	ForwardHop childkey.Key // the hop key that the forward run had
	// Token becomes the owner's. Zero: the engine chooses one. A sealed memo needs it
	// before the claim.
	Token       store.Token
	Subject     record.Subject
	Fingerprint store.Fingerprint // of Subject, of the version that new claims have
	Memo        []byte            // sealed
	// Unclaimable is why the call must not claim its key: it is answered from the record that is there, or refused with
	// not-claimed. nil: it may claim.
	Unclaimable error
	FirstSent   time.Time
	Inbound     wire.Inbound
	Wait        time.Duration // for another call's run
	Bytes       int64         // of the body, which is in memory while the call waits
	// CountsAttempts means that each death of a run counts: a claim must not be forgotten.
	CountsAttempts bool
	// CanRender means that the adapter can make an answer from a stored reference.
	CanRender bool
	// Work runs the handler once. It may be called again after a conflict, and
	// then starts from the beginning.
	Work func(ctx context.Context) Result
	// OnCommitError makes the answer of a run whose COMMIT was refused. It replaces
	// the answer that Work made. nil: the run is answered with transaction-failed.
	OnCommitError func(ctx context.Context, refused *store.TxError) (Result, error)

	doubtful *doubtfulClaim // the latest claim whose fate is unknown; nil: the key is the call's, or nothing was claimed
}

// A doubtfulClaim may have been made, or may still be made, although its call had no answer.
type doubtfulClaim struct {
	req  store.ClaimRequest
	from int64 // the fence that it was to take the key over from; 0 for an absent key
}

// doubt notes a claim that the store answered with err, if its fate is unknown.
func (c *Call) doubt(err error, req store.ClaimRequest, from int64) {
	if errors.Is(err, store.ErrFateUnknown) {
		c.doubtful = &doubtfulClaim{req, from}
	}
}

// A Disposition says what the engine does with an attempt's answer.
type Disposition uint8

// The dispositions.
const (
	Store   Disposition = iota + 1 // the answer is stored, and every further call gets it
	Release                        // the run had no effect that counts: the next call runs
	Fail                           // as the effect class says
	rerun                          // the handler asked for another run
)

// A Result is the result of one execution of the handler.
type Result struct {
	Answer      store.Answer
	Disposition Disposition // by the answer alone; the handler's own Settling overrides it
	// Unfit means that the answer can be neither stored nor served: the handler
	// streamed although the route refuses that, or its status is invalid.
	Unfit bool
	// Dropped means that the body was too large to keep in memory: nobody can get it
	// any more.
	Dropped bool
}

// An Outcome is the engine's answer to a call. Exactly one holds: it
// was refused (Code), it is a replay, or it ran and the adapter serves the answer that its
// own handler just made.
type Outcome struct {
	Code       wire.Code
	RetryAfter time.Duration
	Err        error
	Detail     string // of a refusal; "": the code's
	Retryable  bool   // a retry can help, whatever the code says
	Status     int    // of a refusal by an adapter; 0: the code's
	Broken     bool   // a function of the service failed: its authors must correct it

	Replay *store.Answer
	Trace  string // of the run whose answer is repeated; "": none

	Ran      bool
	Recorded bool // the run's answer is stored
	Failed   bool // the handler failed
	Again    bool // a retry of the run can run again
	Asked    bool // the store was asked: the key was honoured
	Waited   bool // the call waited for another call's run
}

func (c *Call) claim(e *Engine) store.ClaimRequest {
	return store.ClaimRequest{
		ID:          c.ID,
		Token:       c.Token,
		Fingerprint: c.Fingerprint,
		Effect:      c.Route.Effect,
		Lease:       e.cfg.Lease,
		Keep:        e.cfg.Keep,
		FirstSent:   c.FirstSent,
		Parent:      c.Inbound.Parent,
		// This holds also for a request without a first-sent time: the first claim may have had one.
		Window: e.cfg.Window,
		Route:  e.StoredRoute(c.Route.Name),
		Memo:   c.Memo,
	}
}

// repeatAge is the age at which a request counts as a retry if its caller does
// not count attempts.
const repeatAge = time.Second

// mayRepeat guesses whether the key has been claimed before: then the store is asked for
// the record first. Only the claim decides. A wrong guess costs one statement more.
//
// A call marked as a first attempt counts as one for the length of a lease: a call can be young although the request
// that it is made for is old. After that time an earlier process of the caller may have claimed the key.
func (c *Call) mayRepeat(lease time.Duration) bool {
	switch age := time.Since(c.FirstSent); {
	case c.Inbound.Attempt > 1:
		return true
	case c.FirstSent.IsZero():
		return false
	case c.Inbound.Attempt == 1:
		return age > lease
	default:
		return age > repeatAge
	}
}

// isOwner reports whether an earlier request of this call, whose answer was lost,
// made it the owner.
func (c *Call) isOwner(rec *store.Record) bool {
	return rec.State == store.StateInProgress && rec.Token == c.Token
}

// fingerprintFor returns the call's fingerprint to compare with that of rec: of
// rec's version, if there is a secret for it.
func (e *Engine) fingerprintFor(c *Call, rec *store.Record) store.Fingerprint {
	version := rec.Fingerprint.Version
	if version == c.Fingerprint.Version {
		return c.Fingerprint
	}
	if fp, ok := e.cfg.Fingerprints.Of(&c.Subject, version); ok {
		return fp
	}
	return c.Fingerprint // of another version: record-unreadable
}
