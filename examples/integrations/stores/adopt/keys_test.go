package adopt

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/pgtest"
	"github.com/fanonce/fanonce/server/redisstore/redistest"
)

// A service makes transfers in Postgres.
type service struct {
	pool  *pgxpool.Pool
	store *pgstore.Store
	keys  Keys
}

// transfer makes a row, and an answer that no other run makes. Some runs fail, and some transfers are declined.
func transfer(ctx context.Context, tx pgx.Tx, r *http.Request) (status int, body []byte) {
	id := uuid.NewString()
	_, err := tx.Exec(ctx, "insert into transfers (id, key) values ($1, $2)", id, r.Header.Get("Idempotency-Key"))
	switch {
	case err != nil || rand.IntN(20) == 0:
		return http.StatusInternalServerError, nil
	case strings.HasSuffix(r.Header.Get("Idempotency-Key"), "7"):
		return http.StatusPaymentRequired, []byte(id)
	case strings.HasSuffix(r.Header.Get("Idempotency-Key"), "9"):
		return http.StatusForbidden, nil // not stored
	}
	return http.StatusCreated, []byte(id)
}

// old is the code that the team wrote by hand. Its processes do not die here: one that dies between its COMMIT and the
// answer in Redis lets the effect happen twice, which is why the team moves.
func (s *service) old(w http.ResponseWriter, r *http.Request) {
	ctx, name := context.WithoutCancel(r.Context()), s.keys.Name(r)
	body, _ := readBody(r)
	started, _ := json.Marshal(Entry{Hash: Hash(body)})
	claimed, err := s.keys.Client.SetNX(ctx, name, started, time.Minute).Result()
	if err != nil {
		Answer(w, http.StatusServiceUnavailable, nil)
		return
	}
	if !claimed {
		entry, _, err := s.keys.get(r)
		if err != nil || entry.Code == 0 {
			Answer(w, http.StatusConflict, nil)
			return
		}
		Answer(w, entry.Code, entry.Body)
		return
	}
	var status int
	var answer []byte
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if status, answer = transfer(ctx, tx, r); status >= http.StatusBadRequest {
			return pgx.ErrTxCommitRollback
		}
		return nil
	})
	if status >= http.StatusInternalServerError || err != nil && status < http.StatusBadRequest {
		s.keys.Client.Del(ctx, name)
		Answer(w, http.StatusInternalServerError, nil)
		return
	}
	done, _ := json.Marshal(Entry{Hash: Hash(body), Code: status, Body: answer})
	s.keys.Client.Set(ctx, name, done, time.Hour)
	Answer(w, status, answer)
}

// start starts a process of a phase.
func (s *service) start(t *testing.T, phase string) *httptest.Server {
	if phase == "old" {
		return httptest.NewServer(http.HandlerFunc(s.old))
	}
	guard, err := server.NewGuard(s.store, server.Unscoped, server.Config{Lease: time.Second})
	require.NoError(t, err)
	t.Cleanup(func() { _ = guard.Shutdown(context.WithoutCancel(t.Context())) })
	next := http.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status, body := transfer(r.Context(), pgstore.Tx(r.Context()), r)
		Answer(w, status, body)
	}))
	if phase == "both" {
		next = s.keys.Inside(next)
	}
	handler, err := guard.Handler(server.Transactional, next)
	require.NoError(t, err)
	if phase != "new" {
		handler = s.keys.Around(handler, phase == "both")
	}
	return httptest.NewServer(handler)
}

func newService(t *testing.T) *service {
	if _, err := exec.LookPath("redis-server"); err != nil && os.Getenv("REDISTEST_SERVER") == "" {
		t.Skip("no redis-server on PATH (Debian package redis-server)")
	}
	client := redis.NewClient(&redis.Options{Addr: redistest.Start(t).Addr()})
	t.Cleanup(func() { _ = client.Close() })
	store, err := pgstore.OpenURL(t.Context(), pgtest.URL(t), pgstore.Config{Migrate: true, AllowNonDurable: true})
	require.NoError(t, err)
	t.Cleanup(store.Close)
	_, err = store.Pool().Exec(t.Context(), "create table transfers (id text, key text)")
	require.NoError(t, err)
	name := func(r *http.Request) string { return "idem:" + r.Header.Get("Idempotency-Key") }
	return &service{store.Pool(), store, Keys{Client: client, Name: name, Retention: time.Hour}}
}

// A balancer sends to processes by chance.
type balancer struct {
	mu   sync.Mutex
	webs []*httptest.Server
}

