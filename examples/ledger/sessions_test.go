package main

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/examples/internal/blackboxtest"
	"github.com/fanonce/fanonce/server/pgtest"
)

// The soak test is the same for minutes:
//
//	go test ./examples/ledger -run TestSessionsKilled -v -timeout 10m -ledger.soak 3m
var soak = flag.Duration("ledger.soak", 5*time.Second, "how long TestSessionsKilled kills sessions")

const (
	soakCallers = 12
	killPause   = 40 * time.Millisecond // on average: some runs lose their session twice
)

// A soaked counts what callers saw while sessions were killed.
type soaked struct {
	mu       sync.Mutex
	statuses map[int]int    // of every answer; 0: none
	last     map[string]int // by key: the answer that will not change
	effected []string       // keys whose answer says that the effect is in this ledger
	bad      []blackboxtest.Answer
}

func (s *soaked) saw(a blackboxtest.Answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.statuses[a.Status]++
	if a.Status == http.StatusInternalServerError {
		s.bad = append(s.bad, a)
	}
}

// until sends the request until its answer will not change.
func (s *soaked) until(ctx context.Context, client *http.Client, r blackboxtest.Request) int {
	for {
		a := blackboxtest.PostWith(ctx, client, r)
		if ctx.Err() != nil {
			return 0
		}
		s.saw(a)
		switch a.Status {
		case 0, http.StatusConflict, http.StatusServiceUnavailable:
			time.Sleep(10 * time.Millisecond) // between attempts, as a caller's backoff
		default:
			s.mu.Lock()
			defer s.mu.Unlock()
			s.last[r.Key] = a.Status
			if a.Status == http.StatusCreated && !strings.HasSuffix(r.URL, "/v1/effect-keyed") {
				s.effected = append(s.effected, r.Key)
			}
			return a.Status
		}
	}
}

// Sessions of the database end at any moment: by an operator, a failover, a pooler. No
// caller sees a 500, each key that completes has one effect, and an undo leaves none.
func TestSessionsKilled(t *testing.T) {
	t.Parallel()
	soakCalls(t, "WORK=5ms", "LEASE=3s", func([]*blackboxtest.Process, <-chan struct{}) {})
}

// The same on a busy machine, where processes stop for longer than their leases. A handler that lost its lease fails in
// words of its own, and its caller hears that the lease was lost, or that the outcome is unknown.
func TestSessionsKilled_leasesLost(t *testing.T) {
	t.Parallel()
	soakCalls(t, "WORK=100ms", "LEASE=400ms", func(replicas []*blackboxtest.Process, stop <-chan struct{}) {
		for range 3 {
			loop := exec.Command("sh", "-c", "while :; do :; done")
			require.NoError(t, loop.Start())
			defer func() {
				_ = loop.Process.Kill()
				_ = loop.Wait() // it was killed
			}()
		}
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			case <-time.After(time.Duration(rand.IntN(400)) * time.Millisecond):
			}
			p := replicas[i%len(replicas)]
			p.Signal(syscall.SIGSTOP)
			time.Sleep(time.Duration(400+rand.IntN(400)) * time.Millisecond)
			p.Signal(syscall.SIGCONT)
		}
	})
}

