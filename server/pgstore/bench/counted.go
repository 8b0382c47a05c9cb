package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"
)

// statistics is the contrib module of Postgres' that counts statements.
const statistics = "pg_stat_statements"

// countedRole is the role whose statements are counted. No other role's statements are counted: the
// time of counting grows with the number of statements, and pgbench sends most.
const countedRole = "counted"

// startCounting makes the role, with the password of the superuser, and the extension that shows
// the counts.
func (p *postgres) startCounting(ctx context.Context) error {
	u, err := url.Parse(p.cluster.URL(""))
	if err != nil {
		return err
	}
	password, _ := u.User.Password()
	return script(fmt.Sprintf(`create extension %[1]s; create role %[2]s superuser login password '%[3]s';
		alter role %[2]s set %[1]s.track = 'top'; alter role %[2]s set compute_query_id = 'on'`,
		statistics, countedRole, strings.ReplaceAll(password, "'", "''")))(ctx, p.look)
}

// counts reports whether the server can count statements.
func (p *postgres) counts() bool { return p.uncounted == nil }

// toCounted returns the same database for the role whose statements are counted.
func (d *database) toCounted() (*database, error) {
	if !d.server.counts() {
		return d, nil
	}
	u, err := url.Parse(d.url)
	if err != nil {
		return nil, err
	}
	password, _ := u.User.Password()
	u.User = url.UserPassword(countedRole, password)
	c := *d
	c.url = u.String()
	return &c, nil
}

// sent returns how many statements of theirs the server has carried out in the
// database, BEGIN and COMMIT too; 0 where it cannot count.
func (d *database) sent(ctx context.Context) (float64, error) { return d.statistic(ctx, "calls") }

// logBytes returns how many bytes of log those statements have written.
func (d *database) logBytes(ctx context.Context) (float64, error) {
	return d.statistic(ctx, "wal_bytes")
}

func (d *database) statistic(ctx context.Context, column string) (sum float64, err error) {
	if !d.server.counts() {
		return 0, nil
	}
	return sum, d.server.look.QueryRow(ctx, `select coalesce(sum(s.`+column+`), 0)::float8 from `+statistics+` s
		join pg_database d on d.oid = s.dbid where d.datname = $1`, d.name).Scan(&sum)
}

// counts are of the statements of who is counted: how many, and their bytes of log.
type counts struct{ sent, logged float64 }

func (d *database) theirs(ctx context.Context) (c counts, err error) {
	if c.sent, err = d.sent(ctx); err == nil {
		c.logged, err = d.logBytes(ctx)
	}
	return c, err
}

// statements returns a measure of the statements that sent has counted, and no measure where the
// server cannot count.
func (d *database) statements(name string, counts []float64, goal *goal) []measure {
	if !d.server.counts() {
		d.server.missed = true
		return nil
	}
	return []measure{spreadOf(counts).Measure(name, "", goal)}
}

// commits returns how many transactions were committed in the database. Sessions
// may say so when they end, so that it waits until all have; d.look's end, too.
func (d *database) commits(ctx context.Context) (n float64, err error) {
	d.look.Reset()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for left := 1; left > 0 && err == nil; {
		err = d.server.look.QueryRow(ctx, "select count(*) from pg_stat_activity where datname = $1 and backend_type = 'client backend'", d.name).Scan(&left)
		if left > 0 {
			time.Sleep(2 * time.Millisecond)
		}
	}
	if err != nil {
		return 0, errors.Join(err, context.Cause(ctx))
	}
	return n, d.server.look.QueryRow(ctx, "select xact_commit::float8 from pg_stat_database where datname = $1", d.name).Scan(&n)
}
