package main

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/examples/internal/blackboxtest"
)

// Insistent callers send one key after the other, each until it has its answer.
type insistent struct {
	url     string
	mu      sync.Mutex
	answers map[string]string // of each key that was sent; "" while it has none
}

func (i *insistent) request(key string) blackboxtest.Request {
	return blackboxtest.Request{URL: i.url, Tenant: "t", Key: key, Body: `{"fp":"a"}`}
}

// start starts n of them, until stop. They hear nothing but final answers, in-progress and
// 503.
func (i *insistent) start(t *testing.T, n int) (stop func()) {
	t.Helper()
	var all sync.WaitGroup
	done := make(chan struct{})
	for caller := range n {
		all.Go(func() {
			for n := 0; ; {
				select {
				case <-done:
					return
				case <-time.After(time.Millisecond): // as a caller's backoff
				}
				key := fmt.Sprintf("k-%d-%d", caller, n)
				a := blackboxtest.Post(t.Context(), i.request(key))
				switch a.Status {
				case http.StatusCreated:
					n++
				case http.StatusConflict, http.StatusServiceUnavailable:
					a.Body = ""
				default:
					t.Errorf("%s: %d %s", key, a.Status, a.Body)
					return
				}
				i.mu.Lock()
				i.answers[key] = a.Body
				i.mu.Unlock()
			}
		})
	}
	stop = sync.OnceFunc(func() { close(done); all.Wait() })
	t.Cleanup(stop)
	return stop
}

// answered returns how many keys have an answer.
func (i *insistent) answered() (n int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, body := range i.answers {
		if body != "" {
			n++
		}
	}
	return n
}

// asked stops the callers, and returns the last keys of each: those that have no answer, and as
// many that have one.
func (i *insistent) asked(t *testing.T, stop func()) map[string]string {
	t.Helper()
	stop()
	some := make(map[string]string)
	with := 0
	for key, body := range i.answers {
		if body != "" {
			with++
		}
		if body == "" || with <= 16 {
			some[key] = body
		}
	}
	require.Less(t, with, len(i.answers), "every key was answered: this shows nothing")
	return some
}

// requireOnce sends every key again, after the callers have stopped: what was acknowledged is
// replayed, and every key has one effect.
func (i *insistent) requireOnce(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	for key, acknowledged := range i.answers {
		a := blackboxtest.PostUntilFinal(t.Context(), i.request(key))
		require.Equal(t, http.StatusCreated, a.Status, "%s: %s", key, a.Body)
		if acknowledged != "" {
			require.Equal(t, acknowledged, a.Body, "what was acknowledged stays")
		}
	}
	var rows, keys int
	require.NoError(t, pool.QueryRow(t.Context(), "select count(*), count(distinct key) from effects").Scan(&rows, &keys))
	require.Equal(t, len(i.answers), keys)
	require.Equal(t, keys, rows, "one effect for each key")
}