// soakCalls makes calls of replicas with this environment, while sessions are killed and disturb runs, until its channel
// is closed.
func soakCalls(t *testing.T, work, lease string, disturb func([]*blackboxtest.Process, <-chan struct{})) {
	t.Helper()
	database := pgtest.URL(t)
	sink := ledger(t, database, lease)
	replicas := []*blackboxtest.Process{
		ledger(t, database, work, lease, "SINK_URL="+sink.URL), ledger(t, database, work, lease, "SINK_URL="+sink.URL),
	}
	pool := connect(t, database)
	ctx, cancel := context.WithTimeout(t.Context(), *soak+5*time.Minute)
	defer cancel()
	seen := &soaked{statuses: make(map[int]int), last: make(map[string]int)}
	stop, kills := make(chan struct{}), make(chan int, 1)
	var disturbed sync.WaitGroup
	disturbed.Go(func() { disturb(replicas, stop) })
	go func() { kills <- killSessions(ctx, pool, stop) }()
	end := time.Now().Add(*soak)
	var callers sync.WaitGroup
	for i := range soakCallers {
		callers.Go(func() { callUntil(ctx, seen, replicas, i, end) })
	}
	callers.Wait()
	close(stop)
	disturbed.Wait()

	killed := <-kills
	t.Logf("%v: %d sessions killed; answers by status: %v; keys: %d", *soak, killed, seen.statuses, len(seen.last))
	require.NoError(t, ctx.Err(), "some calls had no answer in the end")
	require.Greater(t, killed, 10, "too few were killed: this shows nothing")
	require.Empty(t, seen.bad, "answers of 500")
	seen.requireEffects(t, pool)
}

// callUntil makes calls of new keys until end, one after the other.
func callUntil(ctx context.Context, seen *soaked, replicas []*blackboxtest.Process, caller int, end time.Time) {
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	routes := []string{"/v1/effect", "/v1/effect-keyed", "/v1/effect-opaque", "/v1/effect"}
	for n := 0; time.Now().Before(end) && ctx.Err() == nil; n++ {
		req := blackboxtest.Request{
			URL: replicas[(caller+n)%len(replicas)].URL + routes[n%len(routes)], Tenant: "t", Key: fmt.Sprintf("key-%d-%d", caller, n), Body: `{"fp":"a"}`,
		}
		status := seen.until(ctx, client, req)
		if n%len(routes) != len(routes)-1 || status != http.StatusCreated {
			continue
		}
		undo := req
		undo.URL = replicas[n%len(replicas)].URL + "/v1/undo"
		undo.Key = "undo-" + req.Key
		undo.Header = map[string]string{"Idempotency-Cancels": req.Key}
		seen.until(ctx, client, undo)
	}
}

// killSessions ends a random session of the database again and again.
func killSessions(ctx context.Context, pool *pgxpool.Pool, stop <-chan struct{}) (kills int) {
	const kill = `select pg_terminate_backend(pid) from (select pid from pg_stat_activity
		where datname = current_database() and backend_type = 'client backend' and pid <> pg_backend_pid()
		order by state = 'idle', random() limit 1) s`
	for {
		select {
		case <-stop:
			return kills
		case <-time.After(time.Duration(rand.Int64N(int64(2 * killPause)))): // to any moment of a run
		}
		var done bool
		if pool.QueryRow(ctx, kill).Scan(&done) == nil && done {
			kills++
		}
	}
}

// requireEffects compares the rows with the last answer of each key.
func (s *soaked) requireEffects(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	var several, unpaired int
	require.NoError(t, pool.QueryRow(t.Context(), `select count(*) from
		(select from effects group by tenant, key, kind, service having count(*) > 1) s`).Scan(&several))
	require.Zero(t, several, "keys with more than one effect")
	require.NoError(t, pool.QueryRow(t.Context(), `select count(*) from effects u where kind = 'undo'
		and not exists (select from effects d where d.tenant = u.tenant and d.key = u.key and d.kind = 'do')`).Scan(&unpaired))
	require.Zero(t, unpaired, "undone without an effect")
	var there int
	require.NoError(t, pool.QueryRow(t.Context(), `select count(*) from effects where kind = 'do' and key = any($1)`, s.effected).Scan(&there))
	require.Equal(t, len(s.effected), there, "effects of calls that were answered with success")
	allowed := []int{http.StatusCreated, http.StatusOK, http.StatusLocked} // 423: an Opaque run that failed
	for _, status := range slices.Sorted(maps.Values(s.last)) {
		require.Contains(t, allowed, status)
	}
}
