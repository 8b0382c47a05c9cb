package retry

import (
	"time"

	"github.com/fanonce/fanonce/childkey"
)

// A Task names a call that [Do] makes.
type Task struct {
	// Service and Operation name the callee in errors and events, and Service
	// its retry budget. Both may be empty.
	Service, Operation string
	// Key is the call's idempotency key. The zero Key makes the call un-keyed. Then it
	// gets a second attempt in two cases only. Either nothing was sent, or the attempt was
	// Rejected with the action Retry.
	Key childkey.Key
	// Resumed says that an earlier process may have made the call: it starts as Unknown. A
	// ctx with the rerun of an inbound request ([wire.Inbound.Rerun]) says so too.
	Resumed bool
	// Expires is when the callee may have forgotten the key, by this process's clock:
	// no attempt begins then, and the call ends with [ErrKeyExpired]. Zero: never.
	Expires time.Time
}

// An Attempt is what one attempt may tell the callee.
type Attempt struct {
	Number    int           // counts from 1
	Allowance int           // retries that the callee may cause below
	Timeout   time.Duration // what is left for this attempt; 0: no limit of the client's
}
