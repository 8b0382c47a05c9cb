package pgstore

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fanonce/fanonce/internal/pgkit"
	"github.com/fanonce/fanonce/server/store"
)

// Claim implements [store.Store]: one statement for the first caller of a key,
// two for a duplicate, which writes nothing. Where a transaction is
// about to make the absent key a tombstone it tries again for at most [store.MaxLockWait],
// and no longer than Config.LockTimeout, and returns [store.ErrInProgress] then. Whether
// an asynchronous claim is durable is not known: [Config].SynchronousClaims.
func (s *Store) Claim(ctx context.Context, req store.ClaimRequest) (store.Record, bool, error) {
	if err := req.Check(); err != nil {
		return store.Record{}, false, err
	}
	s.partitioned.records.put(req.Keep)
	req = s.kept(req)
	alone := false
	for wait := pgkit.WaitForLock(s.lockWait()); ; {
		r, won, err := s.claimOnce(ctx, req, alone)
		if errors.Is(err, errVanished) && ctx.Err() == nil {
			continue
		}
		if !wait.Again(ctx, err) {
			return r, won, wrap("claim", toInProgress(err))
		}
		alone = true
	}
}

// asynchronous reports whether the claim may be answered before it is durable. Its flush decides
// whether it is.
func (s *Store) asynchronous(req store.ClaimRequest) bool {
	return req.Asynchronous && !s.cfg.SynchronousClaims && !s.cfg.SeparateCommits
}

// errVanished: the record that was in the way has been swept since.
var errVanished = errors.New("record vanished")

// claimOnce inserts the record of a key, or reads the one that is there. A victim of a deadlock tries again. With
// alone the insert goes in no flush: it met a lock before, and each flush that it is in would meet the lock again.
func (s *Store) claimOnce(ctx context.Context, req store.ClaimRequest, alone bool) (store.Record, bool, error) {
	var times claimTimes
	var won bool
	var err error
	send := s.rows.claims.Do
	// One that is too old, by this clock, would make the flush of distributed tables fail.
	if alone || s.query().distributed && !req.FirstSent.IsZero() && time.Since(req.FirstSent) > req.Window {
		send = s.rows.claims.DoAlone
	}
	for n := 1; n == 1 || pgkit.AgainAfterConflict(ctx, n-1, err); n++ {
		times, won, err = send(ctx, req)
	}
	if s.query().distributed && isNull(err) {
		err = nil // too old, see query/distributed/claim.sql
	}
	if err != nil {
		return store.Record{}, false, err
	}
	if won {
		r := firstRecord(req, times)
		r.Asynchronous = s.asynchronous(req)
		return r, true, nil
	}
	r, err := s.readAs(ctx, req.ID, req.Token) // its snapshot is younger than the conflict
	if errors.Is(err, store.ErrNotFound) {
		return store.Record{}, false, s.whyAbsent(ctx, req)
	}
	return r, err == nil && isRepeat(r, req), err
}

// isRepeat reports whether req itself made r: then the answer to the first sending was lost.
func isRepeat(r store.Record, req store.ClaimRequest) bool {
	return r.State == store.StateInProgress && r.Token == req.Token
}

// whyAbsent returns the reason if the insert did nothing although no record exists.
func (s *Store) whyAbsent(ctx context.Context, req store.ClaimRequest) error {
	if req.FirstSent.IsZero() {
		return errVanished
	}
	st := s.query().TooOld.Bind(pgx.NamedArgs{"first_sent": toTimestamp(req.FirstSent), "window": req.Window})
	tooOld, err := pgkit.One(ctx, s.db.Pool, st, pgx.RowTo[bool])
	switch {
	case err != nil:
		return err
	case tooOld:
		return store.ErrExpired
	default:
		return errVanished
	}
}

