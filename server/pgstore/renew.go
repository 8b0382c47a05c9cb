package pgstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/fanonce/fanonce/internal/pgkit"
	"github.com/fanonce/fanonce/server/store"
)

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
	if err := checkLease(lease); err != nil {
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
	renewed, err := r.together(ctx, owners)
	switch {
	case err == nil:
		r.got.Renewed = append(r.got.Renewed, renewed...)
		r.got.Lost = append(r.got.Lost, without(owners, renewed)...)
		return nil
	case !ofSingleRecords(err):
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

// together renews all owners in one statement, or none. It returns the owners that
// it renewed.
func (r *renewing) together(ctx context.Context, owners []store.Owner) ([]store.Owner, error) {
	keys, names := make(pgkit.Array[pgtype.UUID], len(owners)), make([]string, len(owners))
	for i, o := range owners {
		keys[i], names[i] = uuid(o.ID), uuid(o.ID).String()+uuid(o.Token).String()+strconv.FormatInt(o.Fence, 10)
	}
	s := r.store
	wait := pgkit.Milliseconds(min(renewLockTimeout, s.cfg.LockTimeout))
	settings := s.query.lockTimeout.Bind(pgx.NamedArgs{"lock_timeout": wait})
	st := s.query.renew.Bind(pgx.NamedArgs{"keys": keys, "owners": names, "lease": r.lease})
	return pgkit.RetryConflict(ctx, func() ([]store.Owner, error) {
		return pgkit.RowsUnder(ctx, s.renewals, settings, st, scanOwner)
	})
}

// ofSingleRecords reports whether the statement may have failed because of some of
// its records: somebody holds them, or the server cannot read or change them.
func ofSingleRecords(err error) bool {
	switch pgkit.Classify(err) {
	case pgkit.FailureLockTimeout, pgkit.FailureConflict:
		return true
	case pgkit.FailureRefused:
		var pgErr *pgconn.PgError
		return errors.As(err, &pgErr) && slices.Contains([]string{"22", "23", "P0", "XX"}, pgErr.Code[:2])
	default:
		return false
	}
}

func scanOwner(row pgx.CollectableRow) (store.Owner, error) {
	var key, token pgtype.UUID
	var o store.Owner
	err := row.Scan(&key, &token, &o.Fence)
	o.ID, o.Token = key.Bytes, token.Bytes
	return o, err
}

// without returns the owners that are not among those renewed.
func without(owners, renewed []store.Owner) []store.Owner {
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
