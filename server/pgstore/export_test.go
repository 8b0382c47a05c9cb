package pgstore

import (
	"context"
	"io/fs"
	"testing/fstest"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fanonce/fanonce/internal/pgkit"
	"github.com/fanonce/fanonce/internal/pgkit/component"
)

// Version1 is this component as the programs of version 1 of the schema have it.
var Version1 = &component.Component{
	Package: storeTables.Package, ErrConfig: storeTables.ErrConfig, Roles: storeTables.Roles,
	Tables:     []string{"idempotency"},
	Migrations: component.Migrations{Component: "idempotency", Files: onlyStep("0001_")},
}

// onlyStep has the migration files of one step.
func onlyStep(prefix string) fs.FS {
	step := make(fstest.MapFS)
	files, err := fs.Glob(MigrationFiles, prefix+"*")
	if err != nil {
		panic(err)
	}
	for _, name := range files {
		text, err := fs.ReadFile(MigrationFiles, name)
		if err != nil {
			panic(err)
		}
		step[name] = &fstest.MapFile{Data: text}
	}
	return step
}

// OpenVersion1 is Open of a program of version 1. Such a program makes no notes of keys that need a person, and
// deletes none. Its other statements are those of today.
func OpenVersion1(ctx context.Context, poolCfg *pgxpool.Config, cfg Config) (*Store, error) {
	pool, err := Version1.Pool(ctx, poolCfg)
	if err != nil {
		return nil, err
	}
	s, err := newStore(Version1, pool, cfg)
	if err != nil {
		pool.Close()
		return nil, err
	}
	s.ownsPool = true
	query := *s.query()
	for into, text := range map[*pgkit.Query]string{
		&query.NoteAttention: "select @key::uuid, @fence::bigint, @state::smallint where false",
		&query.DropAttention: "select @key::uuid where false",
		&query.FindAttention: "select @after::timestamptz, @until::timestamptz where false",
		&query.StaleNotes:    "select 0 * @window::bigint, @after_created_at::timestamptz, @after_key::uuid, null::uuid[]",
	} {
		if *into, err = pgkit.LoadQuery(fstest.MapFS{"none.sql": {Data: []byte(text)}}, "none.sql", cfg.Schema); err != nil {
			return nil, err
		}
	}
	s.statements.Store(&query)
	s.named.Store(true)
	return s, s.Check(ctx)
}
