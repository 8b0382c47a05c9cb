package component

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5"

	"github.com/fanonce/fanonce/internal/pgkit"
)

// A Replication says whether a standby can lack a commit that was acknowledged.
type Replication struct {
	// Waits reports whether a commit of this session waits until a standby confirms it:
	// synchronous_standby_names is not empty, and synchronous_commit is neither local nor off.
	Waits bool
	// Standbys is the number of standbys that the server sends its log to.
	Standbys int
	// Async is the number of standbys for which no commit waits. A failover to one of
	// them can lose commits that were acknowledged. Where no commit waits it includes the
	// physical replication slots that nobody uses: each belongs to a standby that is away.
	//
	// Where commits wait for some standbys, only a role with the rights of pg_read_all_stats
	// sees which of the others are asynchronous. For another role Async is 0 then.
	Async int
}

// A subscriber of logical replication, a base backup and a connection that is still starting do not
// count as standbys. The columns that only some roles see are null for the others.
const replication = `
select current_setting('synchronous_standby_names') <> '' and current_setting('synchronous_commit') in ('on', 'remote_apply', 'remote_write'),
	count(*)::int, count(*) filter (where sync_state in ('async', 'potential'))::int,
	(select count(*)::int from pg_replication_slots where slot_type = 'physical' and not active)
from pg_stat_replication
where coalesce(state, 'streaming') in ('catchup', 'streaming')
	and not exists (select from pg_replication_slots where slot_type = 'logical' and active_pid = pg_stat_replication.pid)`

// AskReplication asks the server. It changes nothing, and needs no privilege.
func AskReplication(ctx context.Context, db pgkit.Queryer) (Replication, error) {
	r, err := scanReplication(db.QueryRow(ctx, replication))
	if err != nil {
		return Replication{}, fmt.Errorf("replication: %w", err)
	}
	return r, nil
}

// AskReplicationInto returns the question of [AskReplication], to be asked beside others. Its one answer is put into all.
func AskReplicationInto(all *[]Replication) pgkit.Question {
	return pgkit.RowsInto(all, pgkit.Statement{SQL: replication}, func(row pgx.CollectableRow) (Replication, error) { return scanReplication(row) })
}

func scanReplication(row pgx.Row) (r Replication, err error) {
	var away int
	if err := row.Scan(&r.Waits, &r.Standbys, &r.Async, &away); err != nil {
		return Replication{}, err
	}
	if !r.Waits {
		r.Async = r.Standbys + away
	}
	return r, nil
}

// Log warns where commits wait for no standby although there is one. It is silent where
// no standby exists, or where logger is nil. Standbys beside a synchronous one are
// logged at info level: a failover should choose the synchronous one.
func (r Replication) Log(ctx context.Context, logger *slog.Logger) {
	switch {
	case logger == nil || r.Async == 0:
	case r.Waits:
		logger.InfoContext(ctx, "some standbys are asynchronous: a failover to one of them can lose acknowledged commits",
			"standbys", r.Standbys, "async_standbys", r.Async)
	default:
		logger.WarnContext(ctx, "commits wait for no standby: a failover can lose acknowledged answers, and their effects can happen twice; "+
			"set synchronous_standby_names, and leave synchronous_commit on", "standbys", r.Standbys, "async_standbys", r.Async)
	}
}
