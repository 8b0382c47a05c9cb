package pgstore_test

import (
	"context"
	"fmt"
	mathrand "math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/internal/pgkit"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/store"
)

// An undo holds the forward key for the length of its transaction. The leases
// of all other keys of the process must not end because of that.
func TestRenew_heldRecords(t *testing.T) {
	t.Parallel()
	s, look := open(t, pgstore.Config{})
	var held, free []store.Owner
	for range 3 {
		held = append(held, claim(t, s))
	}
	for range 60 {
		free = append(free, claim(t, s))
	}
	stale := claim(t, s)
	stale.Token = random()
	all := append(slices.Concat(held, free), stale)
	mathrand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })

	tx, ctx := begin(t, s)
	for _, o := range held {
		_, existed, err := tx.Cancel(ctx, store.CancelRequest{ID: o.ID, Token: random(), Keep: time.Hour})
		require.NoError(t, err)
		require.True(t, existed)
	}
	got, err := s.Renew(t.Context(), all, 10*time.Hour)
	require.Equal(t, pgkit.FailureLockTimeout, pgkit.Classify(err), "error = %v", err)
	require.ErrorContains(t, err, "3 of 64 leases")
	require.ElementsMatch(t, free, got.Renewed)
	require.Equal(t, []store.Owner{stale}, got.Lost)
	const renewed = "select count(*) from idempotency where lease_until > clock_timestamp() + interval '1 h'"
	require.Equal(t, len(free), queryRow[int](t, look, renewed))

	require.NoError(t, tx.Rollback(t.Context()))
	got, err = s.Renew(t.Context(), held, 10*time.Hour)
	require.NoError(t, err)
	require.ElementsMatch(t, held, got.Renewed)
}

// The same holds for whole runs, beside a slow undo in another process.
func TestRenew_undoHoldsOneRun(t *testing.T) {
	t.Parallel()
	const lease = 5 * time.Second
	storeA, look := open(t, pgstore.Config{})
	a, err := server.NewGuard(storeA, server.Unscoped, server.Config{Lease: lease})
	require.NoError(t, err)
	b, err := server.NewGuard(openOn(t, look, pgstore.Config{}), server.Unscoped, server.Config{Lease: lease})
	require.NoError(t, err)

	const others = 3
	running, heldLost := make(chan struct{}, 1+others), make(chan struct{})
	long, err := a.Handler(server.Keyed, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		running <- struct{}{}
		if r.Header.Get(wire.HeaderKey) == "held" {
			<-r.Context().Done()
			assert.ErrorIs(t, context.Cause(r.Context()), server.ErrLeaseLost)
			close(heldLost)
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		select {
		case <-r.Context().Done():
			w.WriteHeader(http.StatusInternalServerError)
		case <-heldLost: // by now the first lease is over
		}
	}))
	require.NoError(t, err)
	undo, err := b.Handler(server.Transactional, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, err := server.Barrier(r.Context())
		assert.ErrorIs(t, err, server.ErrForwardInProgress)
		running <- struct{}{}
		<-heldLost // slow, stopped, or its machine is gone: the lock stays
	}))
	require.NoError(t, err)

	post := func(h http.Handler, key string, headers ...string) int {
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		r.Header.Set(wire.HeaderKey, key)
		for pair := range slices.Chunk(headers, 2) {
			r.Header.Set(pair[0], pair[1])
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code
	}
	var wg sync.WaitGroup
	wg.Go(func() { post(long, "held") })
	for i := range others {
		wg.Go(func() { assert.Equal(t, http.StatusOK, post(long, fmt.Sprint("free-", i))) })
	}
	for range 1 + others {
		<-running
	}
	wg.Go(func() { post(undo, "undo", wire.HeaderCancels, "held") })
	<-running
	wg.Wait()
}

// A record that the server cannot change fails only its own run.
func TestRenew_brokenRecord(t *testing.T) {
	t.Parallel()
	s, look := open(t, pgstore.Config{})
	broken, whole := claim(t, s), claim(t, s)
	exec(t, look, `create function refuse() returns trigger language plpgsql as $$ begin raise data_corrupted; end $$`)
	exec(t, look, fmt.Sprintf(`create trigger refuse before update on idempotency for each row
		when (old.key = '%s') execute function refuse()`, pgtype.UUID{Bytes: broken.ID, Valid: true}))
	got, err := s.Renew(t.Context(), []store.Owner{broken, whole}, 10*time.Hour)
	require.ErrorContains(t, err, "XX001")
	require.Equal(t, store.Renewal{Renewed: []store.Owner{whole}}, got)
}

// A statement that fails for every owner is not sent again for each owner.
func TestRenew_refusedAltogether(t *testing.T) {
	t.Parallel()
	c := new(counter)
	s, look := open(t, pgstore.Config{}, func(cfg *pgxpool.Config) { cfg.ConnConfig.Tracer = c })
	owners := make([]store.Owner, 40)
	for i := range owners {
		owners[i] = claim(t, s)
	}
	got, err := s.Renew(t.Context(), owners, time.Hour) // prepares the statement
	require.NoError(t, err)
	require.Len(t, got.Renewed, len(owners))
	exec(t, look, "alter table idempotency rename column lease_until to lease_end")
	require.EqualValues(t, 1, c.countBatches(func() { got, err = s.Renew(t.Context(), owners, time.Hour) }))
	require.ErrorContains(t, err, "42703")
	require.Zero(t, got)
}

// An owner is a key, a token and a fence together: a token or fence of one
// owner in a batch must not count for another owner.
func TestRenew_ownersOfOneBatch(t *testing.T) {
	t.Parallel()
	s, _ := open(t, pgstore.Config{})
	first := claim(t, s)
	released := claim(t, s)
	require.NoError(t, s.Settle(t.Context(), released, store.Settlement{State: server.StateReleased}))
	second, won, err := s.TakeOver(t.Context(), claimOf(released.ID), 1)
	require.NoError(t, err)
	require.True(t, won)
	strangers := []store.Owner{
		{ID: first.ID, Token: first.Token, Fence: 2},
		{ID: second.ID, Token: second.Token, Fence: 1},
		{ID: second.ID, Token: first.Token, Fence: 2},
	}
	got, err := s.Renew(t.Context(), strangers, 10*time.Hour)
	require.NoError(t, err)
	require.Equal(t, store.Renewal{Lost: strangers}, got)
	for _, id := range []store.ID{first.ID, second.ID} {
		r := read(t, s, id)
		require.Less(t, r.LeaseLeft(), time.Hour)
	}
}

// The lock timeout is for the store's own waits. The handler's next statements
// have the timeout that its database gives it.
func TestTx_Cancel_leavesTheLockTimeoutAsItWas(t *testing.T) {
	t.Parallel()
	s, _ := open(t, pgstore.Config{})
	tx, ctx := begin(t, s)
	_, err := pgstore.Tx(ctx).Exec(ctx, "set local lock_timeout = '7s'")
	require.NoError(t, err)
	_, _, err = tx.Cancel(ctx, store.CancelRequest{ID: random(), Token: random(), Keep: time.Hour})
	require.NoError(t, err)
	var got string
	require.NoError(t, pgstore.Tx(ctx).QueryRow(ctx, "show lock_timeout").Scan(&got))
	require.Equal(t, "7s", got)
}
