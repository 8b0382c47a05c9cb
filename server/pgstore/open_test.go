package pgstore_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/internal/pgkit/component"
	"github.com/fanonce/fanonce/internal/pgkittest"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/pgtest"
	"github.com/fanonce/fanonce/server/store"
)

func TestOpen_rejectsItsConfig(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		cfg  pgstore.Config
		text string
	}{
		{"schema", pgstore.Config{Schema: "public; drop table x"}, "Schema"},
		{"system schema", pgstore.Config{Schema: "pg_catalog"}, "Schema"},
		{"confirm", pgstore.Config{ConfirmReplays: 99}, "ConfirmReplays 99"},
		{"lock timeout", pgstore.Config{LockTimeout: -1}, "LockTimeout -1ns"},
		{"close timeout", pgstore.Config{CloseTimeout: -1}, "CloseTimeout -1ns"},
		{"queued", pgstore.Config{MaxQueued: -1}, "MaxQueued -1"},
		{"queue without combining", pgstore.Config{SeparateCommits: true, MaxQueued: 9}, "MaxQueued 9 has no meaning with SeparateCommits"},
		{"isolation", pgstore.Config{Isolation: "snapshot"}, "snapshot"},
	}
	nowhere, err := pgxpool.ParseConfig("postgres://127.0.0.1:1/none")
	require.NoError(t, err)
	for _, tt := range tests {
		_, err := pgstore.Open(t.Context(), nowhere, tt.cfg)
		require.ErrorIs(t, err, pgstore.ErrConfig, tt.name)
		require.ErrorContains(t, err, tt.text, tt.name)
		require.NotContains(t, err.Error(), "pgkit", tt.name)
	}
	_, err = pgstore.Open(t.Context(), nil, pgstore.Config{})
	require.ErrorIs(t, err, pgstore.ErrConfig)
	_, err = pgstore.New(nil, pgstore.Config{})
	require.ErrorIs(t, err, pgstore.ErrNotPrepared)
}

func TestNew_wantsAPreparedPool(t *testing.T) {
	t.Parallel()
	pool := pgtest.NewPool(t, nil)
	_, err := pgstore.New(pool, pgstore.Config{})
	require.ErrorIs(t, err, pgstore.ErrNotPrepared)
}

// A pool does not say that it is closed until it is asked for a connection.
func TestNew_closedPool(t *testing.T) {
	t.Parallel()
	cfg := pgtest.NewPool(t, pgstore.Migrate).Config()
	pgstore.Prepare(cfg)
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	require.NoError(t, err)
	s, err := pgstore.New(pool, pgstore.Config{AllowNonDurable: true})
	require.NoError(t, err)
	pool.Close()
	require.ErrorContains(t, s.Check(t.Context()), "closed pool")
	_, won, err := s.Claim(t.Context(), newClaim())
	require.ErrorContains(t, err, "closed pool")
	require.NotErrorIs(t, err, store.ErrFateUnknown, "nothing was sent")
	require.False(t, won)
}

func TestOpen_checksTheSchema(t *testing.T) {
	t.Parallel()
	look := pgtest.NewPool(t, nil)
	open := func() error {
		s, err := pgstore.Open(t.Context(), look.Config(), pgstore.Config{AllowNonDurable: true})
		if err == nil {
			s.Close()
		}
		return err
	}
	schema := new(component.SchemaError)
	require.ErrorAs(t, open(), &schema)
	require.Equal(t, 0, schema.Have, "missing")
	require.NoError(t, pgstore.Migrate(t.Context(), look, ""))
	require.NoError(t, pgstore.Migrate(t.Context(), look, ""), "again: nothing to do")
	require.ErrorIs(t, pgstore.Migrate(t.Context(), look, "pg_mine"), pgstore.ErrConfig, "a name that Postgres keeps for itself")
	require.NoError(t, open())
	exec(t, look, "insert into idempotency_version (version, oldest) values (99, 99)")
	require.ErrorAs(t, open(), &schema)
	require.Equal(t, 99, schema.Have, "newer")
	require.ErrorAs(t, pgstore.Migrate(t.Context(), look, ""), &schema, "never migrates a newer one down")
	require.ErrorContains(t, pgstore.Migrate(t.Context(), look, ""), "pgstore: migrate: schema newer than this program: ")
}

func TestOpen_checksDurability(t *testing.T) {
	t.Parallel()
	look := pgtest.NewPool(t, pgstore.Migrate)
	_, err := pgstore.Open(t.Context(), look.Config(), pgstore.Config{})
	require.ErrorIs(t, err, pgstore.ErrNotDurable, "the test cluster runs without fsync")
	cfg := look.Config()
	cfg.ConnConfig.RuntimeParams["default_transaction_read_only"] = "on"
	_, err = pgstore.Open(t.Context(), cfg, pgstore.Config{AllowNonDurable: true})
	require.ErrorIs(t, err, pgstore.ErrReadOnly)
}

// Two guards can keep their keys apart in one database.
func TestOpen_namedSchema(t *testing.T) {
	t.Parallel()
	look := pgtest.NewPool(t, nil)
	require.NoError(t, pgstore.Migrate(t.Context(), look, "keys"))
	s := openOn(t, look, pgstore.Config{Schema: "keys"})
	o := claim(t, s)
	require.NoError(t, s.Settle(t.Context(), o, completion))
	require.Equal(t, 1, queryRow[int](t, look, "select count(*) from keys.idempotency"))
	require.NoError(t, migrations.Down(t.Context(), look, "keys", 0))
	require.Equal(t, 0, queryRow[int](t, look, "select count(*) from pg_tables where schemaname = 'keys'"))
}

func TestOpenURL(t *testing.T) {
	t.Parallel()
	cfg := func(migrate bool) pgstore.Config { return pgstore.Config{AllowNonDurable: true, Migrate: migrate} }
	pgkittest.TestOpenURL(t, pgkittest.Opener{
		OpenURL: func(ctx context.Context, url string, migrate bool) (pgkittest.Opened, error) {
			return pgstore.OpenURL(ctx, url, cfg(migrate))
		},
		New: func(pool *pgxpool.Pool, migrate bool) error {
			_, err := pgstore.New(pool, cfg(migrate))
			return err
		},
		Prepare: pgstore.Prepare, ErrConfig: pgstore.ErrConfig, ErrSchemaMissing: pgstore.ErrSchemaMissing,
	})
}
