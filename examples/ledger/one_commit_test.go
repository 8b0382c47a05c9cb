package main

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/examples/internal/blackboxtest"
	"github.com/fanonce/fanonce/server/pgtest"
)

const oneCommitPath = "/v1/effect-one-commit"

// stallEffects lets effects wait at the server, in the middle of their transaction, for as long as a transaction holds
// the lock that stall takes.
func stallEffects(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	_, err := pool.Exec(t.Context(), `create function stall() returns trigger language plpgsql as $$
		begin perform pg_advisory_xact_lock(1); return new; end $$;
		create trigger stall before insert on effects for each row execute function stall()`)
	require.NoError(t, err)
}

func stall(t *testing.T, pool *pgxpool.Pool) (free func()) {
	t.Helper()
	held, err := pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = held.Exec(t.Context(), "select pg_advisory_xact_lock(1)")
	require.NoError(t, err)
	return func() { _ = held.Rollback(context.WithoutCancel(t.Context())) }
}

// awaitStalled waits until an effect stands still.
func awaitStalled(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	await(t, pool, "select exists (select from pg_stat_activity where datname = current_database() and wait_event = 'advisory')", "never at the effect")
}

// The process is killed while its one round trip is at the server, and stands still there. The server ends the
// transaction by itself, one way or the other. A peer has the one answer.
func TestOneCommit_killedInTheRoundTrip(t *testing.T) {
	t.Parallel()
	database := pgtest.URL(t)
	dying, peer := ledger(t, database, "WORK=0s"), ledger(t, database, "WORK=0s")
	pool := connect(t, database)
	stallEffects(t, pool)
	for n := range 3 {
		req := blackboxtest.Request{URL: dying.URL + oneCommitPath, Tenant: "t", Key: fmt.Sprint("k-", n), Body: `{"fp":"a"}`}
		free := stall(t, pool)
		ended := make(chan blackboxtest.Answer, 1)
		go func() { ended <- blackboxtest.Post(t.Context(), req) }()
		awaitStalled(t, pool)
		dying.Kill()
		require.Zero(t, (<-ended).Status, "no answer: the process died")

		req.URL = peer.URL + oneCommitPath
		during := blackboxtest.Post(t.Context(), blackboxtest.Request{
			URL: req.URL, Tenant: "t", Key: req.Key, Body: req.Body, Header: map[string]string{"Prefer": "wait=0"},
		})
		require.Equal(t, http.StatusConflict, during.Status, during.Body)
		free()
		last := blackboxtest.PostUntilFinal(t.Context(), req)
		require.Equal(t, http.StatusCreated, last.Status, last.Body)
		require.Equal(t, 1, effects(t, pool, "t", req.Key, kindDo))
		dying.Restart()
		dying.AwaitReady()
	}
}

// Many callers send the same keys to three processes at once. Each key has one effect and one answer.
func TestOneCommit_sameKeysEverywhere(t *testing.T) {
	t.Parallel()
	const keys, callers = 20, 12
	database := pgtest.URL(t)
	replicas := []*blackboxtest.Process{ledger(t, database, "WORK=1ms"), ledger(t, database, "WORK=1ms"), ledger(t, database, "WORK=1ms")}
	pool := connect(t, database)
	for n := range keys {
		key := fmt.Sprint("key-", n)
		answers := make([]blackboxtest.Answer, callers)
		var wg sync.WaitGroup
		for i := range answers {
			wg.Go(func() {
				answers[i] = blackboxtest.PostUntilFinal(t.Context(), blackboxtest.Request{
					URL: replicas[i%len(replicas)].URL + oneCommitPath, Tenant: "t", Key: key, Body: `{"fp":"a"}`,
				})
			})
		}
		wg.Wait()
		first := 0
		for _, a := range answers {
			require.Equal(t, http.StatusCreated, a.Status, a.Body)
			require.Equal(t, answers[0].Body, a.Body)
			if !a.Replayed() {
				first++
			}
		}
		require.LessOrEqual(t, first, 1, "all but one were given an answer that was there")
		require.Equal(t, 1, effects(t, pool, "t", key, kindDo))
	}
}

// Another transaction holds the key. A process waits for it on one connection at the most, however many callers it has
// for the key. The callers hear of it when their time is up.
func TestOneCommit_oneWaiter(t *testing.T) {
	t.Parallel()
	const callers = 50
	database := pgtest.URL(t)
	dying, peer := ledger(t, database, "WORK=0s"), ledger(t, withPool(database, 10), "WORK=0s")
	pool := connect(t, database)
	stallEffects(t, pool)
	free := stall(t, pool)
	defer free()
	req := blackboxtest.Request{URL: dying.URL + oneCommitPath, Tenant: "t", Key: "k", Body: `{"fp":"a"}`}
	first := make(chan blackboxtest.Answer, 1)
	go func() { first <- blackboxtest.Post(t.Context(), req) }()
	awaitStalled(t, pool)

	most := make(chan int, 1)
	stop := make(chan struct{})
	go func() {
		seen := 0
		for {
			var n int
			if err := pool.QueryRow(t.Context(), "select count(*) from pg_stat_activity where datname = current_database() and wait_event = 'transactionid'").Scan(&n); err == nil {
				seen = max(seen, n)
			}
			select {
			case <-stop:
				most <- seen
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	var wg sync.WaitGroup
	answers := make([]blackboxtest.Answer, callers)
	for i := range answers {
		wg.Go(func() {
			answers[i] = blackboxtest.Post(t.Context(), blackboxtest.Request{
				URL: peer.URL + oneCommitPath, Tenant: "t", Key: "k", Body: `{"fp":"a"}`, Header: map[string]string{"Prefer": "wait=1"},
			})
		})
	}
	wg.Wait()
	close(stop)
	require.Equal(t, 1, <-most, "sessions that wait for the key")
	for _, a := range answers {
		require.Equal(t, http.StatusConflict, a.Status, a.Body)
	}
	free()
	require.Equal(t, http.StatusCreated, (<-first).Status)
	require.Equal(t, 1, effects(t, pool, "t", "k", kindDo))
}
