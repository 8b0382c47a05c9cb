package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

var errBlind = errors.New("the role cannot see the sessions of other roles")

// sees returns an error where the server hides other roles' sessions.
func (p *patient) sees(ctx context.Context) error {
	var sees bool
	err := p.db.QueryRow(ctx, "select pg_has_role('pg_read_all_stats', 'usage')").Scan(&sees)
	if err == nil && !sees {
		return fmt.Errorf("%w: grant pg_monitor to it", errBlind)
	}
	return err
}

// minFree connections, or a tenth of all, are the least head-room.
const minFree = 3

func checkConnections(ctx context.Context, p *patient) ([]finding, error) {
	var out []finding
	var most, used int
	// reserved_connections is there from Postgres 16 on.
	err := p.db.QueryRow(ctx, `select current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
			- coalesce(current_setting('reserved_connections', true)::int, 0),
		(select coalesce(sum(numbackends), 0)::int from pg_stat_database)`).Scan(&most, &used)
	if err != nil {
		return nil, err
	}
	if free := most - used; free < max(minFree, most/10) {
		out = append(out, found("connections-low", "server", fmt.Sprintf("%d of the server's %d connections are in use", used, most),
			"select usename, application_name, count(*) from pg_stat_activity group by 1, 2 order by 3 desc; make pools smaller, or put PgBouncer between"))
	}
	err = p.db.QueryRow(ctx, `select d.datconnlimit, s.numbackends from pg_database d join pg_stat_database s on s.datid = d.oid
		where d.datname = current_database()`).Scan(&most, &used)
	if err == nil && most >= 0 && most-used < max(minFree, most/10) {
		out = append(out, found("connections-low", "database", fmt.Sprintf("%d of the %d connections that the database allows are in use", used, most),
			"alter database … connection limit -1;"))
	}
	return out, err
}

func checkTransactions(ctx context.Context, p *patient) ([]finding, error) {
	if err := p.sees(ctx); err != nil {
		return nil, err
	}
	rows, err := p.db.Query(ctx, `select pid, coalesce(usename, ''), coalesce(application_name, ''), coalesce(state, ''), clock_timestamp() - xact_start
		from pg_stat_activity
		where datname = current_database() and backend_type = 'client backend' and pid <> pg_backend_pid()
			and xact_start < clock_timestamp() - $1::interval
		order by xact_start limit 10`, p.thresh.long)
	if err != nil {
		return nil, err
	}
	var out []finding
	var pid int
	var user, application, state string
	var age time.Duration
	_, err = pgx.ForEachRow(rows, []any{&pid, &user, &application, &state, &age}, func() error {
		out = append(out, found("transaction-long", fmt.Sprintf("pid %d", pid),
			fmt.Sprintf("a transaction of role %s, application %q, is open for %s; its session is %s", user, application, ago(age), state),
			fmt.Sprintf("select pg_terminate_backend(%d); -- after a look at what it does", pid)))
		return nil
	})
	return out, err
}

func checkPrepared(ctx context.Context, p *patient) ([]finding, error) {
	rows, err := p.db.Query(ctx, `select gid, owner::text, clock_timestamp() - prepared from pg_prepared_xacts
		where database = current_database() and prepared < clock_timestamp() - $1::interval order by prepared limit 10`, p.thresh.long)
	if err != nil {
		return nil, err
	}
	var out []finding
	var gid, owner string
	var age time.Duration
	_, err = pgx.ForEachRow(rows, []any{&gid, &owner, &age}, func() error {
		out = append(out, found("transaction-prepared", gid, fmt.Sprintf("a transaction of role %s was prepared %s ago, and nobody has ended it", owner, ago(age)),
			"ask its coordinator; then commit prepared '"+gid+"'; or rollback prepared '"+gid+"';"))
		return nil
	})
	return out, err
}

func checkSlots(ctx context.Context, p *patient) ([]finding, error) {
	rows, err := p.db.Query(ctx, `select slot_name::text, coalesce(pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn), 0)::bigint
		from pg_replication_slots where not active and (restart_lsn is not null or xmin is not null) order by 1 limit 10`)
	if err != nil {
		return nil, err
	}
	var out []finding
	var name string
	var behind int64
	_, err = pgx.ForEachRow(rows, []any{&name, &behind}, func() error {
		out = append(out, found("slot-inactive", name, fmt.Sprintf("nobody reads from the replication slot %s, and the server keeps %d MiB of log for it", name, behind>>20),
			"start its reader, or drop it: select pg_drop_replication_slot('"+name+"');"))
		return nil
	})
	return out, err
}
