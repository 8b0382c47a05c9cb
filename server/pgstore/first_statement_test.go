package pgstore_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/store"
)

// trips counts round trips on the connections of a pool: each time that something arrives after something was
// written. The read may begin before the write ends: pgx does so during a long write.
type trips struct{ n atomic.Int64 }

func (t *trips) watch(cfg *pgxpool.Config) {
	cfg.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
	dial := cfg.ConnConfig.DialFunc
	cfg.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		return &tripConn{Conn: conn, trips: t}, err
	}
}

func (t *trips) count(do func()) int64 {
	before := t.n.Load()
	do()
	return t.n.Load() - before
}

type tripConn struct {
	net.Conn

	trips *trips
	wrote atomic.Bool
}

func (c *tripConn) Write(b []byte) (int, error) {
	c.wrote.Store(true)
	return c.Conn.Write(b)
}

func (c *tripConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 && c.wrote.Swap(false) {
		c.trips.n.Add(1)
	}
	return n, err
}

// insertion is a handler's way to its first statement, which inserts one entry.
type insertion struct {
	name  string
	trips int64 // of the whole run, when everything is described
	do    func(ctx context.Context, id int) error
}

const insertEntry = "insert into entry values ($1, 'x')"

var insertions = []insertion{
	{"Exec", 3, func(ctx context.Context, id int) error {
		tag, err := pgstore.Tx(ctx).Exec(ctx, insertEntry, id)
		if err == nil && tag.RowsAffected() != 1 {
			err = errors.New(tag.String())
		}
		return err
	}},
	{"QueryRow", 3, func(ctx context.Context, id int) (err error) {
		return pgstore.Tx(ctx).QueryRow(ctx, insertEntry+" returning id", id).Scan(&id)
	}},
	{"Query", 3, func(ctx context.Context, id int) error {
		rows, err := pgstore.Tx(ctx).Query(ctx, insertEntry+" returning id", id)
		if err != nil {
			return err
		}
		_, err = pgx.CollectExactlyOneRow(rows, pgx.RowTo[int])
		return err
	}},
	{"named arguments", 3, func(ctx context.Context, id int) error {
		_, err := pgstore.Tx(ctx).Exec(ctx, "insert into entry values (@id, 'x')", pgx.NamedArgs{"id": id})
		return err
	}},
	{"SendBatch", 3, func(ctx context.Context, id int) error {
		called := false
		batch := new(pgx.Batch)
		batch.Queue(insertEntry+" returning id", id).QueryRow(func(row pgx.Row) error {
			called = true
			return row.Scan(&id)
		})
		results := pgstore.Tx(ctx).SendBatch(ctx, batch)
		if err := results.Close(); err != nil || !called || results.Tx() != nil {
			return errors.Join(err, errors.New("batch"))
		}
		return nil
	}},
	{"database/sql's Exec", 3, func(ctx context.Context, id int) error {
		tx, err := pgstore.SQLTx(ctx)
		if err == nil {
			_, err = tx.ExecContext(ctx, insertEntry, id)
		}
		return err
	}},
	{"two statements", 4, func(ctx context.Context, id int) error {
		_, err := pgstore.Tx(ctx).Exec(ctx, insertEntry, id)
		if err == nil {
			_, err = pgstore.Tx(ctx).Exec(ctx, "update entry set what = $2 where id = $1", id, "x")
		}
		return err
	}},
	// The following statements cannot be sent together with BEGIN.
	{"several in one", 4, func(ctx context.Context, _ int) error {
		_, err := pgstore.Tx(ctx).Exec(ctx, "insert into entry select count(*), 'x' from entry; select 1")
		return err
	}},
	{"an option", 4, func(ctx context.Context, id int) error {
		_, err := pgstore.Tx(ctx).Exec(ctx, insertEntry, pgx.QueryExecModeExec, id)
		return err
	}},
	{"database/sql's Query", 4, func(ctx context.Context, id int) error {
		tx, err := pgstore.SQLTx(ctx)
		if err == nil {
			err = tx.QueryRowContext(ctx, insertEntry+" returning id", id).Scan(&id)
		}
		return err
	}},
	{"savepoint", 6, func(ctx context.Context, id int) error {
		return pgx.BeginFunc(ctx, pgstore.Tx(ctx), func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, insertEntry, id)
			return err
		})
	}},
	{"Conn", 4, func(ctx context.Context, id int) error {
		_, err := pgstore.Tx(ctx).Conn().Exec(ctx, insertEntry, id)
		return err
	}},
	{"CopyFrom", -1, func(ctx context.Context, id int) error { // describes the table each time
		_, err := pgstore.Tx(ctx).CopyFrom(ctx, pgx.Identifier{"entry"}, []string{"id", "what"}, pgx.CopyFromRows([][]any{{id, "x"}}))
		return err
	}},
	{"Prepare", -1, func(ctx context.Context, id int) error {
		if _, err := pgstore.Tx(ctx).Prepare(ctx, "insert_entry", insertEntry); err != nil {
			return err
		}
		_, err := pgstore.Tx(ctx).Exec(ctx, "insert_entry", id)
		return err
	}},
	{"LargeObjects", 5, func(ctx context.Context, id int) error {
		objects := pgstore.Tx(ctx).LargeObjects()
		_, err := objects.Create(ctx, 0)
		if err == nil {
			_, err = pgstore.Tx(ctx).Exec(ctx, insertEntry, id)
		}
		return err
	}},
}

