package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/examples/internal/blackboxtest"
	"github.com/fanonce/fanonce/server/pgtest"
)

// A load sends each key in several copies at the same time to pods by chance, and later once more. It remembers what each
// key was answered.
type load struct {
	t     *testing.T
	fleet *fleet

	mu      sync.Mutex
	answers []answered
	oldest  int // the first of answers whose key is still within the retention

	earlier sync.RWMutex // held for reading while an earlier key is sent

	keys    atomic.Int64 // answered
	crossed atomic.Int64 // keys whose copies were answered by both kinds of pods
}

type answered struct {
	request blackboxtest.Request
	status  int
	body    string
}

const copies = 4

// run sends keys until ctx ends.
func (l *load) run(ctx context.Context, caller int) {
	for i := 0; ctx.Err() == nil; i++ {
		l.sendNew(caller, i)
		l.sendEarlier()
	}
}

// sendNew sends a new key. Some of the works take longer than the lock of the old code.
func (l *load) sendNew(caller, i int) {
	req := blackboxtest.Request{Tenant: fmt.Sprint("tenant-", i%2), Key: fmt.Sprintf("k-%d-%d", caller, i)}
	if i%3 == 0 {
		req.Key = fmt.Sprintf("order %d/%d", caller, i) // a guard refuses the space
	}
	in := transfer{Cents: 1 + rand.IntN(limit*5/4), WorkMs: 5}
	if rand.IntN(40) == 0 {
		in.WorkMs = 1500
	}
	body, err := json.Marshal(in)
	assert.NoError(l.t, err)
	req.Body = string(body)

	got := make([]answered, copies)
	olds := make([]bool, copies)
	var group sync.WaitGroup
	for c := range got {
		group.Go(func() { got[c], olds[c] = l.send(req) })
	}
	group.Wait()
	for c := range got[1:] {
		assert.Equal(l.t, got[0], got[c+1], "two answers to one key; by old code: %v", olds)
	}
	if olds[0] != olds[1] || olds[1] != olds[2] || olds[2] != olds[3] {
		l.crossed.Add(1)
	}
	l.mu.Lock()
	l.answers = append(l.answers, got[0])
	l.mu.Unlock()
	l.keys.Add(1)
}

// sendEarlier sends a key that was answered, perhaps in an earlier phase.
func (l *load) sendEarlier() {
	l.earlier.RLock()
	defer l.earlier.RUnlock()
	l.mu.Lock()
	if l.oldest == len(l.answers) {
		l.mu.Unlock()
		return
	}
	want := l.answers[l.oldest+rand.IntN(len(l.answers)-l.oldest)]
	l.mu.Unlock()
	got, old := l.send(want.request)
	assert.Equal(l.t, want, got, "another answer later; by old code: %v", old)
}

// send sends a request until somebody answers it, and reports whether that was the old code. A caller gives up some
// attempts early.
func (l *load) send(req blackboxtest.Request) (answered, bool) {
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond) {
		patience := 20 * time.Second
		if rand.IntN(20) == 0 {
			patience = time.Duration(rand.IntN(10)) * time.Millisecond
		}
		ctx, cancel := context.WithTimeout(l.t.Context(), patience)
		pod := l.fleet.pick()
		sent := req
		sent.URL = pod.URL + "/transfers"
		got := blackboxtest.Post(ctx, sent)
		cancel()
		if got.Status != 0 && got.Status != http.StatusConflict && got.Status < http.StatusInternalServerError {
			return answered{req, got.Status, got.Body}, pod.isOld()
		}
	}
	assert.Fail(l.t, "no answer", req.Key)
	return answered{request: req}, false
}

// await lets the load go on for some keys, and kills pods meanwhile.
func (l *load) await(name string) {
	const keys, kills = 60, 3
	for range kills {
		for end := l.keys.Load() + keys/kills; l.keys.Load() < end; {
			time.Sleep(time.Millisecond)
		}
		l.fleet.kill()
	}
	l.t.Logf("%s: %d keys answered, %d of them by both kinds", name, l.keys.Load(), l.crossed.Load())
}

// A service moves from its own table to a guard under load, with a way back in the middle. Every key has its effect once,
// and every copy of it the same answer.
func TestMove(t *testing.T) {
	t.Parallel()
	database := pgtest.URL(t)
	l := &load{t: t, fleet: newFleet(t, database, "old", "old", "old", "old")}
	ctx, stop := context.WithCancel(t.Context())
	var callers sync.WaitGroup
	for caller := range 8 {
		callers.Go(func() { l.run(ctx, caller) })
	}
	for _, phases := range [][4]string{
		{"old", "old", "old", "old"},
		{"both", "both", "old", "old"},
		{"old", "old", "old", "old"}, // the deploy was rolled back
		{"both", "old", "both", "old"},
		{"both", "both", "both", "both"},
		{"both", "look", "both", "look"},
		{"look", "look", "look", "look"},
	} {
		l.deploy(phases)
	}
	l.earlier.Lock() // no such key is on its way
	l.mu.Lock()
	l.oldest = len(l.answers) // the retention of the keys that the old table alone knows is over
	l.mu.Unlock()
	l.earlier.Unlock()
	l.deploy([4]string{"look", "new", "look", "new"})
	l.deploy([4]string{"new", "new", "new", "new"})
	stop()
	callers.Wait()
	require.Greater(t, l.crossed.Load(), int64(40), "the kinds of pods did not meet")
	l.check(database)
}

// deploy brings every pod to its phase, one after the other, and lets the load go on.
func (l *load) deploy(phases [4]string) {
	for i, phase := range phases {
		if l.fleet.pods[i].phase != phase {
			l.fleet.deploy(i, phase)
		}
	}
	l.await(fmt.Sprint(phases))
}

// check compares the answers with the effects.
func (l *load) check(database string) {
	t := l.t
	pool, err := pgxpool.New(t.Context(), database)
	require.NoError(t, err)
	defer pool.Close()
	made := 0
	for _, a := range l.answers {
		var ids []string
		err := pool.QueryRow(t.Context(), "select array_agg(id::text) from transfers where tenant = $1 and key = $2", a.request.Tenant, a.request.Key).Scan(&ids)
		require.NoError(t, err)
		if a.status == http.StatusPaymentRequired {
			assert.Empty(t, ids, "a declined transfer was made: %s", a.request.Key)
			continue
		}
		made++
		assert.Equal(t, http.StatusCreated, a.status, a.body)
		if assert.Len(t, ids, 1, "%s", a.request.Key) {
			assert.Contains(t, a.body, ids[0])
		}
	}
	var all int
	require.NoError(t, pool.QueryRow(t.Context(), "select count(*) from transfers").Scan(&all))
	assert.Equal(t, made, all, "effects without an answer")
}
