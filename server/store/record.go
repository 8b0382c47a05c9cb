package store

import "time"

// A Token is the random nonce of one owner. By its token a claim or completion
// that is repeated after a lost answer finds its own record.
type Token [16]byte

// A Fingerprint is the digest of the request that a key was first used with.
// Records are compared only with fingerprints of their own version.
type Fingerprint struct {
	Version uint8 // of the algorithm; 0 only in the zero Fingerprint of a tombstone
	Sum     [32]byte
}

// A State is the state of a key. The absence of a record is a state too.
type State uint8

const (
	// StateInProgress means that an owner holds the key until LeaseUntil. Past
	// it the owner is dead, even if no call has noticed it yet.
	StateInProgress State = iota + 1
	// StateCompleted means that the outcome is recorded and final.
	StateCompleted
	// StateReleased means that a run ended without a final outcome; the next
	// call runs.
	StateReleased
	// StateUnknown means that an Opaque run died or failed, and its effect is
	// unknown. Only an operator, a reconciler or a cancel moves it on.
	StateUnknown
	// StateQuarantined means that too many owners died; the key is quarantined.
	StateQuarantined
	// StateCancelled is a tombstone: the key will never run (again).
	StateCancelled
)

var stateNames = map[State]string{
	StateInProgress: "in_progress", StateCompleted: "completed", StateReleased: "released",
	StateUnknown: "unknown", StateQuarantined: "quarantined", StateCancelled: "cancelled",
}

// String returns the name of the state, as server.Guard.LookupHandler shows it.
func (s State) String() string {
	if name, ok := stateNames[s]; ok {
		return name
	}
	return "none"
}

// A Record is a store's data about one key. All times are by the store's clock;
// compare them with Now, never with this process's clock.
type Record struct {
	ID          ID
	State       State
	Effect      Effect      // of the latest claim; 0 in a tombstone of a key that was never claimed
	Fingerprint Fingerprint // of the first claim whose run may have had effects; zero if there was none
	Token       Token       // of the latest owner
	Fence       int64       // 1 for the first owner, grows with each further owner and with a cancel
	// Parent is the caller's record, as the first claim named it: in another store, mostly.
	// It is for people who look for the calls of one request. It never changes, and decides
	// nothing: the caller may have sent any value. Zero means none.
	Parent           ID
	RecoveryAttempts int // owners whose lease ended before they settled
	// FailedAttempts is how many runs ended without an outcome because the work itself failed. A completed record has
	// none, and a person's decision forgets them.
	FailedAttempts int
	// MaybeRan reports that some run that was not Transactional died or failed
	// with effects that may have happened. Once set it stays.
	MaybeRan bool

	Now         time.Time // the store's clock as it read this record
	CreatedAt   time.Time // of the first claim
	FirstSent   time.Time // that the first claim carried; zero if none
	LeaseUntil  time.Time
	ExpiresAt   time.Time // the record is swept after it, if it is final
	ReplayUntil time.Time // of a completed record: past it retries do not get the answer

	Answer Answer // of a completed record
	// AnswerUntil is how long the answer's envelope is there; zero: as long as
	// the record. Past it the record has no envelope, whether it was already
	// dropped or not.
	AnswerUntil time.Time

	// Asynchronous says that Claim returned before the record was durable: see [ClaimRequest]. It is false
	// in the record of every other method.
	Asynchronous bool

	// Route and Memo are those of the latest claim, if that was Opaque: records
	// of other classes do not store these bytes. A quarantine sets the Route of
	// any record. A store may be configured to keep the Route of every claim.
	Route string
	Memo  []byte
}

// Public returns r without its envelope, memo, fingerprint and token. It is the form in which a [Reader] shows a record
// to people: nobody can act as the owner with it, or guess a body from it.
func (r Record) Public() Record {
	r.Answer.Envelope, r.Memo, r.Fingerprint, r.Token = nil, nil, Fingerprint{}, Token{}
	return r
}

// An Answer is a final outcome in its stored form.
type Answer struct {
	Status int
	// Envelope is the answer's headers and body, encoded by the guard; a store
	// does not look inside. nil: finished, but the answer cannot be replayed.
	Envelope []byte
}

// LeaseLeft returns how long the owner of an in-progress record still has;
// zero or less if it is dead.
func (r *Record) LeaseLeft() time.Duration { return r.LeaseUntil.Sub(r.Now) }
