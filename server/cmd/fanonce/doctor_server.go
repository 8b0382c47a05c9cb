package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// settings returns what the service's role has in its sessions. What alter role made of another role shows only when
// that role logs in, so it is read from where it is kept.
func (p *patient) settings(ctx context.Context, names ...string) (map[string]string, error) {
	rows, _ := p.db.Query(ctx, `select s.name, coalesce(own.value, s.setting) from pg_settings s left join lateral (
			select substr(line, length(s.name) + 2) as value
			from pg_db_role_setting d join pg_roles r on r.oid = d.setrole cross join unnest(d.setconfig) line
			where $2 and r.rolname = $3 and starts_with(line, s.name || '=')
				and d.setdatabase in (0, (select oid from pg_database where datname = current_database()))
			order by d.setdatabase desc limit 1) own on true
		where s.name = any ($1)`, names, p.other, p.role) // the rows have the error
	out := map[string]string{}
	var name, value string
	_, err := pgx.ForEachRow(rows, []any{&name, &value}, func() error {
		out[name] = value
		return nil
	})
	return out, err
}

// findRows returns a finding for each row of a query, whose columns are in the variables of dest.
func (p *patient) findRows(ctx context.Context, dest []any, toFinding func() finding, sql string, args ...any) (out []finding, err error) {
	rows, _ := p.db.Query(ctx, sql, args...) // the rows have the error
	_, err = pgx.ForEachRow(rows, dest, func() error {
		out = append(out, toFinding())
		return nil
	})
	return out, err
}

