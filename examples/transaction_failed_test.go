package examples_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/memjournal"
	"github.com/fanonce/fanonce/sdk"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/pgtest"
)

var (
	seat   = contract.Post[int, int]("theatre", "seat", "/seats")
	unseat = contract.Post[contract.Undo[int, int], struct{}]("theatre", "unseat", "/seats/release")
	ticket = contract.Post[int, int]("theatre", "ticket", "/tickets")
	refund = contract.Post[contract.Undo[int, int], struct{}]("theatre", "refund", "/tickets/refund")
)

// A theatre sells tickets in one database. A ticket's number is checked at COMMIT.
type theatre struct {
	mu      sync.Mutex
	tickets int // calls
	fates   map[string]server.Fate
}

func startTheatre(t *testing.T) (*theatre, *sdk.Client) {
	t.Helper()
	pool := pgtest.NewPool(t, pgstore.Migrate)
	_, err := pool.Exec(t.Context(), "create table sold (what text, n int, unique (what, n) deferrable initially deferred); insert into sold values ('ticket', 7)")
	require.NoError(t, err)
	store, err := pgstore.Open(t.Context(), pool.Config(), pgstore.Config{AllowNonDurable: true})
	require.NoError(t, err)
	t.Cleanup(store.Close)
	guard, err := server.NewGuard(store, server.Unscoped, server.Config{Namespace: "theatre"})
	require.NoError(t, err)
	th := &theatre{fates: make(map[string]server.Fate)}
	mux := http.NewServeMux()
	sell := func(what string) func(context.Context, int) (int, error) {
		return func(ctx context.Context, n int) (int, error) {
			_, err := pgstore.Tx(ctx).Exec(ctx, "insert into sold values ($1, $2)", what, n)
			return n, err
		}
	}
	takeBack := func(what string) func(context.Context, contract.Undo[int, int]) (struct{}, error) {
		return func(ctx context.Context, in contract.Undo[int, int]) (struct{}, error) {
			fate, err := server.Barrier(ctx)
			if err == nil && fate != server.NeverRan {
				_, err = pgstore.Tx(ctx).Exec(ctx, "delete from sold where what = $1 and n = $2", what, in.Input)
			}
			th.mu.Lock()
			defer th.mu.Unlock()
			th.fates[what] = fate
			return struct{}{}, err
		}
	}
	require.NoError(t, server.Handle(mux, guard, seat, server.Transactional, sell("seat")))
	require.NoError(t, server.Handle(mux, guard, unseat, server.Transactional, takeBack("seat")))
	require.NoError(t, server.Handle(mux, guard, ticket, server.Transactional, sell("ticket")))
	require.NoError(t, server.Handle(mux, guard, refund, server.Transactional, takeBack("ticket")))
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/tickets" {
			th.mu.Lock()
			th.tickets++
			th.mu.Unlock()
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	client, err := sdk.New(sdk.Config{Services: map[string]sdk.Service{"theatre": {URL: srv.URL}}})
	require.NoError(t, err)
	return th, client
}

// A transaction that the database refused is open for its caller, who does not repeat it. A
// saga undoes it at once, and the undo is told that there is nothing to undo.
func TestTransactionFailed_inASaga(t *testing.T) {
	t.Parallel()
	th, client := startTheatre(t)
	visit := saga.MustDefine("visit", 1, func(b *saga.Builder[int, int]) {
		place := saga.Step(b, seat, b.Input()).Undo(unseat)
		paid := saga.Step(b, ticket, place.Output()).Undo(refund)
		saga.Return(b, paid.Output())
	})
	engine, err := saga.Open(t.Context(), memjournal.New(), saga.Config{Client: client, Definitions: []saga.AnyDefinition{visit}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, engine.Close(context.Background())) })
	_, err = visit.Run(t.Context(), engine, childkey.MustParse("visit-1"), 7) // ticket 7 is sold
	var failed *retry.Error
	require.ErrorAs(t, err, &failed)
	require.Equal(t, retry.Unknown, failed.Outcome)
	require.Equal(t, http.StatusInternalServerError, failed.Status)
	th.mu.Lock()
	defer th.mu.Unlock()
	require.Equal(t, 1, th.tickets, "not retried")
	require.Equal(t, map[string]server.Fate{"ticket": server.NeverRan, "seat": server.Ran}, th.fates)
}
