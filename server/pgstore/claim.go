package pgstore

import (
	"cmp"
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgkit"
)

// Claim implements [server.Store]: one statement for the first caller of a key,
// two for a duplicate, which writes nothing. Where req.Repeat says which of the two
// to expect it is one for the duplicate, and two for the first. Where a transaction is
// about to make the absent key a tombstone it tries again for at most [server.MaxLockWait],
// and no longer than Config.LockTimeout, and returns [server.ErrInProgress] then.
func (s *Store) Claim(ctx context.Context, req server.ClaimRequest) (server.Record, bool, error) {
	if err := checkClaim(req); err != nil {
		return server.Record{}, false, err
	}
	s.partitioned.records.put(req.Keep)
	for wait := pgkit.WaitForLock(s.lockWait()); ; {
		r, won, err := s.claimOnce(ctx, req)
		if errors.Is(err, errVanished) && ctx.Err() == nil {
			continue
		}
		if !wait.Again(ctx, err) {
			return r, won, wrap("claim", beingDecided(err))
		}
	}
}

// errVanished: the record that was in the way has been swept since.
var errVanished = errors.New("record vanished")

func (s *Store) claimOnce(ctx context.Context, req server.ClaimRequest) (server.Record, bool, error) {
	if req.Repeat {
		if r, err := s.readAs(ctx, req.ID, req.Token); !errors.Is(err, server.ErrNotFound) {
			return r, err == nil && repeated(r, req), err
		}
	}
	type claimed struct {
		times claimTimes
		won   bool
	}
	c, err := pgkit.RetryConflict(ctx, func() (claimed, error) {
		times, won, err := s.rows.claim(ctx, req)
		return claimed{times, won}, err
	})
	if err != nil {
		return server.Record{}, false, err
	}
	if c.won {
		return firstRecord(req, c.times), true, nil
	}
	r, err := s.readAs(ctx, req.ID, req.Token) // its snapshot is younger than the conflict
	if errors.Is(err, server.ErrNotFound) {
		return server.Record{}, false, s.whyAbsent(ctx, req)
	}
	return r, err == nil && repeated(r, req), err
}

// repeated reports that r is what req itself made: its answer was lost.
func repeated(r server.Record, req server.ClaimRequest) bool {
	return r.State == server.StateInProgress && r.Token == req.Token
}

// whyAbsent: the insert did nothing, and yet there is no record.
func (s *Store) whyAbsent(ctx context.Context, req server.ClaimRequest) error {
	if req.FirstSent.IsZero() {
		return errVanished
	}
	st := s.query.tooOld.Bind(pgx.NamedArgs{"first_sent": timestamp(req.FirstSent), "window": req.Window})
	tooOld, err := pgkit.One(ctx, s.pool, st, pgx.RowTo[bool])
	switch {
	case err != nil:
		return err
	case tooOld:
		return server.ErrExpired
	default:
		return errVanished
	}
}

// firstRecord is what the insert wrote.
func firstRecord(req server.ClaimRequest, t claimTimes) server.Record {
	return server.Record{
		ID:          req.ID,
		State:       server.StateInProgress,
		Effect:      req.Effect,
		Fingerprint: req.Fingerprint,
		Token:       req.Token,
		Fence:       1,
		Now:         t.created.UTC(),
		CreatedAt:   t.created.UTC(),
		FirstSent:   fromTimestamp(timestamp(stored(req.FirstSent))),
		LeaseUntil:  t.leaseUntil.UTC(),
		ExpiresAt:   t.expires.UTC(),
		Route:       routeOf(req).String,
		Memo:        memoOf(req),
	}
}

// TakeOver implements [server.Store], in one statement if it wins. It waits for locks as
// Claim does.
func (s *Store) TakeOver(ctx context.Context, req server.ClaimRequest, from int64) (server.Record, bool, error) {
	if err := checkClaim(req); err != nil {
		return server.Record{}, false, err
	}
	st := s.query.takeOver.Bind(pgx.NamedArgs{
		"key":          uuid(req.ID),
		"token":        uuid(req.Token),
		"effect":       int16(req.Effect),
		"lease":        req.Lease,
		"window":       req.Window,
		"from":         from,
		"lock_timeout": s.briefly,
		"route":        routeOf(req),
		"memo":         memoOf(req),
	})
	r, won, err := s.undecided(ctx, func() (server.Record, bool, error) { return s.moveAs(ctx, req.ID, req.Token, st) })
	if won || (err == nil && repeated(r, req)) {
		s.partitioned.records.put(r.ExpiresAt.Sub(r.Now)) // it may have been claimed with a longer Keep
	}
	if err == nil && !won && takable(r, from) && tooOld(r, req) {
		return server.Record{}, false, server.ErrExpired
	}
	return r, won, wrap("take over", err)
}

// Bury implements [server.Store], in one statement if it does anything. It waits for locks as
// Claim does.
func (s *Store) Bury(ctx context.Context, req server.BuryRequest) (server.Record, bool, error) {
	if err := checkBury(req.To); err != nil {
		return server.Record{}, false, err
	}
	st := s.query.bury.Bind(pgx.NamedArgs{
		"key":          uuid(req.ID),
		"from":         req.From,
		"to":           int16(req.To),
		"route":        req.Route,
		"lock_timeout": s.briefly,
	})
	r, buried, err := s.undecided(ctx, func() (server.Record, bool, error) { return s.move(ctx, req.ID, st) })
	return r, buried, wrap("bury", err)
}

// move sends an update that returns the record, and reads it if it has moved on
// before.
func (s *Store) move(ctx context.Context, id server.ID, st pgkit.Statement) (server.Record, bool, error) {
	return s.moveAs(ctx, id, server.Token{}, st)
}

func (s *Store) moveAs(ctx context.Context, id server.ID, token server.Token, st pgkit.Statement) (server.Record, bool, error) {
	return s.moveBy(ctx, id, token, func() (moved, error) {
		f, ok, err := pgkit.Row(ctx, s.writer, st, scanRecord)
		return moved{f, ok}, err
	})
}

// moved is the record that an update returned, if it did anything.
type moved struct {
	found

	ok bool
}

func (s *Store) moveBy(ctx context.Context, id server.ID, token server.Token, do func() (moved, error)) (server.Record, bool, error) {
	m, err := pgkit.RetryConflict(ctx, do)
	if err != nil || m.ok {
		return m.Record, m.ok, cmp.Or(err, m.damage)
	}
	r, err := s.readAs(ctx, id, token)
	return r, false, err
}