// texts returns the one column of a query.
func (p *patient) texts(ctx context.Context, sql string, args ...any) ([]string, error) {
	rows, _ := p.db.Query(ctx, sql, args...) // the rows have the error
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// everywhere is what changes a setting of the server, unless the command line of the server has it.
func everywhere(setting, value string) string {
	return fmt.Sprintf("alter system set %s = %s; select pg_reload_conf();", setting, value)
}

func checkDurability(ctx context.Context, p *patient) ([]finding, error) {
	s, err := p.settings(ctx, "fsync", "full_page_writes", "synchronous_commit", "synchronous_standby_names")
	if err != nil {
		return nil, err
	}
	var out []finding
	if s["fsync"] == "off" {
		out = append(out, found("fsync-off", "", "fsync is off", everywhere("fsync", "on")))
	}
	if s["full_page_writes"] == "off" {
		out = append(out, found("full-page-writes-off", "", "full_page_writes is off", everywhere("full_page_writes", "on")))
	}
	const where = "find who sets it: select * from pg_db_role_setting; show synchronous_commit;"
	switch {
	case s["synchronous_commit"] == "off":
		out = append(out, found("synchronous-commit-off", "", "synchronous_commit is off for this role in this database", where,
			everywhere("synchronous_commit", "on")))
	case s["synchronous_commit"] == "local" && s["synchronous_standby_names"] != "":
		out = append(out, found("synchronous-commit-local", "", "synchronous_commit is local, although the server has synchronous standbys", where,
			everywhere("synchronous_commit", "on")))
	}
	return out, nil
}

func checkIsStandby(_ context.Context, p *patient) ([]finding, error) {
	if !p.standby {
		return nil, nil
	}
	return []finding{found("standby-server", "", "this server is a standby; checks that need the primary were left out",
		"connect to the primary: add its host and target_session_attrs=read-write to the database's address")}, nil
}

func checkReadOnly(ctx context.Context, p *patient) ([]finding, error) {
	s, err := p.settings(ctx, "default_transaction_read_only")
	if err != nil || s["default_transaction_read_only"] != "on" {
		return nil, err
	}
	return []finding{found("read-only", "", "default_transaction_read_only is on for this role in this database",
		fmt.Sprintf("alter role %s reset default_transaction_read_only; -- or alter database, or alter system", identifier(p.role)))}, nil
}

// maxLagBytes of log is a second or so of a busy server.
const maxLagBytes = 64 << 20

func checkReplication(ctx context.Context, p *patient) ([]finding, error) {
	if err := p.sees(ctx); err != nil {
		return nil, err
	}
	s, err := p.settings(ctx, "synchronous_standby_names")
	if err != nil {
		return nil, err
	}
	// Subscribers of logical replication and backups are no standbys to fail over to.
	rows, err := p.db.Query(ctx, `select coalesce(nullif(r.application_name, ''), 'pid ' || r.pid), r.sync_state in ('sync', 'quorum', 'potential'),
			coalesce(pg_wal_lsn_diff(pg_current_wal_lsn(), r.replay_lsn), 0)::bigint
		from pg_stat_replication r
		where r.state <> 'backup' and not exists (select from pg_replication_slots s where s.active_pid = r.pid and s.slot_type = 'logical')
		order by 1`)
	if err != nil {
		return nil, err
	}
	var out []finding
	var name string
	var synchronous, some bool
	var lag int64
	_, err = pgx.ForEachRow(rows, []any{&name, &synchronous, &lag}, func() error {
		some = some || synchronous
		if !synchronous && s["synchronous_standby_names"] == "" {
			out = append(out, found("standby-asynchronous", name, "no commit waits for the standby "+name,
				everywhere("synchronous_standby_names", "'"+strings.ReplaceAll(name, "'", "''")+"'")+" -- or never fail over to it"))
		}
		if lag > maxLagBytes {
			out = append(out, found("standby-lagging", name, fmt.Sprintf("the standby %s is %d MiB of log behind", name, lag>>20),
				"on the standby: select pg_is_wal_replay_paused(); look at its disk, its network and its long queries"))
		}
		return nil
	})
	if err == nil && s["synchronous_standby_names"] != "" && !some {
		out = append(out, found("standby-sync-missing", "", "synchronous_standby_names is "+s["synchronous_standby_names"]+", and no such standby is connected",
			"start the standby; or, if losing answers in a failover is accepted: "+everywhere("synchronous_standby_names", "''")))
	}
	return out, err
}

// checkPooler finds out whether two connections share a session of the server. A connection that is idle
// keeps its own session, unless a pooler gives it to others.
func checkPooler(ctx context.Context, p *patient) ([]finding, error) {
	first, err := p.db.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer first.Release()
	second, err := p.db.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer second.Release()
	const ask = "select pg_backend_pid()"
	for range 5 { // a pooler may take turns
		var one, other int
		if err := first.QueryRow(ctx, ask).Scan(&one); err != nil {
			return nil, err
		}
		if err := second.QueryRow(ctx, ask).Scan(&other); err != nil {
			return nil, err
		}
		if one == other {
			return []finding{found("pooler-transaction", "", "a pooler in transaction mode is between this machine and the server",
				"give Config.Listen, the role that maintains partitions, and migrations an address without the pooler; "+
					"leave DefaultQueryExecMode as it is; then --ignore pooler-transaction")}, nil
		}
	}
	return nil, nil
}

func checkClock(ctx context.Context, p *patient) ([]finding, error) {
	before := time.Now()
	var theirs time.Time
	if err := p.db.QueryRow(ctx, "select clock_timestamp()").Scan(&theirs); err != nil {
		return nil, err
	}
	after := time.Now()
	var skew time.Duration // at least
	switch {
	case theirs.Before(before):
		skew = theirs.Sub(before)
	case theirs.After(after):
		skew = theirs.Sub(after)
	}
	if skew.Abs() <= p.thresh.skew {
		return nil, nil
	}
	return []finding{found("clock-skew", "", fmt.Sprintf("the database's clock is %v from this machine's", skew.Round(time.Millisecond)),
		"on both machines: chronyc tracking, or timedatectl timesync-status")}, nil
}

// defaultJITCost is Postgres' own jit_above_cost.
const defaultJITCost = 100_000

func checkJIT(ctx context.Context, p *patient) ([]finding, error) {
	s, err := p.settings(ctx, "jit", "jit_above_cost")
	if err != nil {
		return nil, err
	}
	var short bool
	err = p.db.QueryRow(ctx, "select $1::text::boolean and pg_jit_available() and $2::text::float8 between 0 and $3::float8 - 1",
		s["jit"], s["jit_above_cost"], defaultJITCost).Scan(&short)
	if err != nil || !short {
		return nil, err
	}
	return []finding{found("jit-short", "", "jit is on, and jit_above_cost is below its default",
		fmt.Sprintf("alter role %s set jit = off;", identifier(p.role)))}, nil
}

func checkIdle(ctx context.Context, p *patient) ([]finding, error) {
	s, err := p.settings(ctx, "idle_in_transaction_session_timeout")
	if err != nil || s["idle_in_transaction_session_timeout"] != "0" {
		return nil, err
	}
	return []finding{found("idle-in-transaction-unbounded", "", "idle_in_transaction_session_timeout is off for this role in this database",
		fmt.Sprintf("alter role %s set idle_in_transaction_session_timeout = '1min';", identifier(p.role)))}, nil
}

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
	var pid int
	var user, application, state string
	var age time.Duration
	return p.findRows(ctx, []any{&pid, &user, &application, &state, &age}, func() finding {
		return found("transaction-long", fmt.Sprintf("pid %d", pid),
			fmt.Sprintf("a transaction of role %s, application %q, is open for %s; its session is %s", user, application, ago(age), state),
			fmt.Sprintf("select pg_terminate_backend(%d); -- after a look at what it does", pid))
	}, `select pid, coalesce(usename, ''), coalesce(application_name, ''), coalesce(state, ''), clock_timestamp() - xact_start
		from pg_stat_activity
		where datname = current_database() and backend_type = 'client backend' and pid <> pg_backend_pid()
			and xact_start < clock_timestamp() - $1::interval
		order by xact_start limit 10`, p.thresh.long)
}

func checkPrepared(ctx context.Context, p *patient) ([]finding, error) {
	var gid, owner string
	var age time.Duration
	return p.findRows(ctx, []any{&gid, &owner, &age}, func() finding {
		return found("transaction-prepared", gid, fmt.Sprintf("a transaction of role %s was prepared %s ago, and nobody has ended it", owner, ago(age)),
			"ask its coordinator; then commit prepared '"+gid+"'; or rollback prepared '"+gid+"';")
	}, `select gid, owner::text, clock_timestamp() - prepared from pg_prepared_xacts
		where database = current_database() and prepared < clock_timestamp() - $1::interval order by prepared limit 10`, p.thresh.long)
}

func checkSlots(ctx context.Context, p *patient) ([]finding, error) {
	var name string
	var behind int64
	return p.findRows(ctx, []any{&name, &behind}, func() finding {
		return found("slot-inactive", name, fmt.Sprintf("nobody reads from the replication slot %s, and the server keeps %d MiB of log for it", name, behind>>20),
			"start its reader, or drop it: select pg_drop_replication_slot('"+name+"');")
	}, `select slot_name::text, coalesce(pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn), 0)::bigint
		from pg_replication_slots where not active and (restart_lsn is not null or xmin is not null) order by 1 limit 10`)
}