// A run is the claim, the handler's statements, and the settlement with COMMIT.
// The first statement, of any kind, begins the transaction. Where pgx allows
// it, BEGIN takes no round trip of its own.
func TestTx_beginsWithTheFirstStatement(t *testing.T) {
	t.Parallel()
	for _, insert := range insertions {
		t.Run(insert.name, func(t *testing.T) {
			t.Parallel()
			seen := new(trips)
			g, look := entries(t, seen.watch)
			const runs = 4
			var last int64
			for i := range runs {
				key := string(rune('a' + i))
				last = seen.count(func() {
					_, err := do(t, g, server.Transactional, key, func(ctx context.Context) (int, error) { return 0, insert.do(ctx, i) })
					require.NoError(t, err)
				})
				failed := errors.New("no")
				_, err := do(t, g, server.Transactional, key+"-failed", func(ctx context.Context) (int, error) {
					return 0, errors.Join(insert.do(ctx, i+runs), failed)
				})
				require.ErrorIs(t, err, failed, "rolled back")
			}
			if insert.trips > 0 {
				require.Equal(t, insert.trips, last, "round trips of a run")
			}
			require.Equal(t, runs, queryRow[int](t, look, "select count(*) from entry where id < $1", runs))
			require.Equal(t, runs, queryRow[int](t, look, "select count(*) from entry"))
		})
	}
}

// A handler that never uses its transaction does not begin it. Until its first
// statement a handler holds no connection: here the pool has only one, and Read
// needs it.
func TestTx_holdsNothingBeforeTheFirstStatement(t *testing.T) {
	t.Parallel()
	seen := new(trips)
	s, look := open(t, pgstore.Config{}, seen.watch, func(cfg *pgxpool.Config) { cfg.MaxConns = 1 })
	g, err := server.NewGuard(s, server.Unscoped, server.Config{})
	require.NoError(t, err)
	handle := func(ctx context.Context) (int, error) {
		_, err := s.Read(ctx, random())
		require.ErrorIs(t, err, server.ErrNotFound)
		return 7, nil
	}
	for _, key := range []string{"a", "b"} {
		n, err := do(t, g, server.Transactional, key, handle)
		require.NoError(t, err)
		require.Equal(t, 7, n)
	}
	require.EqualValues(t, 3, seen.count(func() { _, _ = do(t, g, server.Transactional, "c", handle) }), "claim, read, settlement")
	require.Equal(t, 3, queryRow[int](t, look, "select count(*) from idempotency where state = 2"))
}

