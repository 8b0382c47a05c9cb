package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

//go:embed script
var scripts embed.FS

// The scripts that Postgres' own client runs on the store's table and rows. It is a program in C
// without keys to hash or answers to encode.
const (
	insertAlone = "insert.sql"
	twoCommits  = "two_commits.sql"
	oneCommit   = "one_commit.sql"
	batches     = "batches.sql"
)

// completed counts the rows that are finished and whole.
const completed = "select count(*) from idempotency where state = 2 and status = 200 and length(envelope) = 200"

// A pgbench is one that runs, stopped but for its turns: it connects only once.
type pgbench struct {
	*database

	child       *child
	folder      string
	connections int
	done        string // the query that counts what it did
	counted     int    // by it, when it was last asked
	ahead       int    // rows that each connection may have finished since
}

// pgbenchVariant is a pgbench with its best number of connections among those
// that the effort names.
func pgbenchVariant(ctx context.Context, e effort, server *postgres, name, file string) (*variant, error) {
	best, err := bestConnections(ctx, e, server, file)
	if err != nil {
		return nil, err
	}
	db, err := server.database(ctx, migrateStore)
	if err != nil {
		return nil, err
	}
	b, err := startPgbench(ctx, db, file, best)
	if err != nil {
		return nil, errors.Join(err, db.drop())
	}
	v := b.variant(name)
	v.close = func() error { return errors.Join(b.stop(), db.drop()) }
	return v, nil
}

func (p *pgbench) variant(name string) *variant {
	before := p.counted
	return &variant{
		name: name, server: p.server, connections: p.connections, turn: p.turn, tally: p.tally,
		check: func(ctx context.Context, operations int) error { return p.check(ctx, before+operations) },
		close: p.stop,
	}
}

// bestConnections returns the number that does most, in a database that is gone behind it:
// a contest is to begin with as few rows for pgbench as for the others.
func bestConnections(ctx context.Context, e effort, server *postgres, file string) (best int, err error) {
	db, err := server.database(ctx, migrateStore)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, db.drop()) }()
	return bestOf(e.connections, triesOfConnections, func(n int) (w work, err error) {
		b, err := startPgbench(ctx, db, file, n)
		if err != nil {
			return w, err
		}
		return tryOut(ctx, e, b.variant(file))
	})
}

func startPgbench(ctx context.Context, db *database, file string, connections int) (_ *pgbench, err error) {
	program, err := db.server.program("pgbench")
	if err != nil {
		return nil, err
	}
	b := &pgbench{database: db, done: completed, connections: connections, ahead: rowsOf(file)}
	if file == insertAlone {
		b.done = "select count(*) from idempotency"
	}
	if b.folder, err = os.MkdirTemp("", "fanonce-bench-"); err != nil {
		return nil, err
	}
	before, err := b.countDone(ctx)
	if err == nil {
		b.child, err = b.launch(program, file)
	}
	if err == nil { // it begins when all are connected
		err = until(ctx, b.child, "start pgbench", func() (bool, error) {
			n, err := b.countDone(ctx)
			return n > before, err
		})
	}
	if err == nil {
		err = b.pause(ctx)
	}
	if err == nil {
		_, err = b.tally(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, b.stop())
	}
	return b, nil
}

// rowsOf is how many rows one statement of a script finishes.
func rowsOf(file string) int {
	if file == batches {
		return 256
	}
	return 1
}

func (p *pgbench) launch(program, file string) (*child, error) {
	cmd, err := p.command(program, file, "-T", "86400")
	if err != nil {
		return nil, err
	}
	return launch(cmd)
}

// command is pgbench with the script and these arguments besides.
func (p *pgbench) command(program, file string, args ...string) (*exec.Cmd, error) {
	text, err := scripts.ReadFile("script/" + file)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(p.folder, file)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return nil, err
	}
	u, err := url.Parse(p.url)
	if err != nil {
		return nil, err
	}
	password, _ := u.User.Password()
	cmd := exec.Command(program, append(args, "-n", "-M", "prepared", "-c", strconv.Itoa(p.connections), "-j", strconv.Itoa(min(4, p.connections)), //nolint:noctx // it is ended by stop
		"-f", path, "-h", p.server.socket, "-p", u.Query().Get("port"), "-U", u.User.Username(), p.name)...)
	// It may read the table as a whole otherwise to find 256 rows.
	cmd.Env = append(os.Environ(), "PGPASSWORD="+password, "PGOPTIONS=-c enable_hashjoin=off -c enable_mergejoin=off -c enable_seqscan=off")
	return cmd, nil
}

func (p *pgbench) countDone(ctx context.Context) (int, error) { return p.count(ctx, p.done) }

// turn lets pgbench go on for a while. Work of its server at the end of the time counts.
func (p *pgbench) turn(ctx context.Context, length time.Duration) (w work, err error) {
	start := time.Now()
	if err := p.child.process.Signal(syscall.SIGCONT); err != nil {
		return w, err
	}
	select {
	case <-time.After(length):
	case <-ctx.Done():
	case <-p.child.done:
		return w, fmt.Errorf("bench: pgbench ended: %w", p.child.err)
	}
	w.took = time.Since(start)
	return w, p.pause(ctx)
}

// pause stops pgbench, and waits until the server has done what it was asked.
func (p *pgbench) pause(ctx context.Context) error {
	if err := p.child.process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	return until(ctx, p.child, "stop pgbench", func() (bool, error) {
		n, err := p.count(ctx, "select count(*) from pg_stat_activity where datname = current_database() and application_name = 'pgbench' and state = 'active'")
		return n == 0, err
	})
}

// tally returns what has been done since it was last called. It reads the whole table, which is not
// pgbench's work and must not be charged to it. A statement that the server begins later counts the
// next time.
func (p *pgbench) tally(ctx context.Context) (operations int, err error) {
	n, err := p.countDone(ctx)
	if err != nil {
		return 0, err
	}
	operations, p.counted = n-p.counted, n
	return operations, nil
}

// check looks whether the counted rows are all rows, except for those after the last count: one
// statement of each connection.
func (p *pgbench) check(ctx context.Context, operations int) error {
	n, err := p.countDone(ctx)
	if err == nil && (n < operations || n > operations+p.ahead*p.connections) {
		err = fmt.Errorf("%d rows are finished, %d operations were counted", n, operations)
	}
	return err
}

func (p *pgbench) stop() (err error) {
	if p.child != nil {
		err = p.child.stop(syscall.SIGKILL)
	}
	return errors.Join(err, os.RemoveAll(p.folder))
}
