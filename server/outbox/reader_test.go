package outbox_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server/outbox"
)

// fill writes messages as a loader does. One in a hundred fails.
func fill(t *testing.T, pool *pgxpool.Pool, n int) {
	t.Helper()
	_, err := pool.Exec(t.Context(), `insert into outbox (lane, attempts, created_at, key, topic, aggregate, payload, last_error)
		select i % 32, case when i % 100 = 0 then 3 else 0 end, clock_timestamp() - interval '1 hour' + i * interval '1 millisecond',
			'k-' || i, 'orders', 'order-' || i % 1000, 'secret', case when i % 100 = 0 then 'no leader' end
		from generate_series(1, $1) i`, n)
	require.NoError(t, err)
}

func newReader(t *testing.T, pool *pgxpool.Pool, cfg outbox.ReaderConfig) *outbox.Reader {
	t.Helper()
	r, err := outbox.NewReader(pool, cfg)
	require.NoError(t, err)
	return r
}

// Pages of any size have each message once, in the order in which they go.
func TestReader_list(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	fill(t, pool, 3000)
	r := newReader(t, pool, outbox.ReaderConfig{StatementTimeout: time.Minute})
	for _, failing := range []bool{false, true} {
		for _, limit := range []int{7, 1000, 5000} {
			var all []outbox.Waiting
			for req := (outbox.ListRequest{Failing: failing, Limit: limit}); ; req.After = all[len(all)-1].Cursor {
				page, err := r.List(t.Context(), req)
				require.NoError(t, err)
				all = append(all, page...)
				if len(page) < limit {
					break
				}
			}
			require.Len(t, all, map[bool]int{false: 3000, true: 30}[failing])
			for i, m := range all {
				require.True(t, i == 0 || m.Lane > all[i-1].Lane || m.Lane == all[i-1].Lane && m.Position > all[i-1].Position, "%+v after %+v", m, all[max(i-1, 0)])
				require.Equal(t, m.Attempts > 0, m.LastError == "no leader")
				require.True(t, !failing || m.Attempts == 3)
				require.Equal(t, len("secret"), m.PayloadBytes)
				require.Equal(t, "orders", m.Topic)
				require.True(t, strings.HasPrefix(m.Aggregate, "order-"))
				require.Greater(t, m.Age, 50*time.Minute)
			}
		}
	}
}

// No count exceeds the limit, and the age is that of the oldest message.
func TestReader_stats(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	r := newReader(t, pool, outbox.ReaderConfig{StatementTimeout: time.Minute})
	s, err := r.Stats(t.Context())
	require.NoError(t, err)
	require.Equal(t, outbox.Stats{}, s)
	fill(t, pool, 12_000)
	s, err = r.Stats(t.Context())
	require.NoError(t, err)
	require.InDelta(t, time.Hour, s.Oldest, float64(5*time.Minute))
	require.Greater(t, s.Oldest, time.Hour-time.Second)
	s.Oldest = 0
	require.Equal(t, outbox.Stats{Waiting: outbox.StatsLimit, Failing: 120}, s)
}

func TestReader_refuses(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	r := newReader(t, pool, outbox.ReaderConfig{})
	for _, req := range []outbox.ListRequest{{}, {Limit: -1}, {Limit: 1, After: outbox.Cursor{Lane: 32}}, {Limit: 1, After: outbox.Cursor{Position: -1}}} {
		_, err := r.List(t.Context(), req)
		require.ErrorIs(t, err, outbox.ErrArgument)
	}
	_, err := outbox.NewReader(nil, outbox.ReaderConfig{})
	require.ErrorIs(t, err, outbox.ErrConfig)
	for _, cfg := range []outbox.ReaderConfig{{StatementTimeout: -1}, {StatementTimeout: 2 * time.Hour}, {Schema: "X"}} {
		_, err := outbox.NewReader(pool, cfg)
		require.ErrorIs(t, err, outbox.ErrConfig)
	}
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "lock table outbox in access exclusive mode")
	require.NoError(t, err)
	r = newReader(t, pool, outbox.ReaderConfig{StatementTimeout: 50 * time.Millisecond})
	_, err = r.Stats(t.Context())
	require.ErrorIs(t, err, outbox.ErrTooSlow)
	_, err = r.List(t.Context(), outbox.ListRequest{Limit: 1})
	require.ErrorIs(t, err, outbox.ErrTooSlow)
	require.NoError(t, tx.Rollback(t.Context()))
}

