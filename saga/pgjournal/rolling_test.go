package pgjournal_test

import (
	"context"
	"fmt"
	"io/fs"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/internal/pgkit/component"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/saga/pgjournal"
)

// migrations are the library's own steps, with the ways back that users do not need.
var migrations = component.Migrations{Component: "saga", Files: pgjournal.MigrationFiles}

// nextVersion has one step more than the library has today: a column more, beside which the
// library of today can go on.
func nextVersion(t *testing.T, latest int) component.Migrations {
	t.Helper()
	files := make(fstest.MapFS)
	require.NoError(t, fs.WalkDir(pgjournal.MigrationFiles, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(pgjournal.MigrationFiles, path)
		files[path] = &fstest.MapFile{Data: text}
		return err
	}))
	name := fmt.Sprintf("%04d_later", latest+1)
	files[name+".up.sql"] = &fstest.MapFile{Data: fmt.Appendf(nil,
		"alter table saga add column later integer not null default 7; insert into saga_version (version, oldest) values (%d, %d);", latest+1, latest)}
	files[name+".down.sql"] = &fstest.MapFile{Data: fmt.Appendf(nil,
		"alter table saga drop column later; delete from saga_version where version = %d;", latest+1)}
	return component.Migrations{Component: migrations.Component, Files: files}
}

// A rolling deploy: the first new process adds a column while the old ones work. They go on,
// stay ready, and can start again; and so when the deploy is taken back.
func TestRolling_nextColumnUnderLoad(t *testing.T) {
	t.Parallel()
	small := func(cfg *pgxpool.Config) { cfg.MaxConns = 4 }
	j, look := open(t, pgjournal.Config{}, small)
	described := openOn(t, look, pgjournal.Config{}, small, func(cfg *pgxpool.Config) {
		cfg.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe // as behind a pooler
	})
	latest, err := migrations.Latest()
	require.NoError(t, err)
	next := nextVersion(t, latest)
	var rounds atomic.Int64
	var wg sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	failed := make(chan error, 8)
	for i := range cap(failed) {
		wg.Go(func() {
			j := []*pgjournal.Journal{j, described}[i%2]
			for ctx.Err() == nil {
				if err := sagaThrough(context.WithoutCancel(ctx), j); err != nil {
					failed <- err
					return
				}
				rounds.Add(1)
			}
		})
	}
	goesOn := func() {
		from := rounds.Load()
		until(t, "sagas go on", func() bool { return rounds.Load() > from+50 || len(failed) > 0 })
	}
	goesOn()
	for range 2 {
		require.NoError(t, next.Up(t.Context(), look, ""))
		goesOn()
		require.NoError(t, j.Check(t.Context()), "the readiness probe of an old process")
		require.NoError(t, pgjournal.Migrate(t.Context(), look, ""), "an old process that starts again")
		require.NoError(t, next.Down(t.Context(), look, "", latest))
		goesOn()
	}
	stop()
	wg.Wait()
	close(failed)
	for err := range failed {
		require.NoError(t, err)
	}
}

// sagaThrough leases an engine, and starts, reads, writes, claims and ends a saga.
func sagaThrough(ctx context.Context, j *pgjournal.Journal) error {
	engine := newEngine()
	if err := j.Heartbeat(ctx, engine, time.Hour); err != nil {
		return err
	}
	r, _, err := j.Start(ctx, newRequest(engine))
	if err != nil {
		return err
	}
	if err := j.Append(ctx, ownerOf(r), journal.Write{Revision: 2, Entries: []journal.Entry{completed("a.b")}}); err != nil {
		return err
	}
	if _, err := j.Read(ctx, r.ID); err != nil {
		return err
	}
	if _, err := j.Claim(ctx, journal.ClaimRequest{Engine: engine, Plans: []journal.PlanHash{{1}}, Limit: 1}); err != nil {
		return err
	}
	return j.Append(ctx, ownerOf(r), journal.Write{Revision: 3, Status: journal.Completed, Keep: time.Hour})
}
