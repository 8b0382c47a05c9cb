package pgjournal_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/saga/pgjournal"
	"github.com/fanonce/fanonce/server/pgtest"
)

// A starter is one of the two doors into a transaction: it begins one, starts a saga
// in it with the row of an order, and ends it.
type starter struct {
	name  string
	start func(ctx context.Context, pool *pgxpool.Pool, key childkey.Key, in journey, cfg pgjournal.StartConfig, commit bool) (bool, error)
}

const insertOrder = "insert into orders (id) values ($1)"

var errRollback = errors.New("the user rolls back")

var starters = []starter{
	{"pgx", func(ctx context.Context, pool *pgxpool.Pool, key childkey.Key, in journey, cfg pgjournal.StartConfig, commit bool) (created bool, err error) {
		err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, insertOrder, in.Trip); err != nil {
				return err
			}
			if created, err = pgjournal.Start(ctx, tx, trip, key, in, cfg); err == nil && !commit {
				err = errRollback
			}
			return err
		})
		return created, err
	}},
	{"database/sql", func(ctx context.Context, pool *pgxpool.Pool, key childkey.Key, in journey, cfg pgjournal.StartConfig, commit bool) (created bool, err error) {
		db := stdlib.OpenDBFromPool(pool)
		defer db.Close()
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return false, err
		}
		defer tx.Rollback()
		if _, err := tx.ExecContext(ctx, insertOrder, in.Trip); err != nil {
			return false, err
		}
		if created, err = pgjournal.StartSQL(ctx, tx, trip, key, in, cfg); err != nil {
			return created, err
		}
		if !commit {
			return created, errRollback
		}
		return created, tx.Commit()
	}},
}

// The saga commits and rolls back with the user's rows; who commits twice starts it
// once, and it is executed.
func TestStart_inTransaction(t *testing.T) {
	t.Parallel()
	for _, s := range starters {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			j, look := open(t, pgjournal.Config{})
			exec(t, look, "create table orders (id text)")
			key, in := childkey.MustNew(), journey{Trip: "t-1"}
			do := func(in journey, commit bool) (bool, error) {
				return s.start(t.Context(), look, key, in, pgjournal.StartConfig{Scope: "tenant", Trace: "00-1-2-01"}, commit)
			}
			created, err := do(in, false)
			require.ErrorIs(t, err, errRollback)
			require.True(t, created)
			_, err = j.Read(t.Context(), journal.IDOf("tenant", "trip", key))
			require.ErrorIs(t, err, journal.ErrNotFound, "rolled back")

			created, err = do(in, true)
			require.NoError(t, err)
			require.True(t, created)
			created, err = do(in, true)
			require.NoError(t, err)
			require.False(t, created)
			require.Equal(t, 2, queryRow[int](t, look, "select count(*) from orders"))
			_, err = do(journey{Trip: "another"}, true)
			require.ErrorIs(t, err, saga.ErrKeyReused)
			require.NotContains(t, err.Error(), key.String())

			// It waits long for an engine, and loses no time by that.
			exec(t, look, "update saga set created_at = created_at - interval '30 days'")
			c := newCallees(t)
			engineOn(t, j, c)
			r := ended(t, j, journal.IDOf("tenant", "trip", key))
			require.Equal(t, journal.Completed, r.Status)
			require.WithinDuration(t, r.FinishedAt, r.FirstClaimedAt, time.Minute)
			require.EqualValues(t, 1, r.Fence)
			require.Equal(t, "00-1-2-01", r.Trace)
			c.check(t, "t-1", r.Status, "started in a transaction")
		})
	}
}

