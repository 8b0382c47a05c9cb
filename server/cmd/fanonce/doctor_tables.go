package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/saga/pgjournal"
	"github.com/fanonce/fanonce/server/pgstore"
)

func checkAutovacuum(ctx context.Context, p *patient) ([]finding, error) {
	s, err := p.settings(ctx, "autovacuum", "track_counts")
	if err != nil {
		return nil, err
	}
	var out []finding
	for _, name := range []string{"autovacuum", "track_counts"} {
		if s[name] == "off" {
			out = append(out, found("autovacuum-off", "", name+" is off", everywhere(name, "on")))
		}
	}
	tables, err := p.texts(ctx, `select c.oid::regclass::text from pg_class c
		where c.oid = any ($1::text[]::regclass[]) and exists (
			select from pg_options_to_table(c.reloptions) where option_name = 'autovacuum_enabled' and not option_value::boolean)
		order by 1`, p.names())
	for _, table := range tables {
		out = append(out, found("autovacuum-off-table", table, "autovacuum is off for "+table,
			"alter table "+table+" reset (autovacuum_enabled); vacuum (analyze) "+table+";"))
	}
	return out, err
}

// Below minDeadRows no statement is slow. Above it, dead rows are too many once they are more than a fifth of the
// live ones: autovacuum begins at a fiftieth.
const minDeadRows = 10_000

func checkDeadRows(ctx context.Context, p *patient) ([]finding, error) {
	var table string
	var dead, live int64
	return p.findRows(ctx, []any{&table, &dead, &live}, func() finding {
		return found("dead-rows", table, fmt.Sprintf("%s has %d dead rows beside %d live ones", table, dead, live),
			"vacuum (verbose, analyze) "+table+"; -- its output says what holds dead rows back")
	}, `select relid::regclass::text, n_dead_tup, n_live_tup from pg_stat_user_tables
		where relid = any ($1::text[]::regclass[]) and n_dead_tup > greatest($2::bigint, n_live_tup / 5) order by 1`, p.names(), minDeadRows)
}

// An entry of an index takes at most about 50 bytes, so four times as much means that most of the index is empty.
const (
	entryBytes    = 50
	bloatFactor   = 4
	minIndexBytes = 8 << 20
)

func checkIndexSize(ctx context.Context, p *patient) ([]finding, error) {
	var index string
	var bytes, entries int64
	return p.findRows(ctx, []any{&index, &bytes, &entries}, func() finding {
		return found("index-bloat", index, fmt.Sprintf("%s has %d MiB for about %d entries", index, bytes>>20, entries),
			"reindex index concurrently "+index+";")
	}, `select c.oid::regclass::text, pg_relation_size(c.oid), c.reltuples::bigint
		from pg_index i join pg_class c on c.oid = i.indexrelid
		where i.indrelid = any ($1::text[]::regclass[]) and c.relkind = 'i' and c.reltuples >= 0
			and pg_relation_size(c.oid) > greatest($2::bigint, $3::bigint * c.reltuples)
		order by 1`, p.names(), minIndexBytes, bloatFactor*entryBytes)
}

func checkWraparound(ctx context.Context, p *patient) ([]finding, error) {
	var age, most int64
	err := p.db.QueryRow(ctx, `select age(datfrozenxid)::bigint, current_setting('autovacuum_freeze_max_age')::bigint
		from pg_database where datname = current_database()`).Scan(&age, &most)
	// Autovacuum begins at most; one and a half times as much means that it does not get through.
	if err != nil || age < most+most/2 {
		return nil, err
	}
	return []finding{found("wraparound", "", fmt.Sprintf("the oldest row is %d transactions old, and autovacuum should freeze rows at %d", age, most),
		"end what doctor calls transaction-long, transaction-prepared and slot-inactive; then: vacuum (freeze, verbose);")}, nil
}

func checkPartitions(ctx context.Context, p *patient) ([]finding, error) {
	if !p.has("keys") {
		return nil, nil
	}
	var standard, ranges int
	var until *time.Time
	err := p.db.QueryRow(ctx, `select count(*) filter (where bounds = 'DEFAULT'), count(*) filter (where bounds <> 'DEFAULT'),
			max(substring(bounds from 'TO \(''([^'']+)''\)')::timestamptz)
		from (select pg_get_expr(c.relpartbound, c.oid) as bounds from pg_inherits i join pg_class c on c.oid = i.inhrelid
			where i.inhparent = $1::text::regclass) p`, qualify(p.schema, "idempotency_answer")).Scan(&standard, &ranges, &until)
	if err != nil {
		return nil, err
	}
	var out []finding
	if standard > 0 {
		out = append(out, found("partitions-default", "idempotency_answer", "idempotency_answer has a default partition",
			"select * from it, move its rows, then: alter table idempotency_answer detach partition …;"))
	}
	if ranges > 0 && (until == nil || time.Until(*until) < p.thresh.answers) {
		out = append(out, found("partitions-behind", "idempotency_answer",
			fmt.Sprintf("the last partition of answers ends at %s, and answers are kept for %s", stampOf(until), ago(p.thresh.answers)),
			"let the role that owns the tables run Guard.RunSweeper or Store.MaintainPartitions; if answers are kept for less, give --answers-kept"))
	}
	return out, nil
}

