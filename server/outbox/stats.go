package outbox

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fanonce/fanonce/internal/pgkit"
)

// StatsLimit is the highest count in a [Stats]. It means that many messages, or more.
const StatsLimit = 10_000

// Stats is the result of [Outbox.Stats] and [Reader.Stats].
type Stats struct {
	Waiting int64         // messages that are not published; at most [StatsLimit]
	Failing int64         // of these, the ones that the broker did not take at least once; at most [StatsLimit]
	Oldest  time.Duration // age of the oldest one; 0 if none waits
	Relays  int           // at work now. Alert if it is 0
}

// Stats counts the messages that wait. It reads at most [StatsLimit] entries of an index for each count, so it is quick
// whatever the number of messages. [Reader.Stats] also bounds the time.
func (o *Outbox) Stats(ctx context.Context, pool *pgxpool.Pool) (Stats, error) {
	if pool == nil {
		return Stats{}, fmt.Errorf("%w: no pool", ErrArgument)
	}
	s, err := pgkit.One(ctx, pool, o.query.stats.Bind(named{"most": int64(StatsLimit)}), scanStats)
	if err != nil {
		return Stats{}, fmt.Errorf("outbox: stats: %w", err)
	}
	return s, nil
}

func scanStats(row pgx.CollectableRow) (s Stats, err error) {
	var seconds float64
	err = row.Scan(&s.Waiting, &s.Failing, &seconds, &s.Relays)
	s.Oldest = time.Duration(seconds * float64(time.Second))
	return s, err
}
