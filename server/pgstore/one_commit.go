package pgstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fanonce/fanonce/internal/pgkit"
	"github.com/fanonce/fanonce/server/store"
)

var _ store.OneCommitStore = (*Store)(nil)

// Plan implements [store.OneCommitStore].
func (s *Store) Plan() store.Plan { return &plan{store: s} }

// A plan has the statements of a run that claims its key together with them.
type plan struct {
	store *Store
	queue queue
}

// NewContext implements [store.Plan], for [Queue].
func (p *plan) NewContext(ctx context.Context) context.Context {
	return context.WithValue(ctx, contextKey{}, p)
}

func (p *plan) enqueue(q *pgx.QueuedQuery) error { return p.queue.add(q) }

// Discard implements [store.Plan].
func (p *plan) Discard() { p.queue.discard() }

// Commit implements [store.Plan], in one round trip if the key is absent. The transaction is at Config.Isolation. A
// duplicate costs a read more, and leaves an error in the server's log (unique_violation). Many duplicates leave few
// errors: for a second after one, Commit looks keys up first. Where another transaction is about to write the key
// Commit waits as Claim does. The answer is kept in the record, whatever Config.Answers says.
func (p *plan) Commit(ctx context.Context, req store.ClaimRequest, end store.Settlement) (store.Record, bool, error) {
	if err := errors.Join(checkClaim(req), checkSettlement(end)); err != nil {
		return store.Record{}, false, err
	}
	if end.State != store.StateCompleted && end.State != store.StateReleased {
		return store.Record{}, false, fmt.Errorf("%w: cannot commit a plan to State %d", ErrArgument, end.State)
	}
	p.store.partitioned.records.put(req.Keep)
	queued, req := p.queue.close(), p.store.kept(req)
	for wait := pgkit.WaitForLock(p.store.lockWait()); ; {
		r, first, err := p.store.commitOrFind(ctx, req, end, queued)
		if errors.Is(err, errVanished) && ctx.Err() == nil {
			continue
		}
		if !isKeyLocked(err) || !wait.Again(ctx, err) {
			return r, first, p.store.planFailure(ctx, err)
		}
	}
}

// commitOrFind commits the plan, or returns the record that is in the way.
func (s *Store) commitOrFind(ctx context.Context, req store.ClaimRequest, end store.Settlement, queued []*pgx.QueuedQuery) (store.Record, bool, error) {
	if s.planned.lately() {
		if r, first, err := s.inTheWay(ctx, req); !errors.Is(err, errVanished) {
			return r, first, err
		}
	}
	times, err := s.sendPlan(ctx, req, end, queued)
	var key *keyError
	var work *workError
	switch {
	case err == nil:
		return settledRecord(req, end, times), true, nil
	case errors.Is(err, pgkit.ErrFateUnknown):
		return store.Record{}, false, err
	case errors.As(err, &work) && work.unsent: // a duplicate gets its answer, also if its statements are wrong by now
		if r, first, readErr := s.inTheWay(ctx, req); !errors.Is(readErr, errVanished) {
			return r, first, readErr
		}
		return store.Record{}, false, err
	case !errors.As(err, &key):
		return store.Record{}, false, err
	case isTaken(key.err):
		s.planned.note()
		return s.inTheWay(ctx, req)
	case hasCode(key.err, "22P02"):
		return store.Record{}, false, fmt.Errorf("%w: %w", store.ErrExpired, err)
	default:
		return store.Record{}, false, err
	}
}

// inTheWay reads the record of a key that was used, and reports whether req itself made it: then the answer to an
// earlier Commit was lost.
func (s *Store) inTheWay(ctx context.Context, req store.ClaimRequest) (store.Record, bool, error) {
	r, err := s.readAs(ctx, req.ID, req.Token)
	if errors.Is(err, store.ErrNotFound) {
		return store.Record{}, false, errVanished
	}
	return r, err == nil && r.Token == req.Token && r.Fence == 1 && r.State != store.StateInProgress, err
}

// A keyError is the failure of the claim in a plan's pipeline: no statement of the handler has run.
type keyError struct{ err error }

func (e *keyError) Error() string { return e.err.Error() }
func (e *keyError) Unwrap() error { return e.err }

