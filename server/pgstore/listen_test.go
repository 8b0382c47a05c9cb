package pgstore_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/pgtest"
	"github.com/fanonce/fanonce/server/store"
)

// openListening is openOn with a listening connection.
func openListening(tb testing.TB, look *pgxpool.Pool, changes ...func(*pgxpool.Config)) *pgstore.Store {
	tb.Helper()
	cfg := look.Config()
	for _, change := range changes {
		change(cfg)
	}
	return openOn(tb, look, pgstore.Config{Listen: cfg.ConnConfig}, changes...)
}

// listens returns once the store hears notifications; somebody must have waited.
func listens(tb testing.TB, s *pgstore.Store) {
	tb.Helper()
	o := claim(tb, s)
	_, stop := s.Watch(o.ID, o.Fence)
	defer stop()
	until(tb, "the store listens", s.Listening)
}

// An ear is a connection that hears what is notified in a database.
type ear struct {
	look    *pgxpool.Pool
	conn    *pgx.Conn
	channel string
}

func newEar(tb testing.TB, look *pgxpool.Pool) *ear {
	tb.Helper()
	conn, err := pgx.ConnectConfig(tb.Context(), look.Config().ConnConfig)
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = conn.Close(context.Background()) })
	e := &ear{look: look, conn: conn, channel: queryRow[string](tb, look, "select 'fanonce_' || 'idempotency'::regclass::oid")}
	_, err = conn.Exec(tb.Context(), "listen "+e.channel)
	require.NoError(tb, err)
	return e
}

// heard returns all keys that were notified until now. Notifications come in the order of their commits, so that the
// last one shows that there are no more.
func (e *ear) heard(tb testing.TB) (keys []store.ID) {
	tb.Helper()
	exec(tb, e.look, "select pg_notify($1, 'enough')", e.channel)
	for {
		n, err := e.conn.WaitForNotification(tb.Context())
		require.NoError(tb, err)
		if n.Payload == "enough" {
			return keys
		}
		var key pgtype.UUID
		if n.Payload != "" { // a store that was opened
			require.NoError(tb, key.Scan(n.Payload))
			keys = append(keys, key.Bytes)
		}
	}
}

// For every end of a run there is a notification if somebody waits, and none otherwise.
func TestListen_whoSettlesNotifies(t *testing.T) {
	t.Parallel()
	released := store.Settlement{State: store.StateReleased}
	unknown := store.Settlement{State: store.StateUnknown}
	alone := func(end store.Settlement) func(*testing.T, *pgstore.Store, []store.Owner) {
		return func(t *testing.T, s *pgstore.Store, owners []store.Owner) {
			for _, o := range owners {
				require.NoError(t, s.Settle(t.Context(), o, end))
			}
		}
	}
	inTx := func(t *testing.T, s *pgstore.Store, owners []store.Owner) {
		for _, o := range owners {
			tx, _ := begin(t, s)
			require.NoError(t, tx.Settle(t.Context(), o, completion))
		}
	}
	together := func(t *testing.T, s *pgstore.Store, owners []store.Owner) {
		for _, err := range flushed(t, s, len(owners), func(i int) error { return s.Settle(t.Context(), owners[i], completion) }) {
			require.NoError(t, err)
		}
	}
	inline, apart := pgstore.Config{}, pgstore.Config{Answers: pgstore.AnswersPartitioned}
	for _, tt := range []struct {
		name string
		cfg  pgstore.Config
		end  func(*testing.T, *pgstore.Store, []store.Owner)
	}{
		{"completed", inline, alone(completion)},
		{"released", inline, alone(released)},
		{"unknown", inline, alone(unknown)},
		{"not combined", pgstore.Config{SeparateCommits: true}, alone(completion)},
		{"in a transaction", inline, inTx},
		{"in one flush", inline, together},
		{"completed, to a partition", apart, alone(completion)},
		{"in a transaction, to a partition", apart, inTx},
		{"in one flush, to partitions", apart, together},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, look := open(t, tt.cfg, size(1))
			require.NoError(t, s.MaintainPartitions(t.Context(), 2*time.Hour))
			e := newEar(t, look)
			owners := []store.Owner{claim(t, s), claim(t, s), claim(t, s), claim(t, s)}
			exec(t, look, "update idempotency set waiters = true where key = any ($1)", [][16]byte{owners[1].ID, owners[2].ID})
			tt.end(t, s, owners)
			require.ElementsMatch(t, []store.ID{owners[1].ID, owners[2].ID}, e.heard(t))
		})
	}
}

