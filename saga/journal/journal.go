package journal

import (
	"context"
	"time"
)

// A Journal remembers sagas and the engines that execute them.
//
// Its methods are atomic, and safe for concurrent use by many processes. Each is one short
// transaction of its own. The transaction is durable when the method returns nil. No method
// holds a resource between calls. The journal's own clock decides every lease, wake-up and
// retention. sagatest.TestJournal checks all of it.
//
// A write whose ctx ends before its fate is known returns [ErrFateUnknown]. The journal does
// not cancel such a write.
type Journal interface {
	OperatorJournal

	// Plan stores the plan under its name and version if there is none, and
	// returns the plan that is stored.
	Plan(ctx context.Context, plan PlanRecord) (PlanRecord, error)

	// Heartbeat gives the engine a lease of that length from now, or extends the
	// lease that it has. It is one statement for all sagas of the engine. It returns
	// [ErrLeaseLost] if the engine's lease has ended: that lease does not come back. If the
	// journal's clock has gone back, no lease of another engine lasts for longer from now than that
	// engine asked for.
	Heartbeat(ctx context.Context, engine EngineID, lease time.Duration) error

	// Leave ends the engine's lease, for good. Its sagas are unowned at once,
	// and do not count it as a death. The lease may have ended already, and others may have
	// claimed sagas of the engine since. Those sagas stop to count the death when they are
	// claimed next.
	Leave(ctx context.Context, engine EngineID) error

	// Start stores a new saga: Running, Revision 1. If the request names an engine,
	// Fence is 1 and FirstClaimedAt is now; else both are zero, and WakeAt is req.At, or now if that is later.
	//
	// If there is a saga with its ID, Start returns that saga and false. It returns true
	// again to the engine that started the saga, if nothing else was written since: that
	// engine has lost the answer.
	Start(ctx context.Context, req StartRequest) (Record, bool, error)

	// Append writes w to the owner's saga, all of it or nothing. It
	// returns [ErrLeaseLost] unless the saga is Running or Compensating, at the
	// owner's fence and engine, and one revision before w's, wakes not counted. A write that is
	// repeated at its own revision returns nil again, also where it made the
	// saga final or gave the saga up. An owner whose lease ran out still owns the saga until
	// an engine takes it over. An engine's ctx does not end before the answer:
	// to close the journal must end the calls that wait.
	Append(ctx context.Context, o Owner, w Write) error

	// Claim makes the engine the owner of at most req.Limit unowned sagas, and returns them. An
	// unowned saga is Running or Compensating and of one of req.Plans. It is without an engine
	// and past its WakeAt, or the lease of its engine has ended. If the journal's clock has gone
	// back behind the time at which its owner gave it up, it counts as past its WakeAt.
	//
	// The plans share req.Limit fairly. The saga of each plan that has been unowned
	// longest comes first, then the second of each plan, and so on. At most req.PerPlan
	// sagas are of one plan.
	//
	// The fence and the revision of each grow by one. Its WakeAt becomes zero. Its
	// RecoveryAttempts becomes the number of engines whose lease ended under it since its last
	// progress. Engines that called Leave, before or after, do not count. Claim returns the Clean from before the claim.
	// After the claim Clean is false.
	//
	// After the second death under a saga Claim passes it over for some time. The time counts
	// from the end of its last engine's lease. It is at least req.Backoff and at most twice
	// that. Each further death doubles both bounds, up to 16 times req.Backoff and twice
	// that. The part above the least depends on the saga's ID: sagas whose engine died
	// together do not come back together.
	//
	// Each unowned saga goes to one of several concurrent claims. No claim waits for another
	// one, nor for a write: a saga that is being written may be passed over. A deferred saga is
	// claimed only if its plan is among req.Deferred. Then it is not deferred any more, and not
	// Clean. Claim returns [ErrLeaseLost] if the engine itself has no lease.
	Claim(ctx context.Context, req ClaimRequest) ([]Record, error)

	// Read returns the saga, or [ErrNotFound].
	Read(ctx context.Context, id ID) (Record, error)

	// ReadOutlines returns those of the sagas that are there, each once and in any order. Their
	// fields are those that a waiting caller needs: ID, Name, Version, Plan, Status, Engine, Fence,
	// Revision, Wakes and Times. The others may be missing. Without any ids it returns none. A
	// status that is final or stuck may not be confirmed yet: the caller must Read the saga.
	ReadOutlines(ctx context.Context, ids []ID) ([]Record, error)

	// List returns at most req.Limit sagas that an engine looks after, by CreatedAt and then ID, without
	// Input and results. The lists for people are in the [Reader].
	List(ctx context.Context, req ListRequest) ([]Record, error)

	// EndWait ends the wait of the owner's saga for a signal, unless it has one of that name, and returns the signal that it
	// has then: with a nil Value if the wait has ended, by this call or an earlier one. So a value and the end of a wait
	// never both take effect, whoever is late. It returns [ErrLeaseLost] unless the saga is Running, at the owner's
	// fence and engine.
	EndWait(ctx context.Context, o Owner, name string) (Signal, error)

	// Signals returns the signals of those sagas, in any order. Without any ids it returns none.
	Signals(ctx context.Context, ids []ID) ([]Signal, error)

	// WakeSignalled wakes, as Send does, the sagas of signals whose Send did not: they were stored in a transaction of a
	// user's, or before their saga. It returns how many signals it found. An engine calls it each Poll if one of its definitions
	// awaits signals.
	WakeSignalled(ctx context.Context) (int, error)

	// Sweep deletes at most limit final sagas that are past ExpiresAt, with their signals, and
	// leases that ended long ago and that no Running or Compensating saga names. It also deletes signals
	// without a saga that are older than [SignalRetention]. It returns how many sagas it deleted.
	Sweep(ctx context.Context, limit int) (int, error)

	// Stats counts the sagas and tells the age of the oldest that is not finished. No
	// count exceeds [StatsLimit], so that Stats is quick whatever the number of sagas.
	Stats(ctx context.Context) (Stats, error)
}

