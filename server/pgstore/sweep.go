package pgstore

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgkit"
)

// Sweep implements [server.Store], in one statement and one commit for records,
// and once they are fewer than limit another for answers: a limit of a thousand or
// so keeps each short. It passes over records that a transaction
// holds, so that sweeps in several processes share the work.
func (s *Store) Sweep(ctx context.Context, limit int) (int, error) {
	if limit <= 0 {
		return 0, fmt.Errorf("%w: limit %d is not positive", ErrArgument, limit)
	}
	st := s.query.sweep.Bind(pgx.NamedArgs{"limit": int64(limit)})
	n, err := pgkit.RetryConflict(ctx, func() (int64, error) { return pgkit.Exec(ctx, s.writer, st) })
	if err == nil && int(n) < limit {
		err = s.dropAnswers(ctx, limit)
	}
	if err == nil && s.cfg.Answers == AnswersPartitioned {
		_, err = s.lookAtPartitions(ctx) // somebody else may have made some
	}
	return int(n), wrap("sweep", err)
}

// Stats implements [server.Store]. It reads the whole table.
func (s *Store) Stats(ctx context.Context) (server.Stats, error) {
	stats := server.Stats{ByState: make(map[server.State]int64)}
	st := s.query.stats.Bind(nil)
	rows, err := s.pool.Query(ctx, st.SQL)
	if err != nil {
		return server.Stats{}, wrap("stats", err)
	}
	var state int16
	var count int64
	var age time.Duration
	_, err = pgx.ForEachRow(rows, []any{&state, &count, &age}, func() error {
		stats.ByState[server.State(state)] = count         //nolint:gosec // a check constraint bounds it
		if server.State(state) == server.StateInProgress { //nolint:gosec // a check constraint bounds it
			stats.OldestInProgress = age
		}
		return nil
	})
	if err != nil {
		return server.Stats{}, wrap("stats", err)
	}
	stats.Bytes, err = pgkit.One(ctx, s.pool, s.query.size.Bind(nil), pgx.RowTo[int64])
	return stats, wrap("stats", err)
}