// A listener remembers the statements that a pool sends.
type listener struct {
	sql  []string
	args [][]any
}

func (l *listener) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	l.sql, l.args = append(l.sql, q.SQL), append(l.args, q.Args)
	return ctx
}

func (l *listener) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (l *listener) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}

func (l *listener) TraceBatchQuery(_ context.Context, _ *pgx.Conn, q pgx.TraceBatchQueryData) {
	l.sql, l.args = append(l.sql, q.SQL), append(l.args, q.Args)
}

func (l *listener) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// plans returns how the server carries out what ask sends on the table of messages, behind the settings that were sent
// with it.
func plans(t *testing.T, pool *pgxpool.Pool, ask func(r *outbox.Reader) error) string {
	t.Helper()
	l := new(listener)
	cfg := pool.Config()
	cfg.ConnConfig.Tracer = l
	traced, err := pgxpool.NewWithConfig(t.Context(), cfg)
	require.NoError(t, err)
	defer traced.Close()
	require.NoError(t, ask(newReader(t, traced, outbox.ReaderConfig{StatementTimeout: time.Minute})))
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, tx.Rollback(context.WithoutCancel(t.Context()))) }()
	var all []string
	for i, sql := range l.sql {
		if i == 0 || !strings.Contains(l.sql[i-1], "enable_seqscan") {
			continue
		}
		_, err = tx.Exec(t.Context(), l.sql[i-1])
		require.NoError(t, err)
		rows, err := tx.Query(t.Context(), "explain "+sql, l.args[i]...)
		require.NoError(t, err)
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(t, err)
		all = append(all, lines...)
	}
	require.NotEmpty(t, all)
	return strings.Join(all, "\n")
}

// Every statement reads messages by an index, with statistics and without. Without the index of failing messages the
// test would see it.
func TestReader_plans(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	_, err := pool.Exec(t.Context(), "alter table outbox set (autovacuum_enabled = off)")
	require.NoError(t, err)
	fill(t, pool, 20_000)
	stats := func(r *outbox.Reader) error { _, err := r.Stats(t.Context()); return err }
	list := func(failing bool) func(r *outbox.Reader) error {
		return func(r *outbox.Reader) error {
			_, err := r.List(t.Context(), outbox.ListRequest{Failing: failing, After: outbox.Cursor{Lane: 3, Position: 5}, Limit: 100})
			return err
		}
	}
	for _, analyze := range []string{"select", "analyze outbox"} {
		_, err := pool.Exec(t.Context(), analyze)
		require.NoError(t, err)
		require.NotContains(t, plans(t, pool, stats), "Seq Scan on outbox ")
		require.Contains(t, plans(t, pool, stats), "using outbox_failing on outbox")
		require.Contains(t, plans(t, pool, list(false)), "using outbox_pkey on outbox")
		require.Contains(t, plans(t, pool, list(true)), "using outbox_failing on outbox")
	}
	_, err = pool.Exec(t.Context(), "drop index outbox_failing")
	require.NoError(t, err)
	require.NotContains(t, plans(t, pool, list(true)), "using outbox_failing on outbox")
	_, err = pool.Exec(t.Context(), "alter table outbox drop constraint outbox_pkey")
	require.NoError(t, err)
	require.Contains(t, plans(t, pool, stats), "Seq Scan on outbox ")
}
