package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/examples/internal/blackboxtest"
	"github.com/fanonce/fanonce/server/pgtest"
)

var (
	stormKeys    = flag.Int("ledger.keys", 60, "keys of TestStormOfKills")
	stormCallers = flag.Int("ledger.callers", 64, "concurrent callers of each key in TestStormOfKills")
)

// The effect is durable and the caller was not told: the next call gets the
// answer that the first one would have got.
func TestKillBetweenCommitAndAnswer(t *testing.T) {
	t.Parallel()
	database := pgtest.URL(t)
	dying := ledger(t, database, killVariable+"=1")
	peer := ledger(t, database)
	req := blackboxtest.Request{URL: dying.URL + "/v1/effect", Tenant: "t", Key: "k", Body: `{"fp":"a"}`}

	require.Zero(t, blackboxtest.Post(t.Context(), req).Status, "no answer: the process died")
	require.ErrorContains(t, dying.Wait(), "killed")
	pool := connect(t, database)
	require.Equal(t, 1, effects(t, pool, "t", "k", kindDo), "committed before it died")

	req.URL = peer.URL + "/v1/effect"
	first, second := blackboxtest.Post(t.Context(), req), blackboxtest.Post(t.Context(), req)
	require.Equal(t, http.StatusCreated, first.Status, "at once: a completed key has no lease to wait for")
	require.True(t, first.Replayed())
	require.Equal(t, first.Body, second.Body)
	var id string
	require.NoError(t, pool.QueryRow(t.Context(), "select effect_id from effects").Scan(&id))
	require.Contains(t, first.Body, id)
	require.Equal(t, 1, effects(t, pool, "t", "k", kindDo))
}

// Opaque work that died may have had its effect or not. Nobody guesses.
func TestKillOfOpaqueWork(t *testing.T) {
	t.Parallel()
	database := pgtest.URL(t)
	slow := ledger(t, database, "WORK=1h", "LEASE=300ms")
	peer := ledger(t, database, "LEASE=300ms")
	req := blackboxtest.Request{URL: slow.URL + "/v1/effect-opaque", Tenant: "t", Key: "k", Body: `{"fp":"a"}`}
	ended := make(chan struct{})
	go func() { defer close(ended); blackboxtest.Post(t.Context(), req) }()
	pool := connect(t, database)
	require.Eventually(t, func() bool {
		var n int
		return pool.QueryRow(t.Context(), "select count(*) from idempotency").Scan(&n) == nil && n == 1
	}, 2*time.Minute, 10*time.Millisecond, "never claimed")
	slow.Kill()
	<-ended

	req.URL = peer.URL + "/v1/effect-opaque"
	var last blackboxtest.Answer
	require.Eventually(t, func() bool {
		last = blackboxtest.Post(t.Context(), req)
		return last.Header.Get("Idempotency-Should-Retry") == "false"
	}, 2*time.Minute, 20*time.Millisecond, "the lease never ended")
	require.Equal(t, http.StatusLocked, last.Status)
	require.Contains(t, last.Body, "outcome-unknown")
	require.Zero(t, effects(t, pool, "t", "k", kindDo))
}

// Four replicas, many callers of each key, and owners that are killed in the
// middle of it: every caller ends with the one answer, and nobody sees a 500.
func TestStormOfKills(t *testing.T) {
	t.Parallel()
	database := pgtest.URL(t)
	replicas := make([]*blackboxtest.Process, 4)
	for i := range replicas {
		replicas[i] = ledger(t, database, "LEASE=1s", "WORK=10ms")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()

	stop, killed := make(chan struct{}), make(chan int)
	pool := connect(t, database)
	go func() { killed <- killAndRestart(ctx, pool, replicas, stop) }()
	for n := range *stormKeys {
		stormOneKey(ctx, t, replicas, fmt.Sprintf("key-%d", n))
	}
	close(stop)
	require.Positive(t, <-killed, "nothing was killed: this shows nothing")

	var keys, rows int
	require.NoError(t, pool.QueryRow(ctx, "select count(distinct key), count(*) from effects").Scan(&keys, &rows))
	require.Equal(t, *stormKeys, keys, "keys with an effect")
	require.Equal(t, *stormKeys, rows, "effects")
}

func stormOneKey(ctx context.Context, t *testing.T, replicas []*blackboxtest.Process, key string) {
	t.Helper()
	answers := make([]blackboxtest.Answer, *stormCallers)
	var wg sync.WaitGroup
	for i := range answers {
		wg.Go(func() {
			answers[i] = blackboxtest.PostUntilFinal(ctx, blackboxtest.Request{
				URL: replicas[i%len(replicas)].URL + "/v1/effect", Tenant: "t", Key: key, Body: `{"fp":"a"}`,
			})
		})
	}
	wg.Wait()
	for _, a := range answers {
		require.Equal(t, http.StatusCreated, a.Status, a.Body)
		require.Equal(t, answers[0].Body, a.Body)
	}
}

// killAndRestart kills one or two random replicas again and again until stop is closed,
// and returns how many it killed. All of them run when it returns. It does so while
// somebody runs, and two others serve: where they are slow to start, none would.
func killAndRestart(ctx context.Context, pool *pgxpool.Pool, replicas []*blackboxtest.Process, stop <-chan struct{}) (kills int) {
	const running = "select exists (select from idempotency where state = 1 and lease_until > clock_timestamp())"
	for {
		select {
		case <-stop:
			return kills
		case <-time.After(time.Duration(rand.IntN(100)) * time.Millisecond): // to any moment of a run
		}
		var runs bool
		if err := pool.QueryRow(ctx, running).Scan(&runs); err != nil || !runs {
			continue
		}
		var serve []*blackboxtest.Process
		for _, p := range replicas {
			if blackboxtest.Status(ctx, p.URL+"/healthz") == http.StatusOK {
				serve = append(serve, p)
			}
		}
		rand.Shuffle(len(serve), func(i, j int) { serve[i], serve[j] = serve[j], serve[i] })
		for _, p := range serve[:max(len(serve)-2, 0)] {
			p.Kill()
			p.Restart()
			kills++
		}
	}
}