// A workError is the failure of a queued statement, or of the commit.
type workError struct {
	err    error
	unsent bool // the claim was not sent either
}

func (e *workError) Error() string { return e.err.Error() }
func (e *workError) Unwrap() error { return e.err }

// isKeyLocked reports that another transaction is about to write the key. A lock that a queued statement waited for
// does not count.
func isKeyLocked(err error) bool {
	var key *keyError
	return errors.As(err, &key) && pgkit.Classify(err) == pgkit.FailureLockTimeout
}

// planFailure gives the error of a plan the name that [store.Plan] promises.
func (s *Store) planFailure(ctx context.Context, err error) error {
	var work *workError
	var refused *store.TxError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, pgkit.ErrFateUnknown):
		s.suspicion.raise()
		return wrap("commit", err)
	case errors.Is(err, store.ErrExpired):
		return wrap("commit", err)
	case errors.Is(err, errPlanUnsent) && ctx.Err() == nil:
		s.suspicion.raise()
		return wrap("commit", fmt.Errorf("%w: %w", store.ErrTxLost, err))
	case isKeyLocked(err), errors.Is(err, errUnconfirmed):
		return wrap("commit", beingDecided(err))
	case pgkit.Classify(err) == pgkit.FailureConflict:
		return wrap("commit", conflict(err))
	case errors.As(err, &work):
		if err := queuedRefused(work.err); errors.As(err, &refused) {
			return wrap("commit", err)
		}
		return wrap("commit", work.err)
	default:
		return wrap("commit", err)
	}
}

// errPlanUnsent: the connection broke before the plan was sent.
var errPlanUnsent = errors.New("nothing was sent")

// planUnsent is an error from before the pipeline was sent. pgx asks for the types of all statements before it sends
// the first. So an error of the server, or an argument that cannot be encoded, belongs to a queued statement.
func planUnsent(err error) error {
	if isUnsendable(err) || errors.As(err, new(*pgconn.PgError)) {
		return pgkit.Unsent(&workError{err, true})
	}
	return pgkit.Unsent(fmt.Errorf("%w: %w", errPlanUnsent, err))
}

// sendPlan sends the claim with its settlement, the queued statements and the commit, in one round trip.
func (s *Store) sendPlan(ctx context.Context, req store.ClaimRequest, end store.Settlement, queued []*pgx.QueuedQuery) (claimTimes, error) {
	steps, err := s.claimSteps(req, end)
	if err != nil {
		return claimTimes{}, err
	}
	if err := s.db.Writer.Admit(ctx); err != nil {
		return claimTimes{}, err
	}
	conn, err := s.take(ctx)
	if err != nil {
		return claimTimes{}, err
	}
	return pgkit.Finish(ctx, s.db.Writer, conn, func(ctx context.Context, conn *pgx.Conn) (times claimTimes, err error) {
		if err := cmp.Or(pgkit.NameQueries(ctx, conn, queued), steps.name(ctx, conn)); err != nil {
			return times, planUnsent(err)
		}
		batch := new(pgx.Batch)
		block := s.needsBlock(conn, queued)
		if block {
			batch.Queue(beginAt(s.cfg.Isolation))
		}
		before := steps.queue(batch)
		appendQueries(batch, queued)
		batch.Queue(pgkit.Hear)
		after := batch.Len() - before - 1
		if block {
			batch.Queue("commit")
		}
		return readPlan(conn.SendBatch(ctx, batch), before, after, block)
	})
}

// claimSteps are the statements with which a plan's pipeline begins: the claim, with its wait for a lock bounded. The
// statement does that by itself. For distributed tables further statements stand around it.
type claimSteps struct {
	claim          pgkit.Statement
	bound, unbound pgkit.Statement // zero: none
}

func (s *Store) claimSteps(req store.ClaimRequest, end store.Settlement) (claimSteps, error) {
	steps := claimSteps{claim: s.query.claimSettled.BindFunc(claimSettledArgs(req, end, s.db.Briefly))}
	if s.query.distributed {
		steps.bound = s.query.boundLocks.Bind(pgx.NamedArgs{"lock_timeout": s.db.Briefly})
		steps.unbound = s.query.unboundLocks.Bind(nil)
	}
	return steps, errors.Join(steps.bound.Err(), steps.claim.Err(), steps.unbound.Err())
}