// An OperatorJournal is the part of a [Journal] that people use. A change in a person's name
// is a compare-and-set on the revision. The same transaction writes it to the audit log.
type OperatorJournal interface {
	// Change applies c to a saga that is still at revision c.Revision, takes it from its owner,
	// and returns it. The saga's Engine, RecoveryAttempts, StuckOn and Deferred are then zero. Its fence and
	// revision have grown by one, and ResumedAt is now. If it is Running or Compensating its
	// WakeAt is now: the change wakes a saga that sleeps. Clean stays as it is. A fence of 0
	// stays 0: no engine had the saga yet, and its first engine must know that.
	//
	// If the saga is at another revision, Change returns the saga as it is, and false. It returns
	// [ErrNotFound] if the saga is gone.
	//
	// A Change with Wake leaves the saga to its owner: see [Change].Wake. It also returns false
	// for a saga that is not Running or Compensating. One with Plan changes little else: see [Change].Plan.
	Change(ctx context.Context, c Change) (Record, bool, error)

	// Send stores s, whose Value is not nil, unless the saga has a signal of that name. It wakes a saga that sleeps: WakeAt is now.
	// A saga that an engine has is due at once when that engine gives it up by a [Write] with a WakeAt. The saga's
	// owner, Fence and Revision stay.
	//
	// It returns nil again if the saga was sent the same bytes, whatever became of it. It returns [ErrSignalReused] if it was sent other ones, and
	// [ErrTooLate] if its wait has ended ([Journal].EndWait), or without a signal if it is final or has a FailedAt. A saga that is not there
	// may be started later. With a by.Verb the same transaction writes by to the audit log. Then a
	// saga that is not there is an [ErrNotFound], and a repeat writes no line.
	Send(ctx context.Context, s Signal, by Audit) error

	// ReadPlan returns the plan that sagas of that name and version were started with, or
	// [ErrNotFound]. It stores nothing.
	ReadPlan(ctx context.Context, name string, version int) (PlanRecord, error)

	// Reader shows the sagas to people. It does no I/O.
	Reader() Reader
}

type stayKey struct{}

// Stay returns a ctx for which [Stays] reports true. An engine calls Start with it.
func Stay(ctx context.Context) context.Context { return context.WithValue(ctx, stayKey{}, true) }

// Stays reports whether the caller of a [Journal] has a separate goroutine for the call, as an
// engine's Start has. The journal may then wait for a write that it has sent although ctx ends,
// and need not leave the write behind in another goroutine.
func Stays(ctx context.Context) bool { return ctx.Value(stayKey{}) != nil }