// deploy replaces the processes one by one. Each ends its requests.
func (b *balancer) deploy(t *testing.T, s *service, phases string) {
	for i, phase := range strings.Fields(phases) {
		next := s.start(t, phase)
		b.mu.Lock()
		last := b.webs[i]
		b.webs[i] = next
		b.mu.Unlock()
		if last != nil {
			last.Close()
		}
	}
}

type answer struct {
	status int
	body   string
}

// send sends a key until it has an answer.
func (b *balancer) send(t *testing.T, key string) answer {
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		b.mu.Lock()
		url := b.webs[rand.IntN(len(b.webs))].URL
		b.mu.Unlock()
		req, _ := http.NewRequest(http.MethodPost, url, strings.NewReader("{}"))
		req.Header.Set("Idempotency-Key", key)
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			continue
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err == nil && resp.StatusCode != http.StatusConflict && resp.StatusCode < 500 {
			return answer{resp.StatusCode, string(body)}
		}
	}
	assert.Fail(t, "no answer", key)
	return answer{}
}

// Old and new processes serve the same keys, new ones die, and the deploy goes back once. Each key has its effect once and
// one answer.
func TestMove(t *testing.T) {
	s := newService(t)
	crash = func(string) {
		if rand.IntN(20) == 0 {
			panic(http.ErrAbortHandler)
		}
	}
	t.Cleanup(func() { crash = func(string) {} })
	b := &balancer{webs: make([]*httptest.Server, 3)}
	b.deploy(t, s, "old old old")
	known := map[string]answer{}
	for round, phases := range []string{"old old old", "both old both", "old both old", "both old both", "both both both", "both look look", "look look look"} {
		done := make(chan struct{})
		go func() { defer close(done); b.deploy(t, s, phases) }()
		s.load(t, b, known, fmt.Sprint("k-", round, "-"))
		<-done
	}
	b.deploy(t, s, "new new new")
	s.check(t, known)
}

// load sends 100 new keys, each in four copies, and each earlier key once more.
func (s *service) load(t *testing.T, b *balancer, known map[string]answer, prefix string) {
	var mu sync.Mutex
	var group sync.WaitGroup
	places := make(chan struct{}, 8)
	for key, want := range known {
		places <- struct{}{}
		group.Go(func() { assert.Equal(t, want, b.send(t, key), "later: %s", key); <-places })
	}
	group.Wait()
	for i := range 100 {
		places <- struct{}{}
		group.Go(func() {
			key := fmt.Sprint(prefix, i)
			var copies sync.WaitGroup
			var got [4]answer
			for c := range got {
				copies.Go(func() { got[c] = b.send(t, key) })
			}
			copies.Wait()
			for _, a := range got {
				assert.Equal(t, got[0], a, "copies: %s", key)
			}
			mu.Lock()
			known[key] = got[0]
			mu.Unlock()
			<-places
		})
	}
	group.Wait()
}

func (s *service) check(t *testing.T, known map[string]answer) {
	for key, a := range known {
		var ids []string
		require.NoError(t, s.pool.QueryRow(t.Context(), "select coalesce(array_agg(id), '{}') from transfers where key = $1", key).Scan(&ids))
		want := []string{}
		if a.status == http.StatusCreated {
			want = append(want, a.body)
		}
		assert.Equal(t, want, ids, key)
	}
}

// What one kind of process answered, the other kind answers too: a deploy can be rolled back.
func TestAnswers(t *testing.T) {
	s := newService(t)
	webs := map[string]*balancer{}
	for _, phase := range []string{"old", "both", "look", "new"} {
		webs[phase] = &balancer{webs: []*httptest.Server{s.start(t, phase)}}
	}
	for _, ways := range [][2]string{{"old", "both"}, {"old", "look"}, {"both", "old"}, {"both", "new"}, {"look", "new"}} {
		for _, key := range []string{"1", "7", "9"} {
			key = ways[0] + ways[1] + key
			first := webs[ways[0]].send(t, key)
			require.NotZero(t, first.status)
			require.Equal(t, first, webs[ways[1]].send(t, key), key)
		}
	}
}

// A run that is over deletes its own claim, and not that of the run which took the key over.
func TestSwap(t *testing.T) {
	s := newService(t)
	ctx := t.Context()
	require.NoError(t, s.keys.Client.Set(ctx, "k", "later", 0).Err())
	for _, seen := range []string{"earlier", "later"} {
		swapped, err := swap.Run(ctx, s.keys.Client, []string{"k"}, seen, "", 0).Bool()
		require.NoError(t, err)
		require.Equal(t, seen == "later", swapped)
	}
	require.Zero(t, s.keys.Client.Exists(ctx, "k").Val())
}
