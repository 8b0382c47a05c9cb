package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// settings reads settings of the server, as this session has them.
func (p *patient) settings(ctx context.Context, names ...string) (map[string]string, error) {
	rows, err := p.db.Query(ctx, "select name, setting from pg_settings where name = any ($1)", names)
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	var name, value string
	_, err = pgx.ForEachRow(rows, []any{&name, &value}, func() error {
		out[name] = value
		return nil
	})
	return out, err
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
	var short bool
	err := p.db.QueryRow(ctx, `select current_setting('jit')::boolean and pg_jit_available()
		and current_setting('jit_above_cost')::float8 between 0 and $1::float8 - 1`, defaultJITCost).Scan(&short)
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