// name prepares the statements on conn, where names can last.
func (c claimSteps) name(ctx context.Context, conn *pgx.Conn) error {
	if c.bound.SQL == "" {
		return pgkit.Name(ctx, conn, c.claim.SQL, pgkit.Hear)
	}
	return pgkit.Name(ctx, conn, c.bound.SQL, c.claim.SQL, c.unbound.SQL, pgkit.Hear)
}

// queue adds the statements to batch. It returns how many results come before that of the claim and after BEGIN.
func (c claimSteps) queue(batch *pgx.Batch) (before int) {
	if c.bound.SQL == "" {
		before = batch.Len()
		batch.Queue(c.claim.SQL, c.claim.Args...)
		return before
	}
	batch.Queue(c.bound.SQL, c.bound.Args...)
	for _, setting := range c.bound.Settings() {
		batch.Queue(setting)
	}
	before = batch.Len()
	batch.Queue(c.claim.SQL, c.claim.Args...)
	for _, setting := range pgkit.LockTimeoutReset() {
		batch.Queue(setting)
	}
	batch.Queue(c.unbound.SQL)
	return before
}

// needsBlock reports whether a pipeline with these statements needs BEGIN and COMMIT. Without them the server takes it
// for one transaction at the session's level. But then some statements could commit in the middle, such as a procedure.
func (s *Store) needsBlock(conn *pgx.Conn, queued []*pgx.QueuedQuery) bool {
	if s.cfg.Isolation != pgx.ReadCommitted || pgkit.NeedsBlock(conn) {
		return true
	}
	for _, q := range queued {
		if !neverCommits[firstWord(q.SQL)] {
			return true
		}
	}
	return false
}

// neverCommits has the first words of statements that cannot end a transaction.
var neverCommits = map[string]bool{
	"insert": true, "update": true, "delete": true, "merge": true, "select": true, "with": true, "values": true,
}

// readPlan reads the results of a plan's pipeline: of some statements before the claim, of the claim, and of some
// statements after it.
func readPlan(results pgx.BatchResults, before, after int, block bool) (times claimTimes, err error) {
	keyErr := execAll(results, before)
	if keyErr == nil {
		keyErr = results.QueryRow().Scan(&times.created, &times.leaseUntil, &times.expires, nil)
	}
	if keyErr != nil {
		_ = results.Close() // says the same
		if pgkit.IsUnsent(keyErr) || pgconn.SafeToRetry(keyErr) {
			return times, planUnsent(keyErr)
		}
		return times, &keyError{keyErr}
	}
	err = execAll(results, after)
	if err == nil && block {
		_, err = results.Exec()
	}
	if closeErr := results.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return times, &workError{err: err}
	}
	return times, nil
}

// claimSettledArgs returns the arguments of claim_settled.sql by name.
func claimSettledArgs(req store.ClaimRequest, end store.Settlement, lockTimeout string) func(name string) (any, bool) {
	settled := settleArgs(store.Owner{ID: req.ID, Token: req.Token, Fence: 1}, end, lockTimeout)
	return func(name string) (any, bool) {
		switch name {
		case "effect":
			return int16(req.Effect), true
		case "fingerprint_version":
			return int16(req.Fingerprint.Version), true
		case "fingerprint":
			return req.Fingerprint.Sum[:], true
		case "parent":
			return callerOf(req), true
		case "first_sent":
			return timestamp(req.FirstSent), true
		case "window":
			return req.Window, true
		case "lease":
			return req.Lease, true
		case "keep":
			return req.Keep, true
		case "route":
			return routeOf(req), true
		default:
			return settled(name)
		}
	}
}

// settledRecord is the record that a plan's commit wrote.
func settledRecord(req store.ClaimRequest, end store.Settlement, t claimTimes) store.Record {
	r := firstRecord(req, t)
	r.State = end.State
	if end.State != store.StateCompleted {
		return r
	}
	r.Answer = end.Answer
	r.ReplayUntil = r.CreatedAt.Add(end.ReplayFor.Truncate(time.Microsecond))
	if end.KeepAnswer > 0 {
		r.AnswerUntil = r.CreatedAt.Add(end.KeepAnswer.Truncate(time.Microsecond))
	}
	return r
}
