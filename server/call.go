package server

import (
	"context"
	"time"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/wire"
)

// A call is one request to the engine, whatever it came in over. It belongs to
// one goroutine.
type call struct {
	route       *Route
	id          ID
	key         childkey.Key // as it arrived
	hop         childkey.Key // the parent key of the run's own calls
	forward     childkey.Key // of an undo, as it arrived; else zero
	forwardID   ID
	forwardHop  childkey.Key // the hop key that the forward run had
	token       Token        // once the store is to be asked
	subject     subject
	fingerprint Fingerprint // of subject, of the version that new claims have
	// fingerprints makes those of other versions.
	fingerprints *fingerprinter
	memo         []byte // sealed
	firstSent    time.Time
	inbound      wire.Inbound
	wait         time.Duration // for somebody else's run
	bytes        int64         // of the body, which is in memory while the call waits
	// work runs the handler once. It may be called again after a conflict, and
	// then starts from the beginning.
	work func(ctx context.Context) result
	// onCommitError makes the answer of a run whose COMMIT was refused. It replaces
	// the answer that work made. nil: the run is answered with transaction-failed.
	onCommitError func(ctx context.Context, refused *TxError) (result, error)
}

// A result is what one execution of the handler came to.
type result struct {
	answer Answer
	// unfit means that the answer can be neither stored nor served: the
	// handler streamed where that is refused, or its status is invalid.
	unfit bool
	// needsRows means that the answer is true only with the rows of the
	// transaction, whatever its status.
	needsRows bool
	// dropped means that the body is larger than [Config.MaxServedBytes]: nobody
	// can get it any more.
	dropped bool
}

// An outcome is what the engine answers a call. Exactly one holds: it
// was refused (code), it is a replay, or it ran and the adapter serves what its own
// handler just made.
type outcome struct {
	code       wire.Code
	retryAfter time.Duration
	err        error

	// Of a refusal: each is for one of which the code alone says too little.
	status    int    // 0: the code's
	detail    string // "": the code's
	retryable bool   // a retry can help, whatever the code says
	broken    bool   // a function of the service failed, which is for its authors to mend

	replay *Answer

	ran   bool
	again bool // a retry of what ran can run again
	asked bool // the store was asked: the key was honoured
	// waited is set if the call waited for somebody else's run.
	waited bool
}

func (c *call) claim(g *Guard) ClaimRequest {
	return ClaimRequest{
		ID:          c.id,
		Token:       c.token,
		Fingerprint: c.fingerprint,
		Effect:      c.route.Effect,
		Lease:       g.cfg.Lease,
		Keep:        g.cfg.AuditRetention,
		FirstSent:   c.firstSent,
		// Also where this request says no time: the first claim may have.
		Window: g.cfg.window(),
		Route:  g.storedRoute(c.route.Name),
		Memo:   c.memo,
		Repeat: c.repeats(g.cfg.Lease),
	}
}

// repeatAge is how old a request must be to be taken for a retry, where its caller
// does not count attempts.
const repeatAge = time.Second

// repeats guesses whether the key has been claimed before. Who says that this is
// the first attempt is believed while its lease would last: a call can be young though
// the request that it is made for is not. Past it, an earlier process of the caller may
// have gone as far.
func (c *call) repeats(lease time.Duration) bool {
	switch age := time.Since(c.firstSent); {
	case c.inbound.Attempt > 1:
		return true
	case c.firstSent.IsZero():
		return false
	case c.inbound.Attempt == 1:
		return age > lease
	default:
		return age > repeatAge
	}
}

// owns reports whether an earlier request of this call, whose answer was lost,
// made it the owner.
func (c *call) owns(rec *Record) bool {
	return rec.State == StateInProgress && rec.Token == c.token
}
