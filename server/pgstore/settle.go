package pgstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/fanonce/fanonce/internal/pgkit"
	"github.com/fanonce/fanonce/server/store"
)

// Settle implements [store.Store], in one statement if the owner still owns
// the key. Another statement finds out why not.
func (s *Store) Settle(ctx context.Context, o store.Owner, end store.Settlement) error {
	if err := end.Check(); err != nil {
		return err
	}
	ok, err := s.settleRow(ctx, o, end)
	if err != nil || ok {
		return wrap("settle", err)
	}
	if !end.EndsUnknown() {
		return store.ErrLeaseLost
	}
	return wrap("settle", s.settleLate(ctx, settlement{o, end}))
}

// settleLate settles a record that settleRow found no longer in progress: it may hold the same completion already, or
// it became unknown. Otherwise it returns [store.ErrLeaseLost].
func (s *Store) settleLate(ctx context.Context, end settlement) error {
	o := end.owner
	st := s.query().Settled.Bind(pgx.NamedArgs{"key": toUUID(o.ID), "token": toUUID(o.Token), "fence": o.Fence})
	state, err := pgkit.One(ctx, s.db.Pool, st, pgx.RowTo[int16])
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return store.ErrLeaseLost
	case err != nil:
		return err
	case store.State(state) == store.StateUnknown: //nolint:gosec // the statement returns two states
		return s.settleUnknown(ctx, end)
	case end.end.State != store.StateCompleted:
		return store.ErrLeaseLost
	}
	// The first completion may be visible and not yet confirmed by a standby.
	_, err = s.readPatiently(ctx, o.ID)
	return err
}

// readPatiently is read, which waits for Config.LockTimeout where a transaction holds the record.
func (s *Store) readPatiently(ctx context.Context, id store.ID) (store.Record, error) {
	return pgkit.RetryLocked(ctx, s.cfg.LockTimeout, func() (store.Record, error) { return s.read(ctx, id) })
}

// settleRow ends the owner's run, and returns false if the owner has none. If the answer finds no
// partition, settleRow keeps it in its record. Then somebody took the partition away, or the
// server's clock is ahead of this process's clock. If a transaction, such as an undo's, holds the
// record, it waits for Config.LockTimeout, and holds no connection meanwhile.
func (s *Store) settleRow(ctx context.Context, o store.Owner, end store.Settlement) (bool, error) {
	apart, alone, tries := s.goesApart(end), false, 0
	for wait := pgkit.WaitForLock(s.cfg.LockTimeout); ; {
		var ok bool
		var err error
		kind := s.rows.settlements
		if apart {
			kind = s.rows.apart
		}
		switch {
		case needsAttention(end):
			ok, err = s.settleNoted(ctx, settlement{o, end})
		case alone:
			_, ok, err = kind.DoAlone(ctx, settlement{o, end})
		default:
			_, ok, err = kind.Do(ctx, settlement{o, end})
		}
		if apart && s.lacksPartition(err) {
			apart = false
			continue
		}
		tries++
		switch {
		case pgkit.AgainAfterConflict(ctx, tries, err):
		case wait.Again(ctx, err):
			alone = true
		default:
			return ok, err
		}
	}
}

const (
	// renewBatch is how many owners share a statement at most.
	renewBatch = 500
	// renewLockTimeout is how long a renewal waits for a lock. A commit of another
	// process is mostly over by then. A longer wait would delay the other owners of
	// the batch, and an undo holds the record for longer anyway.
	renewLockTimeout = 10 * time.Millisecond
)

// Renew implements [store.Store]: one statement and one commit for up to 500 owners. A record that
// an undo holds, for example, makes the statement fail. Then Renew halves the batch until that
// record is alone. The owners of the other records are renewed.
func (s *Store) Renew(ctx context.Context, owners []store.Owner, lease time.Duration) (store.Renewal, error) {
	if err := store.CheckLease(lease); err != nil {
		return store.Renewal{}, err
	}
	r := renewing{store: s, lease: lease}
	err := ctx.Err()
	for batch := range slices.Chunk(owners, renewBatch) {
		if err == nil {
			err = r.renew(ctx, batch)
		}
	}
	if err == nil && r.trouble != nil {
		left := len(owners) - len(r.got.Renewed) - len(r.got.Lost)
		err = fmt.Errorf("%d of %d leases: %w", left, len(owners), r.trouble)
	}
	return r.got, wrap("renew", err)
}

// renewing is one call of Renew.
type renewing struct {
	store   *Store
	lease   time.Duration
	got     store.Renewal
	trouble error // the first that concerns one record
}

// renew returns an error if it concerns more than single records.
func (r *renewing) renew(ctx context.Context, owners []store.Owner) error {
	renewed, err := r.renewTogether(ctx, owners)
	switch {
	case err == nil:
		r.got.Renewed = append(r.got.Renewed, renewed...)
		r.got.Lost = append(r.got.Lost, subtract(owners, renewed)...)
		return nil
	case !isOfSingleRecords(err):
		return err
	case len(owners) == 1:
		if r.trouble == nil {
			r.trouble = err
		}
		return nil
	}
	half := len(owners) / 2
	if err := r.renew(ctx, owners[:half]); err != nil {
		return err
	}
	return r.renew(ctx, owners[half:])
}

// renewTogether renews all owners in one statement, or none. It returns the owners that
// it renewed.
func (r *renewing) renewTogether(ctx context.Context, owners []store.Owner) ([]store.Owner, error) {
	keys, names := make(pgkit.Array[pgtype.UUID], len(owners)), make([]string, len(owners))
	for i, o := range owners {
		keys[i], names[i] = toUUID(o.ID), toUUID(o.ID).String()+toUUID(o.Token).String()+strconv.FormatInt(o.Fence, 10)
	}
	s := r.store
	wait := pgkit.Milliseconds(min(renewLockTimeout, s.cfg.LockTimeout))
	settings := s.query().LockTimeout.Bind(pgx.NamedArgs{"lock_timeout": wait})
	st := s.query().Renew.Bind(pgx.NamedArgs{"keys": keys, "owners": names, "lease": r.lease})
	return pgkit.RetryConflict(ctx, func() ([]store.Owner, error) {
		return pgkit.RowsUnder(ctx, s.renewals, settings, st, scanOwner)
	})
}

func scanOwner(row pgx.CollectableRow) (store.Owner, error) {
	var key, token pgtype.UUID
	var o store.Owner
	err := row.Scan(&key, &token, &o.Fence)
	o.ID, o.Token = key.Bytes, token.Bytes
	return o, err
}

// subtract returns the owners that are not among those renewed.
func subtract(owners, renewed []store.Owner) []store.Owner {
	if len(owners) == len(renewed) {
		return nil
	}
	have := make(map[store.Owner]bool, len(renewed))
	for _, o := range renewed {
		have[o] = true
	}
	var missing []store.Owner
	for _, o := range owners {
		if !have[o] {
			missing = append(missing, o)
		}
	}
	return missing
}