func stampOf(t *time.Time) string {
	if t == nil {
		return "an unknown time"
	}
	return stamp(*t)
}

// sweepLate is how long rows may stay past their time.
const (
	sweepLate = time.Hour
	manyRows  = 10_000 // more are not counted
)

// expired are the rows that a sweep deletes, by component. They are found by the indexes of the sweeps. The time is
// statement_timestamp: clock_timestamp may differ for each row, so no index can be searched for it.
var expired = map[string]struct{ table, rows string }{
	"keys": {"idempotency", `expires_at < statement_timestamp() - $1::interval and (state in (3, 6)
		or (state = 2 and replay_until < statement_timestamp() - $1::interval)
		or (state = 1 and lease_until < statement_timestamp() - $1::interval and effect <> 3))`},
	"sagas": {"saga", `status in (3, 4, 6) and expires_at < statement_timestamp() - $1::interval`},
}

// countExpired counts rows that are past their time for so long, up to manyRows.
func (a *app) countExpired(ctx context.Context, db *pgxpool.Pool, name string, late time.Duration) (n int64, err error) {
	e := expired[name]
	err = db.QueryRow(ctx, fmt.Sprintf("select count(*) from (select from %s where %s limit %d) e",
		qualify(a.schema, e.table), e.rows, manyRows), late).Scan(&n)
	return n, err
}

func checkSweep(ctx context.Context, p *patient) ([]finding, error) {
	var out []finding
	for _, c := range p.tables {
		if _, ok := expired[c.name]; !ok {
			continue
		}
		n, err := p.countExpired(ctx, p.db, c.name, sweepLate)
		if err != nil {
			return out, err
		}
		if n > 0 {
			out = append(out, found("sweep-lag", c.name, fmt.Sprintf("%s %s past %s time for more than %s", formatCount(n), plural(int(n), strings.TrimSuffix(c.name, "s")+" is", c.name+" are"),
				plural(int(n), "its", "their"), ago(sweepLate)),
				"fanonce sweep; and run Guard.RunSweeper and Engine.RunSweeper in a service"))
		}
	}
	return out, nil
}

// formatCount is a number that may be the end of the count.
func formatCount(n int64) string {
	if n >= manyRows {
		return fmt.Sprintf("%d or more", n)
	}
	return fmt.Sprint(n)
}

func checkAttention(ctx context.Context, p *patient) ([]finding, error) {
	if !p.has("keys") {
		return nil, nil
	}
	s, err := pgstore.New(p.db, pgstore.Config{Schema: p.schema})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	at, err := s.Reader().Attention(ctx)
	if err != nil || at.Unknown+at.Quarantined+at.DeadLetters == 0 {
		return nil, err
	}
	return []finding{found("keys-attention", "", fmt.Sprintf("keys need a person: %d unknown, %d quarantined, %s; the oldest is %s old",
		at.Unknown, at.Quarantined, count(int(at.DeadLetters), "dead letter"), ago(at.Oldest)), "fanonce keys list; then fanonce keys resolve --as … --reason … ID")}, nil
}

func checkSagas(ctx context.Context, p *patient) ([]finding, error) {
	if !p.has("sagas") {
		return nil, nil
	}
	j, err := pgjournal.New(p.db, pgjournal.Config{Schema: p.schema})
	if err != nil {
		return nil, err
	}
	defer j.Close()
	s, err := j.Stats(ctx)
	if err != nil {
		return nil, err
	}
	var out []finding
	if n := s.ByStatus[journal.Stuck]; n > 0 {
		out = append(out, found("sagas-stuck", "", formatCount(n)+" "+plural(int(n), "saga is", "sagas are")+" stuck", "fanonce saga list; then fanonce saga retry --reason … ID, or another verb"))
	}
	if s.Deferred > 0 {
		out = append(out, found("sagas-deferred", "", formatCount(s.Deferred)+" "+plural(int(s.Deferred), "saga is", "sagas are")+" deferred", "deploy the build that started them, or the newest"))
	}
	if s.Unowned > 0 {
		var engines int
		err = p.db.QueryRow(ctx, "select count(*) from "+qualify(p.schema, "saga_engine")+
			" where lease_until >= clock_timestamp() and not has_left").Scan(&engines)
		if err == nil && engines == 0 {
			out = append(out, found("sagas-no-engine", "", formatCount(s.Unowned)+" "+plural(int(s.Unowned), "saga is", "sagas are")+" due, and no engine has a lease",
				"start a service that calls saga.Open with the definitions of these sagas"))
		}
	}
	return out, err
}
