package sqltools_test

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/examples/integrations/sqltools"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgstore"
)

// errNo is a failure of the handler's own.
var errNo = errors.New("no")

// A duplicate gets the first answer, also a refusal, and there is one row.
func TestDuplicate(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, pool *pgxpool.Pool, l library) {
		url := serve(t, pool, pgstore.Config{}, l.book)
		for _, replayed := range []string{"false", "true"} {
			got := send(t, url, "k1", sqltools.Booking{Account: "ann", Cents: -30})
			require.Equal(t, answer{200, "", replayed, sqltools.Receipt{Entry: 1, Balance: 70}}, got)
			require.Equal(t, answer{status: 422, code: "not-enough", replayed: replayed}, send(t, url, "k2", sqltools.Booking{Account: "ann", Cents: -71}))
			require.Equal(t, answer{status: 404, code: "no-such-account", replayed: replayed}, send(t, url, "k3", sqltools.Booking{Account: "eve", Cents: 1}))
		}
		requireLedger(t, pool, "ann", 70, -30)
	})
}

// A handler that fails leaves no row, and its key is free: the next call runs.
func TestHandlerFails(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, pool *pgxpool.Pool, l library) {
		var runs atomic.Int32
		url := serve(t, pool, pgstore.Config{}, func(ctx context.Context, in sqltools.Booking) (out sqltools.Receipt, err error) {
			out, err = l.book(ctx, in)
			if runs.Add(1) == 1 {
				return out, errors.Join(err, errNo)
			}
			return out, err
		})
		require.Equal(t, 500, send(t, url, "k", sqltools.Booking{Account: "ann", Cents: 5}).status)
		requireLedger(t, pool, "ann", 100)
		got := send(t, url, "k", sqltools.Booking{Account: "ann", Cents: 5})
		require.Equal(t, []any{200, "false", int64(105)}, []any{got.status, got.replayed, got.receipt.Balance})
		requireLedger(t, pool, "ann", 105, 5)
	})
}

// A statement fails, and the handler does not look at its error. The guard commits no row and answers 500.
func TestStatementFails(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, pool *pgxpool.Pool, l library) {
		url := serve(t, pool, pgstore.Config{}, func(ctx context.Context, in sqltools.Booking) (out sqltools.Receipt, err error) {
			out, err = l.book(ctx, in)
			if err != nil {
				return out, err
			}
			write, err := l.join(ctx)
			if err != nil {
				return out, err
			}
			if write("nobody", 1) == nil {
				t.Error("an entry of no account was written")
			}
			return out, nil
		})
		got := send(t, url, "k", sqltools.Booking{Account: "ann", Cents: 5})
		require.Equal(t, []any{500, "transaction-failed"}, []any{got.status, got.code})
		requireLedger(t, pool, "ann", 100)
	})
}

// The library's own transaction in a run is a savepoint. A rolled back savepoint leaves no rows, and the other rows stay.
func TestNestedTransaction(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, pool *pgxpool.Pool, l library) {
		url := serve(t, pool, pgstore.Config{}, func(ctx context.Context, in sqltools.Booking) (out sqltools.Receipt, err error) {
			if out, err = l.book(ctx, in); err != nil {
				return out, err
			}
			kept := l.nested(ctx, func(write insert) error { return write("bob", 2) })
			returned := l.nested(ctx, func(write insert) error { return errors.Join(write("bob", 3), errNo) })
			refused := l.nested(ctx, func(write insert) error { return errors.Join(write("bob", 4), write("nobody", 1)) })
			if kept != nil || !errors.Is(returned, errNo) || refused == nil {
				t.Errorf("got %v, %v and %v, want nil, %v and an error", kept, returned, refused, errNo)
			}
			if in.Cents < 0 {
				return out, sqltools.Refused(0) // which takes all back
			}
			return out, nil
		})
		require.Equal(t, 200, send(t, url, "k", sqltools.Booking{Account: "ann", Cents: 5}).status)
		requireLedger(t, pool, "ann", 105, 5)
		requireLedger(t, pool, "bob", 100, 2)
		require.Equal(t, 422, send(t, url, "k2", sqltools.Booking{Account: "ann", Cents: -5}).status)
		requireLedger(t, pool, "bob", 100, 2)
	})
}

// Only the guard commits: a handler that tries gets an error. A run that fails afterwards leaves no row.
func TestCommit(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, pool *pgxpool.Pool, l library) {
		var tried error
		url := serve(t, pool, pgstore.Config{}, func(ctx context.Context, in sqltools.Booking) (out sqltools.Receipt, err error) {
			out, err = l.book(ctx, in)
			tried = l.commit(ctx)
			if nested := l.nested(ctx, func(write insert) error { return write("bob", 2) }); nested != nil && !errors.Is(nested, l.late) {
				t.Errorf("after the Commit a transaction got %v", nested)
			}
			return out, errors.Join(err, errNo)
		})
		require.Equal(t, 500, send(t, url, "k", sqltools.Booking{Account: "ann", Cents: 5}).status)
		require.ErrorIs(t, tried, pgstore.ErrTxOwned)
		requireLedger(t, pool, "ann", 100)
		requireLedger(t, pool, "bob", 100)
	})
}