// The one saga of two transactions at once belongs to the first that commits; the
// other waits for it, and so does an engine.
func TestStart_waitsForTheOther(t *testing.T) {
	t.Parallel()
	j, look := open(t, pgjournal.Config{LockTimeout: 50 * time.Millisecond})
	key, in := childkey.MustNew(), journey{Trip: "t-1"}
	tx, err := look.Begin(t.Context())
	require.NoError(t, err)
	defer tx.Rollback(t.Context())
	_, err = pgjournal.Start(t.Context(), tx, trip, key, in, pgjournal.StartConfig{})
	require.NoError(t, err)

	req, err := trip.Request(key, in)
	require.NoError(t, err)
	req.Engine = beat(t, j, time.Minute)
	_, _, err = j.Start(t.Context(), req)
	require.ErrorContains(t, err, "lock timeout")
	require.NotErrorIs(t, err, journal.ErrFateUnknown, "it changed nothing")
	require.NoError(t, tx.Commit(t.Context()))
	_, created, err := j.Start(t.Context(), req)
	require.NoError(t, err)
	require.False(t, created)
}

func TestStart_namedSchema(t *testing.T) {
	t.Parallel()
	look := pgtest.NewPool(t, nil)
	require.NoError(t, pgjournal.Migrate(t.Context(), look, "orders"))
	exec(t, look, "create table orders (id text)")
	for _, s := range starters {
		created, err := s.start(t.Context(), look, childkey.MustNew(), journey{}, pgjournal.StartConfig{Schema: "orders"}, true)
		require.NoError(t, err, s.name)
		require.True(t, created, s.name)
	}
	require.Equal(t, 2, queryRow[int](t, look, "select count(*) from orders.saga where engine = '00000000-0000-0000-0000-000000000000' and fence = 0"))
}

func TestStart_refuses(t *testing.T) {
	t.Parallel()
	look := pgtest.NewPool(t, nil) // without tables: nothing may be sent
	tx, err := look.Begin(t.Context())
	require.NoError(t, err)
	defer tx.Rollback(t.Context())
	key := childkey.MustNew()
	for _, tt := range []struct {
		name  string
		start func() (bool, error)
		want  error
	}{
		{"no tx", func() (bool, error) {
			return pgjournal.Start(t.Context(), nil, trip, key, journey{}, pgjournal.StartConfig{})
		}, pgjournal.ErrArgument},
		{"no tx of database/sql", func() (bool, error) {
			return pgjournal.StartSQL(t.Context(), (*sql.Tx)(nil), trip, key, journey{}, pgjournal.StartConfig{})
		}, pgjournal.ErrArgument},
		{"no definition", func() (bool, error) {
			return pgjournal.Start[journey, ticket](t.Context(), tx, nil, key, journey{}, pgjournal.StartConfig{})
		}, pgjournal.ErrArgument},
		{"no key", func() (bool, error) {
			return pgjournal.Start(t.Context(), tx, trip, childkey.Key{}, journey{}, pgjournal.StartConfig{})
		}, saga.ErrInvalidKey},
		{"a schema that cannot be", func() (bool, error) {
			return pgjournal.Start(t.Context(), tx, trip, key, journey{}, pgjournal.StartConfig{Schema: "x; drop table y"})
		}, pgjournal.ErrArgument},
		{"a scope that is no text", func() (bool, error) {
			return pgjournal.Start(t.Context(), tx, trip, key, journey{}, pgjournal.StartConfig{Scope: "a\x00b"})
		}, saga.ErrInvalidKey},
		{"a trace context that is none", func() (bool, error) {
			return pgjournal.Start(t.Context(), tx, trip, key, journey{}, pgjournal.StartConfig{Trace: "a b"})
		}, pgjournal.ErrArgument},
		{"a trace context that is too long", func() (bool, error) {
			return pgjournal.Start(t.Context(), tx, trip, key, journey{}, pgjournal.StartConfig{Trace: strings.Repeat("x", journal.MaxTraceBytes+1)})
		}, pgjournal.ErrArgument},
		{"an input that is too long", func() (bool, error) {
			return pgjournal.Start(t.Context(), tx, trip, key, journey{Trip: strings.Repeat("x", journal.MaxInputBytes)}, pgjournal.StartConfig{})
		}, saga.ErrEncode},
	} {
		created, err := tt.start()
		require.ErrorIs(t, err, tt.want, tt.name)
		require.False(t, created, tt.name)
	}
	require.Equal(t, 1, func() (n int) {
		require.NoError(t, tx.QueryRow(t.Context(), "select 1").Scan(&n), "the transaction goes on")
		return n
	}())
}
