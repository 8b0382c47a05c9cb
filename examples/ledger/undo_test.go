package main

import (
	"encoding/json"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/examples/internal/blackboxtest"
	"github.com/fanonce/fanonce/server/pgtest"
)

func undoOf(p *blackboxtest.Process, key, forward string) blackboxtest.Request {
	return blackboxtest.Request{
		URL: p.URL + "/v1/undo", Tenant: "t", Key: key, Body: `{"fp":"a"}`,
		Header: map[string]string{"Idempotency-Cancels": forward},
	}
}

func undone(t *testing.T, a blackboxtest.Answer) bool {
	t.Helper()
	require.Equal(t, http.StatusOK, a.Status, a.Body)
	var out undoAnswer
	require.NoError(t, json.Unmarshal([]byte(a.Body), &out))
	return out.Undone
}

func TestUndo(t *testing.T) {
	t.Parallel()
	database := pgtest.URL(t)
	p := ledger(t, database)
	pool := connect(t, database)
	forward := func(key string) blackboxtest.Request {
		return blackboxtest.Request{URL: p.URL + "/v1/effect", Tenant: "t", Key: key, Body: `{"fp":"a"}`}
	}

	t.Run("of an effect, once", func(t *testing.T) {
		require.Equal(t, http.StatusCreated, blackboxtest.Post(t.Context(), forward("f1")).Status)
		require.True(t, undone(t, blackboxtest.Post(t.Context(), undoOf(p, "u1", "f1"))))
		replay := blackboxtest.Post(t.Context(), undoOf(p, "u1", "f1"))
		require.True(t, replay.Replayed())
		require.False(t, undone(t, blackboxtest.Post(t.Context(), undoOf(p, "u1-other", "f1"))), "nothing is left to undo")
		require.Equal(t, 1, effects(t, pool, "t", "f1", kindUndo))
	})
	t.Run("of what never arrived, and then does", func(t *testing.T) {
		require.False(t, undone(t, blackboxtest.Post(t.Context(), undoOf(p, "u2", "f2"))))
		late := blackboxtest.Post(t.Context(), forward("f2"))
		require.Equal(t, http.StatusGone, late.Status)
		require.Contains(t, late.Body, "key-cancelled")
		require.Zero(t, effects(t, pool, "t", "f2", kindDo)+effects(t, pool, "t", "f2", kindUndo))
	})
	t.Run("of what was rejected", func(t *testing.T) {
		req := forward("f3")
		req.Body = `{"fp":"a","reject":true}`
		require.Equal(t, http.StatusPaymentRequired, blackboxtest.Post(t.Context(), req).Status)
		require.False(t, undone(t, blackboxtest.Post(t.Context(), undoOf(p, "u3", "f3"))))
	})
	t.Run("two at once", func(t *testing.T) {
		require.Equal(t, http.StatusCreated, blackboxtest.Post(t.Context(), forward("f4")).Status)
		var wg sync.WaitGroup
		for _, key := range []string{"u4a", "u4b", "u4c", "u4d"} {
			wg.Go(func() { blackboxtest.PostUntilFinal(t.Context(), undoOf(p, key, "f4")) })
		}
		wg.Wait()
		require.Equal(t, 1, effects(t, pool, "t", "f4", kindUndo))
	})
	t.Run("without a forward key", func(t *testing.T) {
		req := undoOf(p, "u5", "")
		req.Header = nil
		require.Equal(t, http.StatusBadRequest, blackboxtest.Post(t.Context(), req).Status)
	})
}

func TestUndoWhileTheForwardCallRuns(t *testing.T) {
	t.Parallel()
	database := pgtest.URL(t)
	slow := ledger(t, database, "WORK=1h")
	p := ledger(t, database)
	pool := connect(t, database)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		blackboxtest.Post(t.Context(), blackboxtest.Request{URL: slow.URL + "/v1/effect", Tenant: "t", Key: "f", Body: `{"fp":"a"}`})
	}()
	require.Eventually(t, func() bool {
		var n int
		return pool.QueryRow(t.Context(), "select count(*) from idempotency").Scan(&n) == nil && n == 1
	}, 2*time.Minute, 10*time.Millisecond, "never claimed")

	busy := blackboxtest.Post(t.Context(), undoOf(p, "u", "f"))
	require.Equal(t, http.StatusConflict, busy.Status)
	require.Contains(t, busy.Body, "in-progress")
	require.NotEmpty(t, busy.Header.Get("Retry-After"))

	slow.Kill()
	<-ended
	_, err := pool.Exec(t.Context(), "update idempotency set lease_until = clock_timestamp() where state = 1")
	require.NoError(t, err)
	require.False(t, undone(t, blackboxtest.PostUntilFinal(t.Context(), undoOf(p, "u", "f"))), "the dead run left nothing")
	require.Zero(t, effects(t, pool, "t", "f", kindDo)+effects(t, pool, "t", "f", kindUndo))
}

// The undo of a saga's step has the forward call's input, which says what it was for.
func TestUndo_withTheForwardInput(t *testing.T) {
	t.Parallel()
	database := pgtest.URL(t)
	p := ledger(t, database)
	forward := blackboxtest.Request{URL: p.URL + "/v1/effect", Tenant: "t", Key: "f", Body: `{"fp":"a","saga":"s-1","kind":"do"}`}
	require.Equal(t, http.StatusCreated, blackboxtest.Post(t.Context(), forward).Status)
	req := undoOf(p, "u", "f")
	req.Body = `{"input":{"fp":"a","saga":"s-1","kind":"do"},"output":{"effect_id":"e"}}`
	require.True(t, undone(t, blackboxtest.Post(t.Context(), req)))
	var rows int
	require.NoError(t, connect(t, database).QueryRow(t.Context(),
		"select count(*) from effects where saga = 's-1' and fp = 'a' and kind = 'undo' and key = 'f'").Scan(&rows))
	require.Equal(t, 1, rows)
}

// A capture has its effect upon one that stands, once for each key.
func TestCapture(t *testing.T) {
	t.Parallel()
	database := pgtest.URL(t)
	p := ledger(t, database)
	pool := connect(t, database)
	post := func(path, tenant, key string) blackboxtest.Answer {
		return blackboxtest.Post(t.Context(), blackboxtest.Request{URL: p.URL + path, Tenant: tenant, Key: key, Body: `{"fp":"a"}`})
	}
	var first answer
	require.NoError(t, json.Unmarshal([]byte(post("/v1/effect", "t", "f").Body), &first))
	path := "/v1/effect/" + first.EffectID + "/capture"

	require.Equal(t, http.StatusConflict, post("/v1/effect/unknown/capture", "t", "c-0").Status)
	require.Equal(t, http.StatusConflict, post(path, "other", "c-1").Status, "another tenant's")
	require.Equal(t, http.StatusCreated, post(path, "t", "c-2").Status)
	require.True(t, post(path, "t", "c-2").Replayed())
	require.Equal(t, 1, effects(t, pool, "t", "c-2", kindCapture))

	require.True(t, undone(t, blackboxtest.Post(t.Context(), undoOf(p, "u", "f"))))
	require.Equal(t, http.StatusConflict, post(path, "t", "c-3").Status, "it is undone")
	require.Zero(t, effects(t, pool, "t", "c-3", kindCapture))
}