// An unused transaction that lost its key gets ErrLeaseLost, like any other.
func TestTx_unusedAndLost(t *testing.T) {
	t.Parallel()
	s, _ := open(t, pgstore.Config{})
	o := claim(t, s)
	require.NoError(t, s.Settle(t.Context(), o, store.Settlement{State: server.StateReleased}))
	tx, _ := unbegun(t, s)
	require.ErrorIs(t, tx.Settle(t.Context(), o, completion), server.ErrLeaseLost)
	require.ErrorIs(t, tx.Settle(t.Context(), o, completion), pgstore.ErrTxEnded)
}

// If the first statement fails for any reason, a handler that ignores the error
// commits nothing. A handler that looks sees pgx's own errors.
func TestTx_firstStatementFails(t *testing.T) {
	t.Parallel()
	failures := []struct {
		name, sql string
		args      []any
		code      string // of the server
	}{
		{"no such table", "insert into nowhere values ($1)", []any{1}, "42P01"},
		{"no SQL", "insort into entry values ($1)", []any{1}, "42601"},
		{"violation", "insert into entry values ($1)", []any{1}, "23505"},
		{"while running", "select 1 / $1::int", []any{0}, "22012"},
		{"not the server's", "insert into entry values ($1)", []any{struct{}{}}, ""},
		{"a missing argument", "insert into entry values ($1, $2)", []any{1}, ""},
	}
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeExec, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec} {
		s, look := open(t, pgstore.Config{}, func(cfg *pgxpool.Config) {
			cfg.ConnConfig.DefaultQueryExecMode = mode
			cfg.MaxConns = 1
		})
		exec(t, look, "create table entry (id int primary key, what text); insert into entry values (1)")
		for _, f := range failures {
			for way, do := range map[string]func(ctx context.Context) error{
				"Exec": func(ctx context.Context) error { _, err := pgstore.Tx(ctx).Exec(ctx, f.sql, f.args...); return err },
				"Query": func(ctx context.Context) error {
					rows, err := pgstore.Tx(ctx).Query(ctx, f.sql, f.args...)
					if err != nil {
						return err
					}
					for rows.Next() {
						t.Error("a row")
					}
					return rows.Err()
				},
				"QueryRow": func(ctx context.Context) error { return pgstore.Tx(ctx).QueryRow(ctx, f.sql, f.args...).Scan(nil) },
			} {
				o := claim(t, s)
				tx, ctx := unbegun(t, s)
				err := do(ctx)
				require.Error(t, err, "%s %s in mode %v", f.name, way, mode)
				require.NotErrorIs(t, err, pgx.ErrNoRows)
				require.False(t, errors.As(err, new(pgx.ErrPreprocessingBatch)), "the handler sent no batch: %v", err)
				if pgErr := new(pgconn.PgError); f.code != "" {
					require.ErrorAs(t, err, &pgErr, "%s %s in mode %v", f.name, way, mode)
					require.Equal(t, f.code, pgErr.Code)
				}
				_, err = pgstore.Tx(ctx).Exec(ctx, "insert into entry values ($1)", 2)
				require.Error(t, err, "%s %s in mode %v", f.name, way, mode)
				require.ErrorIs(t, tx.Settle(t.Context(), o, completion), pgstore.ErrTxFailed, "%s %s in mode %v", f.name, way, mode)
				require.Error(t, tx.Err(), "%s %s in mode %v", f.name, way, mode)
				if refused := new(store.TxError); f.code != "" {
					require.ErrorAs(t, tx.Err(), &refused, "%s %s in mode %v", f.name, way, mode)
					require.Equal(t, f.code, refused.SQLState)
				}
				require.NoError(t, s.Settle(t.Context(), o, completion), "the only connection is free")
			}
		}
		require.Equal(t, 1, queryRow[int](t, look, "select count(*) from entry"))
	}
}