// firstRecord is the record that the insert wrote.
func firstRecord(req store.ClaimRequest, t claimTimes) store.Record {
	return store.Record{
		ID:          req.ID,
		State:       store.StateInProgress,
		Effect:      req.Effect,
		Fingerprint: req.Fingerprint,
		Parent:      req.Parent,
		Token:       req.Token,
		Fence:       1,
		Now:         t.created.UTC(),
		CreatedAt:   t.created.UTC(),
		FirstSent:   fromTimestamp(toTimestamp(truncate(req.FirstSent))),
		LeaseUntil:  t.leaseUntil.UTC(),
		ExpiresAt:   t.expires.UTC(),
		Route:       routeOf(req).String,
		Memo:        req.Memo,
	}
}

// TakeOver implements [store.Store], in one statement if it wins. It waits for locks as
// Claim does.
func (s *Store) TakeOver(ctx context.Context, req store.ClaimRequest, from int64) (store.Record, bool, error) {
	if err := req.Check(); err != nil {
		return store.Record{}, false, err
	}
	req = s.kept(req)
	st := s.query().TakeOver.Bind(pgx.NamedArgs{
		"key":          toUUID(req.ID),
		"token":        toUUID(req.Token),
		"effect":       int16(req.Effect),
		"lease":        req.Lease,
		"window":       req.Window,
		"from":         from,
		"lock_timeout": s.db.Briefly,
		"route":        routeOf(req),
		"memo":         req.Memo,

		"fingerprint_version": int16(req.Fingerprint.Version),
		"fingerprint":         req.Fingerprint.Sum[:],
	})
	r, won, err := s.retryUndecided(ctx, func() (store.Record, bool, error) { return s.moveAs(ctx, req.ID, req.Token, st) })
	if won || (err == nil && isRepeat(r, req)) {
		s.partitioned.records.put(r.ExpiresAt.Sub(r.Now)) // it may have been claimed with a longer Keep
	}
	if err == nil && !won && canBeTaken(r, from) && isTooOld(r, req) {
		return store.Record{}, false, store.ErrExpired
	}
	return r, won, wrap("take over", err)
}

// Quarantine implements [store.Store], in a transaction of two statements if it does anything. It waits for locks as
// Claim does.
func (s *Store) Quarantine(ctx context.Context, req store.QuarantineRequest) (store.Record, bool, error) {
	if err := req.Check(); err != nil {
		return store.Record{}, false, err
	}
	st := s.query().Quarantine.Bind(pgx.NamedArgs{
		"key":          toUUID(req.ID),
		"from":         req.From,
		"to":           int16(req.To),
		"route":        req.Route,
		"lock_timeout": s.db.Briefly,
	})
	r, quarantined, err := s.retryUndecided(ctx, func() (store.Record, bool, error) {
		return s.moveNoted(ctx, req.ID, st, false, s.noteAttention)
	})
	return r, quarantined, wrap("quarantine", err)
}

// moveAs sends an update that returns the record, and reads it if it has moved on
// before.
func (s *Store) moveAs(ctx context.Context, id store.ID, token store.Token, st pgkit.Statement) (store.Record, bool, error) {
	return s.moveBy(ctx, id, token, func() (moved, error) {
		f, ok, err := pgkit.Row(ctx, s.db.Writer, st, scanRecord)
		return moved{f, ok}, err
	})
}

// moved is the record that an update returned, if it did anything.
type moved struct {
	found

	ok bool
}

func (s *Store) moveBy(ctx context.Context, id store.ID, token store.Token, do func() (moved, error)) (store.Record, bool, error) {
	m, err := pgkit.RetryConflict(ctx, do)
	if err != nil || m.ok {
		return m.Record, m.ok, cmp.Or(err, m.damage)
	}
	r, err := s.readAs(ctx, id, token)
	return r, false, err
}

// canBeTaken reports that r can be taken over as far as its state goes.
func canBeTaken(r store.Record, from int64) bool {
	return r.Fence == from && (r.State == store.StateReleased || isDead(r))
}

func isDead(r store.Record) bool {
	return r.State == store.StateInProgress && r.LeaseLeft() <= 0
}

func isTooOld(r store.Record, req store.ClaimRequest) bool {
	return !r.FirstSent.IsZero() && r.FirstSent.Before(r.Now.Add(-req.Window))
}

// truncate rounds t down to the microseconds that Postgres stores.
func truncate(t time.Time) time.Time { return t.Truncate(time.Microsecond) }
