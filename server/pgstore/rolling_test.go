package pgstore_test

import (
	"context"
	"fmt"
	"io/fs"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/internal/pgkit"
	"github.com/fanonce/fanonce/internal/pgkit/component"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/pgtest"
	"github.com/fanonce/fanonce/server/store"
)

// migrations are the library's own steps, with the ways back that users do not need.
var migrations = component.Migrations{Component: "idempotency", Files: pgstore.MigrationFiles}

// nextVersion has one step more than the library today: the step adds a column, and so needs the lock of a table in
// use. Programs that know the version oldest can run beside it.
func nextVersion(t *testing.T, oldest int) component.Migrations {
	t.Helper()
	files := make(fstest.MapFS)
	require.NoError(t, fs.WalkDir(pgstore.MigrationFiles, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(pgstore.MigrationFiles, path)
		files[path] = &fstest.MapFile{Data: text}
		return err
	}))
	n := len(files)/2 + 1
	number, oldestText := strconv.Itoa(n), strconv.Itoa(oldest)
	name := fmt.Sprintf("%04d_later", n)
	files[name+".up.sql"] = &fstest.MapFile{Data: []byte(
		"alter table idempotency add column later integer not null default 7;\n" +
			"insert into idempotency_version (version, oldest) values (" + number + ", " + oldestText + ");\n")}
	files[name+".down.sql"] = &fstest.MapFile{Data: []byte(
		"alter table idempotency drop column later;\ndelete from idempotency_version where version = " + number + ";\n")}
	return component.Migrations{Component: migrations.Component, Files: files}
}

func latestVersion(t *testing.T) int {
	t.Helper()
	latest, err := migrations.Latest()
	require.NoError(t, err)
	return latest
}

// A traffic sends requests of every kind to several stores, until it is ended.
type traffic struct {
	stop   context.CancelFunc
	wg     sync.WaitGroup
	rounds atomic.Int64

	mu      sync.Mutex
	failed  error
	slowest time.Duration
}

func trafficOn(t *testing.T, stores ...*pgstore.Store) *traffic {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	l := &traffic{stop: stop}
	for i := range 4 * len(stores) {
		l.wg.Go(func() {
			for ctx.Err() == nil {
				began := time.Now()
				err := roundTrip(context.WithoutCancel(ctx), stores[i%len(stores)])
				l.note(err, time.Since(began))
			}
		})
	}
	t.Cleanup(func() { stop(); l.wg.Wait() })
	return l
}

func (l *traffic) note(err error, took time.Duration) {
	l.rounds.Add(1)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.slowest = max(l.slowest, took)
	if l.failed == nil {
		l.failed = err
	}
}

// goesOn waits until requests that began after now have ended.
func (l *traffic) goesOn(t *testing.T) {
	t.Helper()
	from := l.rounds.Load()
	until(t, "requests go on", func() bool { return l.rounds.Load() > from+100 })
}

func (l *traffic) end(t *testing.T) {
	t.Helper()
	l.stop()
	l.wg.Wait()
	require.NoError(t, l.failed, "in %d rounds", l.rounds.Load())
}

// roundTrip is a claim with its duplicate, renewal, settlement and replay, and one of a
// transaction.
func roundTrip(ctx context.Context, s *pgstore.Store) error {
	req := newClaim()
	r, _, err := s.Claim(ctx, req)
	if err != nil {
		return err
	}
	o := store.Owner{ID: req.ID, Token: req.Token, Fence: r.Fence}
	if _, _, err = s.Claim(ctx, claimOf(req.ID)); err != nil {
		return err
	}
	if err := renewSoon(ctx, s, o); err != nil {
		return err
	}
	if err := s.Settle(ctx, o, completion); err != nil {
		return err
	}
	if _, err := s.Read(ctx, req.ID); err != nil {
		return err
	}
	return roundTripTx(ctx, s)
}

// renewSoon renews as a guard does: it repeats a renewal that met a lock. A statement of a migration holds every
// record for a moment, and a renewal waits for a shorter one.
func renewSoon(ctx context.Context, s *pgstore.Store, o store.Owner) error {
	_, err := pgkit.RetryLocked(ctx, 5*time.Second, func() (store.Renewal, error) {
		return s.Renew(ctx, []store.Owner{o}, time.Hour)
	})
	return err
}

func roundTripTx(ctx context.Context, s *pgstore.Store) error {
	req := newClaim()
	r, _, err := s.Claim(ctx, req)
	if err != nil {
		return err
	}
	tx, err := s.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(ctx) }()
	inside := tx.NewContext(ctx)
	if _, err := pgstore.Tx(inside).Exec(inside, "select 1"); err != nil {
		return err
	}
	return tx.Settle(ctx, store.Owner{ID: req.ID, Token: req.Token, Fence: r.Fence}, completion)
}