func TestTx_firstStatementConflicts(t *testing.T) {
	t.Parallel()
	s, look := open(t, pgstore.Config{})
	exec(t, look, "create function conflict(int) returns int language plpgsql as $$ begin raise exception 'x' using errcode = '40001'; end $$")
	for name, do := range map[string]func(ctx context.Context, tx pgx.Tx) error{
		"Exec": func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "select conflict($1)", 1)
			return err
		},
		"QueryRow": func(ctx context.Context, tx pgx.Tx) error { return tx.QueryRow(ctx, "select conflict(1)").Scan(nil) },
		"SendBatch": func(ctx context.Context, tx pgx.Tx) error {
			batch := new(pgx.Batch)
			batch.Queue("select conflict(1)")
			return tx.SendBatch(ctx, batch).Close()
		},
	} {
		o := claim(t, s)
		tx, ctx := unbegun(t, s)
		require.NoError(t, tx.Err())
		require.Error(t, do(ctx, pgstore.Tx(ctx)), name)
		require.ErrorIs(t, tx.Err(), store.ErrConflict, name)
		require.ErrorIs(t, tx.Settle(t.Context(), o, completion), store.ErrConflict, name)
		require.ErrorIs(t, tx.Err(), store.ErrConflict, "also after the end")
	}
}

// A row that cannot be scanned does not fail the transaction, and does not keep
// its connection busy.
func TestTx_firstRowDoesNotFit(t *testing.T) {
	t.Parallel()
	s, _ := open(t, pgstore.Config{})
	for name, do := range map[string]func(ctx context.Context) error{
		"QueryRow": func(ctx context.Context) error {
			return pgstore.Tx(ctx).QueryRow(ctx, "select generate_series(1, 3)").Scan(new(bool))
		},
		"none": func(ctx context.Context) error {
			return pgstore.Tx(ctx).QueryRow(ctx, "select 1 where $1", false).Scan(new(int))
		},
		"Scan": func(ctx context.Context) error {
			rows, err := pgstore.Tx(ctx).Query(ctx, "select generate_series(1, 3)")
			require.NoError(t, err)
			require.True(t, rows.Next())
			return errors.Join(rows.Scan(new(bool)), rows.Err())
		},
		"a destination too many": func(ctx context.Context) error {
			return pgstore.Tx(ctx).QueryRow(ctx, "select 1").Scan(new(int), new(int))
		},
	} {
		o := claim(t, s)
		tx, ctx := unbegun(t, s)
		require.Error(t, do(ctx), name)
		var n int
		require.NoError(t, pgstore.Tx(ctx).QueryRow(ctx, "select 1").Scan(&n), name)
		require.NoError(t, tx.Settle(t.Context(), o, completion), name)
	}
}

// A ctx that ends before anything was sent leaves the transaction usable.
func TestTx_firstStatementTooLate(t *testing.T) {
	t.Parallel()
	s, look := open(t, pgstore.Config{})
	exec(t, look, "create table entry (id int primary key, what text)")
	o := claim(t, s)
	tx, ctx := unbegun(t, s)
	late, cancel := context.WithCancel(ctx)
	cancel()
	_, err := pgstore.Tx(ctx).Exec(late, insertEntry, 1)
	require.ErrorIs(t, err, context.Canceled)
	_, err = pgstore.Tx(ctx).Exec(ctx, insertEntry, 2)
	require.NoError(t, err)
	require.NoError(t, tx.Settle(t.Context(), o, completion))
	require.Equal(t, 2, queryRow[int](t, look, "select sum(id) from entry"))
}

// There is no connection for the first statement. The handler gets an error,
// and if it ignores the error nothing is committed.
func TestTx_noConnection(t *testing.T) {
	t.Parallel()
	s, _ := open(t, pgstore.Config{}, func(cfg *pgxpool.Config) { cfg.MaxConns = 1 })
	o := claim(t, s)
	holder, _ := begin(t, s)
	tx, ctx := unbegun(t, s)
	soon, leave := context.WithCancel(ctx)
	asked := &askedContext{Context: soon, asked: make(chan struct{})}
	first := inBackground(func() error {
		_, err := pgstore.Tx(ctx).Exec(asked, insertEntry, 1)
		return err
	})
	<-asked.asked // it waits
	leave()
	require.ErrorIs(t, <-first, context.Canceled)
	require.NoError(t, holder.Rollback(t.Context()))
	_, err := pgstore.Tx(ctx).Exec(ctx, insertEntry, 1)
	require.ErrorIs(t, err, pgstore.ErrTxFailed)
	require.Nil(t, pgstore.Tx(ctx).Conn())
	require.ErrorIs(t, tx.Err(), store.ErrTxAbandoned, "the handler did not want to wait, which says nothing of the pool")
	require.ErrorIs(t, tx.Settle(t.Context(), o, completion), pgstore.ErrTxFailed)
	require.NoError(t, s.Settle(t.Context(), o, completion))
}