// A handle that outlives its run is refused, and so is a join outside a run. Neither writes anywhere.
func TestAfterTheRun(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, pool *pgxpool.Pool, l library) {
		var leaked insert
		var leakedCtx context.Context
		url := serve(t, pool, pgstore.Config{}, func(ctx context.Context, in sqltools.Booking) (out sqltools.Receipt, err error) {
			leakedCtx = context.WithoutCancel(ctx)
			if leaked, err = l.join(leakedCtx); err != nil {
				return out, err
			}
			return l.book(ctx, in)
		})
		require.Equal(t, 200, send(t, url, "k", sqltools.Booking{Account: "ann", Cents: 5}).status)
		require.ErrorIs(t, leaked("ann", 6), l.late)
		_, err := l.book(leakedCtx, sqltools.Booking{Account: "ann", Cents: 7})
		require.ErrorIs(t, err, pgstore.ErrTxEnded)
		_, err = l.book(t.Context(), sqltools.Booking{Account: "ann", Cents: 8})
		require.ErrorIs(t, err, pgstore.ErrNoTx)
		requireLedger(t, pool, "ann", 105, 5)
	})
}

// Two runs lock two accounts in opposite order. Postgres refuses one of them, and the guard runs it again.
func TestDeadlock(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, pool *pgxpool.Pool, l library) {
		var runs atomic.Int32
		var locked sync.WaitGroup // the first statements of the two first runs
		locked.Add(2)
		url := serve(t, pool, pgstore.Config{}, func(ctx context.Context, in sqltools.Booking) (out sqltools.Receipt, err error) {
			if out, err = l.book(ctx, in); err != nil {
				return out, err
			}
			if runs.Add(1) <= 2 {
				locked.Done()
				locked.Wait()
			}
			other := sqltools.Booking{Account: "ann", Cents: -in.Cents}
			if in.Account == "ann" {
				other.Account = "bob"
			}
			_, err = l.book(ctx, other)
			return out, err
		})
		other := make(chan answer)
		go func() { other <- send(t, url, "k1", sqltools.Booking{Account: "ann", Cents: 5}) }()
		require.Equal(t, http.StatusOK, send(t, url, "k2", sqltools.Booking{Account: "bob", Cents: 7}).status)
		require.Equal(t, http.StatusOK, (<-other).status)
		require.GreaterOrEqual(t, runs.Load(), int32(3)) // the repeated run can lose again
		var ann, bob, entries int64
		require.NoError(t, pool.QueryRow(t.Context(), `select (select cents from account where name = 'ann'),
			(select cents from account where name = 'bob'), count(*) from entry`).Scan(&ann, &bob, &entries))
		require.Equal(t, []int64{98, 102, 4}, []int64{ann, bob, entries})
	})
}

// Another transaction changes the row that a run with a snapshot is about to lock. The run starts over.
func TestSerializationFailure(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, pool *pgxpool.Pool, l library) {
		var runs atomic.Int32
		var first error
		url := serve(t, pool, pgstore.Config{Isolation: pgx.RepeatableRead}, func(ctx context.Context, in sqltools.Booking) (out sqltools.Receipt, err error) {
			write, err := l.join(ctx)
			if err == nil {
				err = write("bob", 1) // takes the snapshot
			}
			if err != nil {
				return out, err
			}
			if runs.Add(1) == 1 {
				if _, err := pool.Exec(ctx, "update account set cents = 50 where name = 'ann'"); err != nil {
					return out, err
				}
				_, first = l.book(ctx, in)
				return out, first
			}
			return l.book(ctx, in)
		})
		got := send(t, url, "k", sqltools.Booking{Account: "ann", Cents: 5})
		require.Equal(t, answer{200, "", "false", got.receipt}, got)
		require.ErrorContains(t, first, "40001")
		require.Equal(t, int32(2), runs.Load())
		requireLedger(t, pool, "ann", 55, 5)
		requireLedger(t, pool, "bob", 100, 1)
	})
}

// The rows that a handler wrote before it refuses are rolled back. The refusal is stored.
func TestRefusalWithRows(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, pool *pgxpool.Pool, l library) {
		url := serve(t, pool, pgstore.Config{}, func(ctx context.Context, in sqltools.Booking) (out sqltools.Receipt, err error) {
			if _, err = l.book(ctx, in); err != nil {
				return out, err
			}
			return out, server.Refuse(http.StatusConflict, "closed", "")
		})
		for _, replayed := range []string{"false", "true"} {
			require.Equal(t, answer{status: 409, code: "closed", replayed: replayed}, send(t, url, "k", sqltools.Booking{Account: "ann", Cents: 5}))
		}
		requireLedger(t, pool, "ann", 100)
	})
}
