package pgstore

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/fanonce/fanonce/internal/pgkit"
)

// A sweep of distributed tables reads keys, and changes the records by key: the servers lock rows
// only by key, and pass over none. A locked record makes the statement fail after a moment. Then
// the batch is halved until that record is alone, as in [Store.Renew].

// sweepByKey is sweep.sql for distributed tables.
func (s *Store) sweepByKey(ctx context.Context, from time.Time, limit int) (batch, error) {
	type due struct {
		key pgtype.UUID
		at  pgtype.Timestamptz
	}
	st := s.query.sweepKeys.Bind(pgx.NamedArgs{"after": after(from), "limit": int64(limit)})
	all, err := pgkit.All(ctx, s.db.Pool, st, func(row pgx.CollectableRow) (d due, err error) {
		return d, row.Scan(&d.key, &d.at)
	})
	if err != nil || len(all) == 0 {
		return batch{}, err
	}
	keys := make([]pgtype.UUID, len(all))
	for i, d := range all {
		keys[i] = d.key
	}
	n, err := s.changeByKey(ctx, s.query.sweep, keys)
	return batch{count: n, last: all[len(all)-1].at, full: len(all) == limit}, err
}

// dropAnswersByKey is drop_answers.sql for distributed tables.
func (s *Store) dropAnswersByKey(ctx context.Context, look pgkit.Statement, limit int) (w seen, err error) {
	type window struct {
		seen

		due []pgtype.UUID
	}
	found, err := pgkit.One(ctx, s.db.Pool, look, func(row pgx.CollectableRow) (w window, err error) {
		return w, row.Scan(&w.end, &w.count, &w.due, &w.waiting, &w.needy)
	})
	if err != nil || len(found.due) == 0 {
		return found.seen, err
	}
	n, err := s.changeByKey(ctx, s.query.dropAnswers, found.due[:min(limit, len(found.due))])
	found.dropped = int64(n)
	return found.seen, err
}

// changeByKey returns how many records the statement changed. It passes over locked records.
func (s *Store) changeByKey(ctx context.Context, query pgkit.Query, keys []pgtype.UUID) (int, error) {
	st := query.Bind(pgx.NamedArgs{"keys": keys, "lock_timeout": s.db.Briefly})
	n, err := pgkit.Exec(ctx, s.db.Writer, st)
	switch {
	case err == nil:
		return int(n), nil
	case pgkit.Classify(err) != pgkit.FailureLockTimeout:
		return 0, err
	case len(keys) == 1:
		return 0, nil
	}
	half := len(keys) / 2
	first, err := s.changeByKey(ctx, query, keys[:half])
	if err != nil {
		return first, err
	}
	second, err := s.changeByKey(ctx, query, keys[half:])
	return first + second, err
}