// An askedContext tells when its Done is first called.
type askedContext struct {
	context.Context //nolint:containedctx // it is one

	once  sync.Once
	asked chan struct{}
}

func (c *askedContext) Done() <-chan struct{} {
	c.once.Do(func() { close(c.asked) })
	return c.Context.Done()
}

// A goroutine that a handler left running sends its first statement while the
// run ends. It must not begin a transaction that nothing ends.
func TestTx_firstStatementOutlivesTheRun(t *testing.T) {
	t.Parallel()
	s, look := open(t, pgstore.Config{}, func(cfg *pgxpool.Config) { cfg.MaxConns = 2 })
	exec(t, look, "create table entry (id int primary key, what text)")
	o := claim(t, s)
	ends := map[string]func(tx store.Tx) error{
		"rollback": func(tx store.Tx) error { return tx.Rollback(t.Context()) },
		"settle": func(tx store.Tx) error {
			if err := tx.Settle(t.Context(), o, completion); !errors.Is(err, pgstore.ErrTxBusy) {
				return errors.Join(errors.New("settled"), err)
			}
			return nil
		},
	}
	for name, end := range ends {
		for _, where := range []string{"waits for a connection", "waits for a lock"} {
			holder, holding := unbegun(t, s)
			_, err := pgstore.Tx(holding).Exec(holding, "lock table entry")
			require.NoError(t, err)
			other, elsewhere := unbegun(t, s)
			if where == "waits for a connection" {
				_, err = pgstore.Tx(elsewhere).Exec(elsewhere, "select 1")
				require.NoError(t, err)
			}
			tx, ctx := unbegun(t, s)
			left := make(chan error)
			asked := &askedContext{Context: ctx, asked: make(chan struct{})}
			go func() {
				_, err := pgstore.Tx(ctx).Exec(asked, insertEntry, 1)
				left <- err
			}()
			<-asked.asked
			if where == "waits for a lock" {
				until(t, "it waits", func() bool { return waits(t, look, "Lock") })
			}
			_, err = pgstore.Tx(ctx).Exec(ctx, insertEntry, 2)
			require.ErrorIs(t, err, pgstore.ErrTxBusy)
			require.NoError(t, end(tx), "%s while it %s", name, where)
			require.NoError(t, errors.Join(holder.Rollback(t.Context()), other.Rollback(t.Context())))
			require.Error(t, <-left)
			require.Zero(t, queryRow[int](t, look, "select count(*) from entry"))
			claim(t, s)
			until(t, "nothing is left open", func() bool {
				return queryRow[int](t, look, "select count(*) from pg_stat_activity where state like 'idle in transaction%' and datname = current_database()") == 0
			})
		}
	}
}

// An endTracer ends a run at the moment that BEGIN was answered.
type endTracer struct{ end func() }

type beginKey struct{}

func (e *endTracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	return context.WithValue(ctx, beginKey{}, strings.HasPrefix(data.SQL, "begin"))
}

func (e *endTracer) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryEndData) {
	if began, _ := ctx.Value(beginKey{}).(bool); began {
		e.end()
	}
}

func TestTx_runEndsAsItBegins(t *testing.T) {
	t.Parallel()
	tracer := new(endTracer)
	s, look := open(t, pgstore.Config{}, func(cfg *pgxpool.Config) {
		cfg.MaxConns = 1
		cfg.ConnConfig.Tracer = tracer
	})
	exec(t, look, "create table entry (id int primary key, what text)")
	tx, ctx := unbegun(t, s)
	tracer.end = func() { require.NoError(t, tx.Rollback(t.Context())) }
	_, err := pgstore.Tx(ctx).Exec(ctx, "insert into entry values (1, 'x')")
	require.ErrorIs(t, err, pgstore.ErrTxEnded)
	claim(t, s) // on the only connection
	require.Zero(t, queryRow[int](t, look, "select count(*) from entry"))
}
