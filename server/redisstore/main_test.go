package redisstore_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server/redisstore"
	"github.com/fanonce/fanonce/server/store"
)

func TestMain(m *testing.M) {
	if _, err := exec.LookPath("redis-server"); err != nil && os.Getenv("REDISTEST_SERVER") == "" {
		fmt.Println("skipped: no redis-server on PATH (Debian package redis-server): the store is not tested")
		return
	}
	logging.Disable() // go-redis writes a line for each connection that a dead server refuses
	code := m.Run()
	if left := leftGoroutines(); code == 0 && left != "" {
		fmt.Println("goroutines left:\n" + left)
		code = 1
	}
	os.Exit(code)
}

// leftGoroutines returns the stacks of goroutines of this package that do not end.
func leftGoroutines() (left string) {
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		left = ""
		for stack := range strings.SplitSeq(string(stacks), "\n\n") {
			if strings.Contains(stack, "redisstore.(*") || strings.Contains(stack, "redistest.(*") {
				left += stack + "\n\n"
			}
		}
		if left == "" {
			return ""
		}
	}
	return left
}

// open opens a store on the servers, under a prefix of its own.
func open(tb testing.TB, cfg redisstore.Config, addrs ...string) *redisstore.Store {
	tb.Helper()
	return openWithin(tb, 0, cfg, addrs...)
}

// openWithin tries for so long, because Open fails during an outage.
func openWithin(tb testing.TB, patience time.Duration, cfg redisstore.Config, addrs ...string) *redisstore.Store {
	tb.Helper()
	if cfg.Prefix == "" {
		cfg.Prefix = fmt.Sprintf("t%x", rand.Uint64())
	}
	end := time.Now().Add(patience)
	for {
		s, err := redisstore.Open(tb.Context(), &redis.UniversalOptions{Addrs: addrs}, cfg)
		if err == nil {
			tb.Cleanup(func() {
				if err := s.Close(); err != nil {
					tb.Errorf("Close: %v", err)
				}
			})
			return s
		}
		if time.Now().After(end) {
			tb.Fatal(err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func newID() (id store.ID) {
	for i := range id {
		id[i] = byte(rand.Uint32())
	}
	return id
}

func request(effect store.Effect) store.ClaimRequest {
	return store.ClaimRequest{ID: newID(), Token: store.Token(newID()), Effect: effect, Lease: time.Minute, Keep: time.Hour}
}

// claim claims the key of req.
func claim(tb testing.TB, s store.Store, req store.ClaimRequest) store.Owner {
	tb.Helper()
	r, won, err := s.Claim(tb.Context(), req)
	require.NoError(tb, err)
	require.True(tb, won)
	return store.Owner{ID: r.ID, Token: r.Token, Fence: r.Fence}
}

var completion = store.Settlement{State: store.StateCompleted, Answer: store.Answer{Status: 200, Envelope: []byte("ok")}, ReplayFor: 2 * time.Hour}

// eventually waits until done returns true.
func eventually(tb testing.TB, what string, done func() bool) {
	tb.Helper()
	for end := time.Now().Add(20 * time.Second); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			tb.Fatalf("20s passed before %s", what)
		}
	}
}

func keyOf(ctx context.Context, tb testing.TB, client redis.UniversalClient, id store.ID) string {
	tb.Helper()
	keys, err := client.Keys(ctx, "*k:"+strings.ReplaceAll(id.String(), "-", "")).Result()
	require.NoError(tb, err)
	require.Len(tb, keys, 1)
	return keys[0]
}
