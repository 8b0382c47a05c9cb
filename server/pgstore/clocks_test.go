package pgstore_test

import (
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/pgtest"
)

// shifted puts clock functions in front of the server's own. With them the database's clock is ahead by the interval
// in the table shifted.clock. Only sessions that begin later find these functions.
const shifted = `
create schema shifted;
create table shifted.clock (ahead interval not null);
insert into shifted.clock values ('0');
create function shifted.clock_timestamp() returns timestamptz volatile language sql as
	'select pg_catalog.clock_timestamp() + ahead from shifted.clock';
create function shifted.statement_timestamp() returns timestamptz stable language sql as
	'select pg_catalog.statement_timestamp() + ahead from shifted.clock';
create function shifted.now() returns timestamptz stable language sql as
	'select pg_catalog.now() + ahead from shifted.clock';
do $$ begin
	execute format('alter database %I set search_path = shifted, pg_catalog, public', current_database());
end $$;`

// clocked returns a database with an effect table and a clock that a test sets.
func clocked(t *testing.T) *pgxpool.Pool {
	t.Helper()
	look := pgtest.NewPool(t, pgstore.Migrate)
	exec(t, look, "create table effect (what text)")
	exec(t, look, shifted)
	look.Reset()
	until(t, "sessions find the clock", func() bool {
		return queryRow[string](t, look, "show search_path") == "shifted, pg_catalog, public"
	})
	return look
}

func setAhead(t *testing.T, look *pgxpool.Pool, ahead time.Duration) {
	t.Helper()
	exec(t, look, "update shifted.clock set ahead = $1", ahead)
	skew := time.Until(queryRow[time.Time](t, look, "select clock_timestamp()")) - ahead
	require.Less(t, skew.Abs(), 10*time.Minute, "the clock is not shifted: this shows nothing")
}

// The clock of the application and that of the database differ by an hour. That changes no result. A run keeps its
// lease until it ends. A duplicate is told to wait at most one lease. The answer is replayed.
func TestClocks_anHourApart(t *testing.T) {
	t.Parallel()
	for name, ahead := range map[string]time.Duration{"application ahead": -time.Hour, "database ahead": time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const lease = 3 * time.Second
			look := clocked(t)
			setAhead(t, look, ahead)
			s := openOn(t, look, pgstore.Config{})
			begun, end := make(chan struct{}, 9), make(chan struct{})
			c := newCallee(t, s, server.Config{Lease: lease}, func(r *http.Request) {
				begun <- struct{}{}
				select {
				case <-end:
				case <-r.Context().Done():
				}
			})
			peer := newCallee(t, openOn(t, look, pgstore.Config{}), server.Config{Lease: lease}, func(*http.Request) {
				t.Error("the peer ran")
			})
			release := sync.OnceFunc(func() { close(end) })
			t.Cleanup(release)
			first := make(chan reply, 1)
			go func() { first <- c.insist(t, "order-1") }()
			<-begun
			for renewed := time.Now().Add(lease * 3 / 2); time.Now().Before(renewed); time.Sleep(lease / 10) { // only a renewed lease is as long
				r := peer.post(t.Context(), "order-1")
				require.Equal(t, http.StatusConflict, r.status, "past the end of its first lease, too: %s", r.body)
				require.Contains(t, []string{"1", "2", "3"}, r.header.Get("Retry-After"))
			}
			release()
			require.Equal(t, http.StatusCreated, (<-first).status)
			require.True(t, peer.post(t.Context(), "order-1").replayed)
			require.Zero(t, c.count(server.EventLeaseLost))
			require.Equal(t, 1, queryRow[int](t, look, "select count(*) from effect"))
			require.EqualValues(t, 1, queryRow[int64](t, look, "select fence from idempotency"))
			n, err := s.Sweep(t.Context(), 10)
			require.NoError(t, err)
			require.Zero(t, n, "its retention has just begun")
		})
	}
}

// The database's clock jumps while a run holds its key. After a jump forward the lease ends early: a peer takes the
// key over, and the fence keeps the first owner from a second effect. After a jump backward the lease lasts longer,
// and the owner completes.
func TestClocks_databaseJumps(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		jump  time.Duration
		owner int // status of the first owner's answer
		fence int64
	}{
		{"forward", time.Hour, http.StatusConflict, 2},
		{"backward", -time.Hour, http.StatusCreated, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			look := clocked(t)
			begun, end := make(chan struct{}), make(chan struct{})
			// The clock jumps between two renewals, so that no renewal corrects the lease.
			times := server.Config{Lease: time.Minute}
			owner := newCallee(t, openOn(t, look, pgstore.Config{}), times, func(*http.Request) {
				close(begun)
				<-end
			})
			took, settle := make(chan struct{}), make(chan struct{})
			peer := newCallee(t, openOn(t, look, pgstore.Config{}), times, func(*http.Request) {
				close(took)
				<-settle
			})
			release := sync.OnceFunc(func() { close(end) })
			t.Cleanup(release)
			t.Cleanup(sync.OnceFunc(func() { close(settle) }))
			first, early := make(chan reply, 1), make(chan reply, 1)
			go func() { first <- owner.post(t.Context(), "order-1") }()
			<-begun
			setAhead(t, look, tt.jump)
			go func() { early <- peer.post(t.Context(), "order-1") }()
			if tt.jump > 0 {
				<-took // and is at work when the first owner ends
			} else {
				r := <-early
				require.Equal(t, http.StatusConflict, r.status, r.body)
			}
			release()
			last := <-first
			require.Equal(t, tt.owner, last.status, last.body)
			if tt.jump > 0 {
				require.Contains(t, last.body, "lease-lost")
				require.Zero(t, queryRow[int](t, look, "select count(*) from effect"))
				settle <- struct{}{}
				r := <-early
				require.Equal(t, http.StatusCreated, r.status, r.body)
			}
			final := peer.insist(t, "order-1")
			require.Equal(t, http.StatusCreated, final.status)
			require.True(t, final.replayed)
			require.Equal(t, 1, queryRow[int](t, look, "select count(*) from effect"))
			require.Equal(t, tt.fence, queryRow[int64](t, look, "select fence from idempotency"))
		})
	}
}
