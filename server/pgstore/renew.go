package pgstore

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgkit"
)

// Renew implements [server.Store]: one statement for all owners. Only if some
// are missing it asks for those again, and waits for who holds their records. If
// that fails, the leases of the others have been extended all the same.
func (s *Store) Renew(ctx context.Context, owners []server.Owner, lease time.Duration) ([]server.Owner, error) {
	if err := checkLease(lease); err != nil {
		return nil, err
	}
	if len(owners) == 0 {
		return nil, ctx.Err()
	}
	missing, err := s.renew(ctx, s.query.renew, owners, pgx.NamedArgs{"lease": lease})
	if err != nil || len(missing) == 0 {
		return nil, wrap("renew", err)
	}
	args := pgx.NamedArgs{"lease": lease, "lock_timeout": s.lockTimeout}
	lost, err := s.renew(ctx, s.query.renewLocked, missing, args)
	if err != nil {
		return nil, wrap("renew", err)
	}
	return lost, nil
}

// renew returns the owners whose leases the query did not extend.
func (s *Store) renew(ctx context.Context, q pgkit.Query, owners []server.Owner, args pgx.NamedArgs) ([]server.Owner, error) {
	keys, tokens := make([]pgtype.UUID, len(owners)), make([]pgtype.UUID, len(owners))
	fences := make([]int64, len(owners))
	for i, o := range owners {
		keys[i], tokens[i], fences[i] = uuid(o.ID), uuid(o.Token), o.Fence
	}
	args["keys"], args["tokens"], args["fences"] = keys, tokens, fences
	renewed, err := pgkit.RetryConflict(ctx, func() ([]server.Owner, error) {
		return pgkit.Rows(ctx, s.writer, q.Bind(args), scanOwner)
	})
	if err != nil {
		return nil, err
	}
	return without(owners, renewed), nil
}

func scanOwner(row pgx.CollectableRow) (server.Owner, error) {
	var key, token pgtype.UUID
	var o server.Owner
	err := row.Scan(&key, &token, &o.Fence)
	o.ID, o.Token = key.Bytes, token.Bytes
	return o, err
}

// without returns the owners that are not among those renewed.
func without(owners, renewed []server.Owner) []server.Owner {
	if len(owners) == len(renewed) {
		return nil
	}
	have := make(map[server.Owner]bool, len(renewed))
	for _, o := range renewed {
		have[o] = true
	}
	var missing []server.Owner
	for _, o := range owners {
		if !have[o] {
			missing = append(missing, o)
		}
	}
	return missing
}