// A notification takes a lock for which all commits would wait in turn.
func TestListen_silentWhileNobodyWaits(t *testing.T) {
	t.Parallel()
	look := pgtest.NewPool(t, pgstore.Migrate)
	s := openListening(t, look)
	listens(t, s)
	e := newEar(t, look)
	const n = 1000
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range n / 8 {
				if _, err := claimAndSettle(t.Context(), s, random()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	require.Empty(t, e.heard(t))
	require.Equal(t, n, queryRow[int](t, look, "select count(*) from idempotency where state = 2"))
	require.Zero(t, queryRow[int](t, look, "select count(*) from idempotency where state = 2 and waiters"))
}

// A deafTest has two stores on one table. One of the stores waits, and has one connection only.
type deafTest struct {
	look           *pgxpool.Pool
	table          string
	owner, waiting *pgstore.Store
	pool           *pgxpool.Pool // of the one that waits
}

func newDeafTest(t *testing.T, look *pgxpool.Pool, schema, table string) *deafTest {
	t.Helper()
	d := &deafTest{look: look, table: table, owner: openOn(t, look, pgstore.Config{Schema: schema})}
	cfg := look.Config()
	cfg.MaxConns = 1
	pgstore.Prepare(cfg)
	var err error
	d.pool, err = pgxpool.NewWithConfig(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(d.pool.Close)
	listen := look.Config().ConnConfig
	listen.RuntimeParams["application_name"] = "listens"
	d.waiting, err = pgstore.New(d.pool, pgstore.Config{Schema: schema, Listen: listen})
	require.NoError(t, err)
	t.Cleanup(d.waiting.Close)
	return d
}

// noted watches a new run, and returns when its record says so.
func (d *deafTest) noted(t *testing.T) (o store.Owner, ended <-chan struct{}) {
	t.Helper()
	o = claim(t, d.owner)
	ended, stop := d.waiting.Watch(o.ID, o.Fence)
	t.Cleanup(stop)
	until(t, "it is noted", func() bool {
		return queryRow[bool](t, d.look, "select waiters from "+d.table+" where key = $1", [16]byte(o.ID))
	})
	return o, ended
}

// hears shows that the store is notified. The store cannot poll, because its only connection is taken. It did not
// give up either, because that takes three failed polls.
func (d *deafTest) hears(t *testing.T) {
	t.Helper()
	listens(t, d.waiting)
	o, ended := d.noted(t)
	tx, _ := begin(t, d.waiting)
	before := d.pool.Stat().CanceledAcquireCount()
	require.NoError(t, d.owner.Settle(t.Context(), o, completion))
	told(t, "the end of the run", ended)
	require.Less(t, d.pool.Stat().CanceledAcquireCount()-before, int64(3))
	require.NoError(t, tx.Rollback(t.Context()))
}

// The connection that listens breaks repeatedly. Polling finds the runs that
// end meanwhile, and the store connects again.
func TestListen_connectionBreaks(t *testing.T) {
	t.Parallel()
	look := pgtest.NewPool(t, pgstore.Migrate)
	d := newDeafTest(t, look, "", "idempotency")
	d.hears(t)
	for range 3 {
		listens(t, d.waiting)
		o, ended := d.noted(t)
		const sessions = "from pg_stat_activity where datname = current_database() and application_name = 'listens'"
		broken := queryRow[int](t, look, "select pid "+sessions)
		require.True(t, queryRow[bool](t, look, "select pg_terminate_backend($1)", broken))
		require.NoError(t, d.owner.Settle(t.Context(), o, completion))
		told(t, "what ended while nobody listened", ended)
		until(t, "it has noticed, and connects again", func() bool {
			return queryRow[bool](t, look, "select exists (select "+sessions+" and pid <> $1)", broken)
		})
	}
	d.hears(t)
}

// Runs end at the moment at which their records get the note that somebody waits. Every waiter is told. A
// notification is sent only if the note came first.
func TestListen_noteRacesSettlement(t *testing.T) {
	t.Parallel()
	owner, look := open(t, pgstore.Config{})
	waiting := openListening(t, look)
	listens(t, waiting)
	e := newEar(t, look)
	const callers, each = 32, 100
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for range each {
				req := newClaim()
				r, _, err := owner.Claim(t.Context(), req)
				if err != nil {
					t.Error(err)
					return
				}
				ended, stop := waiting.Watch(req.ID, r.Fence)
				time.Sleep(time.Duration(rand.IntN(12_000)) * time.Microsecond) // a poll comes after 5 ms or so
				if err := owner.Settle(t.Context(), store.Owner{ID: req.ID, Token: req.Token, Fence: r.Fence}, completion); err != nil {
					t.Error(err)
				}
				told(t, "a run that ended as it was noted", ended)
				stop()
			}
		})
	}
	wg.Wait()
	rows, err := look.Query(t.Context(), "select key from idempotency where waiters and state = 2")
	require.NoError(t, err)
	noted, err := pgx.CollectRows(rows, pgx.RowTo[[16]byte])
	require.NoError(t, err)
	want := make([]store.ID, len(noted))
	for i, key := range noted {
		want[i] = key
	}
	require.ElementsMatch(t, want, e.heard(t))
	require.NotEmpty(t, noted, "none was noted in time")
	require.Less(t, len(noted), callers*each, "none ended before it was noted")
}

