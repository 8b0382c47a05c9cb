package pgstore_test

import (
	"net/http"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgstore"
)

// A statement that commits by itself would make the key durable without the work behind it.
func TestSendOnce_isOneTransaction(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, sql string
		refused   error  // before anything was sent
		code      string // of the server
	}{
		{"procedure that commits", "call post('a')", nil, "2D000"},
		{"block that commits", "do $$ begin insert into entry values ('a'); commit; end $$", nil, "2D000"},
		{"procedure", "call note('a')", nil, "23505"},
		{"savepoint", "savepoint s", nil, "23505"},
		{"a setting", "set local work_mem = '1MB'", nil, "23505"},
		{"commit", "commit", pgstore.ErrTxOwned, ""},
		{"commit and chain", " /* the end */ COMMIT AND CHAIN", pgstore.ErrTxOwned, ""},
		{"end", "end", pgstore.ErrTxOwned, ""},
		{"rollback", "rollback", pgstore.ErrTxOwned, ""},
		{"abort", "; abort", pgstore.ErrTxOwned, ""},
		{"begin", "begin", pgstore.ErrTxOwned, ""},
		{"start", "start transaction", pgstore.ErrTxOwned, ""},
		{"prepare", "prepare transaction 'p'", pgstore.ErrTxOwned, ""},
		{"nothing", " -- nothing", pgstore.ErrArgument, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, look := open(t, pgstore.Config{})
			exec(t, look, "create table entry (name text unique)")
			exec(t, look, "insert into entry values ('taken')")
			exec(t, look, "create procedure note(n text) language sql as 'insert into entry values (n)'")
			exec(t, look, "create procedure post(n text) language plpgsql as $$ begin insert into entry values (n); commit; end $$")
			work := new(pgx.Batch)
			work.Queue(tt.sql)
			work.Queue("insert into entry values ($1)", "taken") // fails
			first, err := s.SendOnce(t.Context(), invoice(t, "k", "p"), work)
			require.False(t, first)
			if tt.refused != nil {
				require.ErrorIs(t, err, tt.refused)
			} else {
				refused := new(pgconn.PgError)
				require.ErrorAs(t, err, &refused)
				require.Equal(t, tt.code, refused.Code)
			}
			require.Zero(t, queryRow[int](t, look, "select count(*) from idempotency"), "the key can be used")
			require.Equal(t, 1, queryRow[int](t, look, "select count(*) from entry"))

			exec(t, look, "delete from entry") // and now the last statement succeeds
			first, err = s.SendOnce(t.Context(), invoice(t, "k", "p"), work)
			if tt.code == "23505" {
				require.NoError(t, err)
			}
			require.Equal(t, err == nil, first)
			require.Equal(t, err == nil, queryRow[int](t, look, "select count(*) from idempotency") == 1, "the key without the work")
			require.Equal(t, err == nil, queryRow[int](t, look, "select count(*) from entry") > 0, "the work without the key")
		})
	}
}

// The types of queued statements are looked up before the first is sent. So one that needs what another makes fails, and
// nothing is committed.
func TestQueue_cannotUseWhatAQueuedStatementMakes(t *testing.T) {
	t.Parallel()
	s, look := open(t, pgstore.Config{})
	exec(t, look, "create table orders (id int)")
	const make, fill, order = "create temp table lines (id int) on commit drop", "insert into lines values ($1)", "insert into orders select id from lines"
	g, err := server.NewGuard(s, server.Unscoped, server.Config{})
	require.NoError(t, err)
	queued := routeOn(t, g, server.Route{Effect: server.Transactional}, func(_ http.ResponseWriter, r *http.Request) {
		must(pgstore.Queue(r.Context(), make), pgstore.Queue(r.Context(), fill, 1), pgstore.Queue(r.Context(), order))
	})
	requireCode(t, postTo(queued, "queued"), wire.TransactionFailed)
	batch := new(pgx.Batch)
	batch.Queue(make)
	batch.Queue(fill, 1)
	batch.Queue(order)
	_, err = s.SendOnce(t.Context(), invoice(t, "k", "p"), batch)
	refused := new(pgconn.PgError)
	require.ErrorAs(t, err, &refused)
	require.Equal(t, "42P01", refused.Code)
	require.Zero(t, queryRow[int](t, look, "select count(*) from orders"))
	sent := routeOn(t, g, server.Route{Effect: server.Transactional}, func(_ http.ResponseWriter, r *http.Request) {
		for _, sql := range []string{make, "insert into lines values (1)", order} {
			_, err := pgstore.Tx(r.Context()).Exec(r.Context(), sql)
			must(err)
		}
	})
	require.Equal(t, 200, postTo(sent, "sent").Code)
	require.Equal(t, 1, queryRow[int](t, look, "select count(*) from orders"))
}
