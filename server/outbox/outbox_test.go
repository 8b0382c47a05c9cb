package outbox_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/outbox"
	"github.com/fanonce/fanonce/server/pgstore"
)

// A message exists if the run that wrote it is stored, and a replay does not write it again.
func TestWrite_withTheRun(t *testing.T) {
	t.Parallel()
	testWriteWithTheRun(t, newPool)
}

func testWriteWithTheRun(t *testing.T, newPool func(*testing.T) *pgxpool.Pool) {
	t.Helper()
	pool, box := newPool(t), newBox(t)
	require.NoError(t, pgstore.Migrate(t.Context(), pool, ""))
	if err := pgstore.Distribute(t.Context(), pool, ""); !errors.Is(err, pgstore.ErrNoCitus) {
		require.NoError(t, err)
	}
	store, err := pgstore.Open(t.Context(), pool.Config(), pgstore.Config{AllowNonDurable: true})
	require.NoError(t, err)
	defer store.Close()
	guard, err := server.NewGuard(store, server.Unscoped, server.Config{})
	require.NoError(t, err)
	route, err := guard.Route(server.Route{Effect: server.Transactional}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		payload := []byte(r.Header.Get("X-Text"))
		order := outbox.Message{Topic: "orders", Aggregate: "o-1", Payload: payload}
		_, err := box.Write(r.Context(), order)
		if err != nil || r.Header.Get("X-Text") == "fail" {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	require.NoError(t, err)
	send := func(key, text string) int {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader("{}"))
		r.Header.Set("Idempotency-Key", key)
		r.Header.Set("X-Text", text)
		w := httptest.NewRecorder()
		route.ServeHTTP(w, r)
		return w.Code
	}
	require.Equal(t, http.StatusInternalServerError, send("k-1", "fail"))
	require.Equal(t, int64(0), stats(t, box, pool).Waiting)
	for range 3 {
		require.Equal(t, http.StatusOK, send("k-1", "first"))
	}
	require.Equal(t, http.StatusOK, send("k-2", "second"))
	require.Equal(t, int64(2), stats(t, box, pool).Waiting)
	b := new(broker)
	run(t, pool, box, outbox.RelayConfig{Publish: b.publish})
	until(t, "both messages are published", func() bool { return b.count() == 2 })
	require.Equal(t, []string{"first", "second"}, b.payloads("o-1"))
	until(t, "both messages are deleted", func() bool { return stats(t, box, pool).Waiting == 0 })
	require.NoError(t, guard.Shutdown(t.Context()))
}

func stats(t *testing.T, box *outbox.Outbox, pool *pgxpool.Pool) outbox.Stats {
	t.Helper()
	s, err := box.Stats(t.Context(), pool)
	require.NoError(t, err)
	return s
}

// What is written comes out as it was, also through database/sql.
func TestWrite_roundTrip(t *testing.T) {
	t.Parallel()
	testWriteRoundTrip(t, newPool)
}

func testWriteRoundTrip(t *testing.T, newPool func(*testing.T) *pgxpool.Pool) {
	t.Helper()
	pool, box := newPool(t), newBox(t)
	key := childkey.MustNew()
	want := outbox.Message{
		Key: key, Topic: "orders", Aggregate: "日本", Headers: map[string]string{"a": "b", "ü": ""}, Payload: []byte{0, 1, 255},
	}
	write(t, pool, box, want)
	db := stdlib.OpenDBFromPool(pool)
	defer db.Close()
	tx, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	made, err := box.WriteSQL(t.Context(), tx, outbox.Message{Topic: "no aggregate"})
	require.NoError(t, err)
	require.NoError(t, tx.Commit())

	b := new(broker)
	run(t, pool, box, outbox.RelayConfig{Publish: b.publish})
	until(t, "both messages are published", func() bool { return b.count() == 2 })
	for _, got := range b.got {
		require.False(t, got.Created.IsZero())
		if got.Topic == "no aggregate" {
			require.Equal(t, made, got.Key)
			require.Empty(t, got.Payload)
			continue
		}
		require.Equal(t, []any{want.Key, want.Topic, want.Aggregate, want.Headers, want.Payload}, []any{got.Key, got.Topic, got.Aggregate, got.Headers, got.Payload})
	}
}

func TestWrite_badInput(t *testing.T) {
	t.Parallel()
	box := newBox(t)
	long := strings.Repeat("x", outbox.MaxNameBytes+1)
	for name, m := range map[string]outbox.Message{
		"no topic":              {},
		"long topic":            {Topic: long},
		"zero byte in a topic":  {Topic: "a\x00b"},
		"long aggregate":        {Topic: "t", Aggregate: long},
		"aggregate not UTF-8":   {Topic: "t", Aggregate: "\xff"},
		"header without a name": {Topic: "t", Headers: map[string]string{"": "v"}},
		"header with a zero":    {Topic: "t", Headers: map[string]string{"n": "\x00"}},
		"long header":           {Topic: "t", Headers: map[string]string{"n": long}},
		"large payload":         {Topic: "t", Payload: make([]byte, outbox.MaxPayloadBytes+1)},
	} {
		_, err := box.Write(t.Context(), m)
		require.ErrorIs(t, err, outbox.ErrArgument, name)
	}
	_, err := box.Write(t.Context(), outbox.Message{Topic: "t"})
	require.ErrorIs(t, err, pgstore.ErrNoTx)
	_, err = box.WriteTx(t.Context(), nil, outbox.Message{Topic: "t"})
	require.ErrorIs(t, err, outbox.ErrArgument)
	_, err = box.WriteSQL(t.Context(), nil, outbox.Message{Topic: "t"})
	require.ErrorIs(t, err, outbox.ErrArgument)
	_, err = outbox.New(outbox.Config{Schema: "pg_x"})
	require.ErrorIs(t, err, outbox.ErrConfig)
}

// Two transactions of one aggregate that are open at once commit in the order of their positions: the second waits.
func TestWrite_ordersCommits(t *testing.T) {
	t.Parallel()
	testWriteOrdersCommits(t, newPool)
}

func testWriteOrdersCommits(t *testing.T, newPool func(*testing.T) *pgxpool.Pool) {
	t.Helper()
	pool, box := newPool(t), newBox(t)
	first, err := pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = box.WriteTx(t.Context(), first, outbox.Message{Topic: "t", Aggregate: "a", Payload: []byte("1")})
	require.NoError(t, err)
	second := make(chan error, 1)
	go func() {
		second <- pgx.BeginFunc(context.WithoutCancel(t.Context()), pool, func(tx pgx.Tx) error {
			_, err := box.WriteTx(t.Context(), tx, outbox.Message{Topic: "t", Aggregate: "a", Payload: []byte("2")})
			return err
		})
	}()
	until(t, "the second writer waits, or did not need to", func() bool {
		var waits int
		err := pool.QueryRow(t.Context(), "select count(*) from pg_locks where locktype = 'advisory' and not granted").Scan(&waits)
		require.NoError(t, err)
		return waits > 0 || len(second) > 0
	})
	write(t, pool, box, outbox.Message{Topic: "t", Aggregate: "another"}) // nobody waits for another aggregate
	b := new(broker)
	run(t, pool, box, outbox.RelayConfig{Publish: b.publish})
	until(t, "the other aggregate is published", func() bool { return b.count() > 0 })
	require.NoError(t, first.Commit(t.Context()))
	require.NoError(t, <-second)
	until(t, "both are published", func() bool { return len(b.payloads("a")) == 2 })
	require.Equal(t, []string{"1", "2"}, b.payloads("a"))
}

var errRefused = errors.New("the broker does not take it")

func TestNewRelay_badConfig(t *testing.T) {
	t.Parallel()
	pool, box := newPool(t), newBox(t)
	ok := outbox.RelayConfig{Publish: new(broker).publish}
	for name, change := range map[string]func(*outbox.RelayConfig){
		"no Publish":       func(c *outbox.RelayConfig) { c.Publish = nil },
		"negative batch":   func(c *outbox.RelayConfig) { c.BatchSize = -1 },
		"negative poll":    func(c *outbox.RelayConfig) { c.PollInterval = -1 },
		"negative timeout": func(c *outbox.RelayConfig) { c.PublishTimeout = -1 },
		"short lease":      func(c *outbox.RelayConfig) { c.Lease = outbox.DefaultPublishTimeout },
		"negative backoff": func(c *outbox.RelayConfig) { c.MaxBackoff = -1 },
	} {
		cfg := ok
		change(&cfg)
		_, err := box.NewRelay(pool, cfg)
		require.ErrorIs(t, err, outbox.ErrConfig, name)
	}
	_, err := box.NewRelay(nil, ok)
	require.ErrorIs(t, err, outbox.ErrConfig)
}