// A rolling deploy: the first new process migrates while the old processes work. The old processes go on, stay ready,
// and can start again, also beside new processes. The same holds when the deploy is reverted.
func TestRolling_versionsBesideEachOther(t *testing.T) {
	t.Parallel()
	look := pgtest.NewPool(t, nil)
	require.NoError(t, pgstore.Version1.Migrate(t.Context(), look, ""))
	old := version1(t, look, size(4))
	described := version1(t, look, size(4), func(cfg *pgxpool.Config) {
		cfg.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe // as behind a pooler
	})
	l := trafficOn(t, old, described)
	l.goesOn(t)
	for range 2 {
		require.NoError(t, pgstore.Migrate(t.Context(), look, ""))
		l.goesOn(t)
		require.NoError(t, old.Check(t.Context()), "the readiness probe of an old process")
		require.NoError(t, pgstore.Version1.Migrate(t.Context(), look, ""), "an old process that starts again")
		version1(t, look).Close()
		young := openOn(t, look, pgstore.Config{}, size(4))
		beside := trafficOn(t, young, old)
		beside.goesOn(t)
		beside.end(t)
		made := unknownKey(t, old)
		until(t, "the sweeps have seen all records", func() bool {
			_, err := young.Sweep(t.Context(), 100)
			require.NoError(t, err)
			a, err := young.Reader().Attention(t.Context())
			require.NoError(t, err)
			return a.Unknown > 0
		})
		requireListed(t, young, made)
		_, _, err := young.Forget(t.Context(), made.ID, made.Fence, store.Audit{Verb: store.VerbForget, Actor: "ann", Reason: "of a test"})
		require.NoError(t, err)
		young.Close()
		require.NoError(t, migrations.Down(t.Context(), look, "", 1))
		l.goesOn(t)
		require.NoError(t, old.Check(t.Context()))
	}
	l.end(t)
	_, err := pgstore.Open(t.Context(), look.Config(), pgstore.Config{AllowNonDurable: true})
	require.ErrorIs(t, err, pgstore.ErrSchemaOlder, "a new process before the migration")
}

// A step adds a column to a table in use. Running processes do not notice.
func TestRolling_columnUnderLoad(t *testing.T) {
	t.Parallel()
	s, look := open(t, pgstore.Config{}, size(4))
	single := openOn(t, look, pgstore.Config{SeparateCommits: true}, size(4))
	next := nextVersion(t, latestVersion(t))
	l := trafficOn(t, s, single)
	l.goesOn(t)
	require.NoError(t, next.Up(t.Context(), look, ""))
	l.goesOn(t)
	require.NoError(t, s.Check(t.Context()))
	require.NoError(t, next.Down(t.Context(), look, "", latestVersion(t)))
	l.goesOn(t)
	l.end(t)
}

// A step that removes something declares it, and old processes get an error from Open and Check.
func TestRolling_nextThatDoesNotFit(t *testing.T) {
	t.Parallel()
	s, look := open(t, pgstore.Config{})
	next := nextVersion(t, latestVersion(t)+1)
	require.NoError(t, next.Up(t.Context(), look, ""))
	wrong := new(component.SchemaError)
	_, err := pgstore.Open(t.Context(), look.Config(), pgstore.Config{AllowNonDurable: true})
	for _, err := range []error{err, s.Check(t.Context()), pgstore.Migrate(t.Context(), look, "")} {
		require.ErrorIs(t, err, pgstore.ErrSchemaNewer)
		require.ErrorAs(t, err, &wrong)
		require.Equal(t, latestVersion(t)+1, wrong.Oldest)
	}
	require.NoError(t, next.Down(t.Context(), look, "", latestVersion(t)))
	require.NoError(t, s.Check(t.Context()))
}

// A backup reads the table for a long time during a migration: no request notices.
func TestRolling_behindABackup(t *testing.T) {
	t.Parallel()
	s, look := open(t, pgstore.Config{}, size(4))
	claim(t, s)
	end := holding(t, look, pgx.TxOptions{IsoLevel: pgx.RepeatableRead}, "select count(*) from idempotency")
	l := trafficOn(t, s)
	next := nextVersion(t, latestVersion(t))
	migrated := make(chan error, 1)
	go func() { migrated <- next.Up(t.Context(), look, "") }()
	waiting := func() bool {
		return queryRow[bool](t, look, `select exists (select from pg_stat_activity
			where datname = current_database() and wait_event = 'relation' and query like 'alter table idempotency%')`)
	}
	for range 3 {
		until(t, "the migration waits for the table", waiting)
		until(t, "it has given up", func() bool { return !waiting() })
		l.goesOn(t)
	}
	require.Empty(t, migrated)
	end()
	require.NoError(t, <-migrated)
	l.goesOn(t)
	l.end(t)
	t.Logf("%d rounds, the slowest took %v", l.rounds.Load(), l.slowest)
}