// A note skips a record that an undo holds for the length of its transaction,
// and other notes do not wait for it.
func TestListen_passesOverLockedRecords(t *testing.T) {
	t.Parallel()
	owner, look := open(t, pgstore.Config{})
	waiting := openListening(t, look)
	listens(t, waiting)
	locked, free := claim(t, owner), claim(t, owner)
	tx, _ := begin(t, owner)
	_, _, err := tx.Cancel(t.Context(), store.CancelRequest{ID: locked.ID, Token: random(), Keep: time.Hour})
	require.NoError(t, err)
	_, stop := waiting.Watch(locked.ID, locked.Fence)
	defer stop()
	_, stopFree := waiting.Watch(free.ID, free.Fence)
	defer stopFree()
	noted := func(o store.Owner) func() bool {
		return func() bool {
			return queryRow[bool](t, look, "select waiters from idempotency where key = $1", [16]byte(o.ID))
		}
	}
	until(t, "the free one is noted", noted(free))
	require.False(t, noted(locked)())
	require.NoError(t, tx.Rollback(t.Context()))
	until(t, "the other is noted", noted(locked))
}

// The waiters of the previous run have been told. The next run begins without the note.
func TestListen_takeOverForgetsWhoWaited(t *testing.T) {
	t.Parallel()
	s, look := open(t, pgstore.Config{})
	o := claim(t, s)
	exec(t, look, "update idempotency set waiters = true")
	require.NoError(t, s.Settle(t.Context(), o, store.Settlement{State: store.StateReleased}))
	_, won, err := s.TakeOver(t.Context(), claimOf(o.ID), o.Fence)
	require.NoError(t, err)
	require.True(t, won)
	require.False(t, queryRow[bool](t, look, "select waiters from idempotency"))
}

// Two tables in different schemas of one database each have a channel of their own.
func TestListen_schemas(t *testing.T) {
	t.Parallel()
	look := pgtest.NewPool(t, pgstore.Migrate)
	require.NoError(t, pgstore.Migrate(t.Context(), look, "other"))
	e := newEar(t, look)
	newDeafTest(t, look, "other", "other.idempotency").hears(t)
	require.Empty(t, e.heard(t))
}

// Open refuses at once a Listen that would never receive a notification.
func TestOpen_listen(t *testing.T) {
	t.Parallel()
	look := pgtest.NewPool(t, pgstore.Migrate)
	parse := func(t *testing.T, url string) *pgx.ConnConfig {
		t.Helper()
		cfg, err := pgx.ParseConfig(url)
		require.NoError(t, err)
		return cfg
	}
	for _, tt := range []struct {
		name string
		cfg  pgstore.Config
		want string
	}{
		{"not from ParseConfig", pgstore.Config{Listen: new(pgx.ConnConfig)}, "Listen must come from pgx.ParseConfig"},
		{"isolation", pgstore.Config{Listen: look.Config().ConnConfig, Isolation: pgx.RepeatableRead}, `Listen is not for Isolation "repeatable read"`},
		{"nobody there", pgstore.Config{Listen: parse(t, "postgres://127.0.0.1:1/none")}, "listen"},
		{"pooler", pgstore.Config{}, "is not heard"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if tt.name == "pooler" {
				tt.cfg.Listen = parse(t, pgtest.PooledURL(t, look.Config().ConnString()))
			}
			tt.cfg.AllowNonDurable = true
			_, err := pgstore.Open(t.Context(), look.Config(), tt.cfg)
			require.ErrorContains(t, err, tt.want)
			if tt.want != "listen" {
				require.ErrorIs(t, err, pgstore.ErrConfig)
			}
		})
	}
}
