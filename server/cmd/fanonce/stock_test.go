package main_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/saga/pgjournal"
	"github.com/fanonce/fanonce/sdk"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/inbox"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/store"
)

// openPool opens a pool that stores and journals can use, and that ends with the test.
func openPool(tb testing.TB, url string) *pgxpool.Pool {
	tb.Helper()
	cfg, err := pgxpool.ParseConfig(url)
	require.NoError(tb, err)
	pgstore.Prepare(cfg)
	pool, err := pgxpool.NewWithConfig(tb.Context(), cfg)
	require.NoError(tb, err)
	tb.Cleanup(pool.Close)
	return pool
}

func newStore(tb testing.TB, url string) *pgstore.Store {
	tb.Helper()
	s, err := pgstore.New(openPool(tb, url), pgstore.Config{})
	require.NoError(tb, err)
	tb.Cleanup(s.Close)
	return s
}

const (
	tenant    = "tenant-7"
	namespace = "shop"
	secret    = "4111-1111" // a body that no output may show
)

// unknownKeys leaves keys whose outcome nobody knows: an Opaque handler failed. It returns their IDs.
func unknownKeys(tb testing.TB, url string, keys ...string) []string {
	tb.Helper()
	h := charges(tb, url, server.Config{})
	var ids []string
	for _, key := range keys {
		require.Equal(tb, http.StatusInternalServerError, charge(tb, h, key).Code)
		ids = append(ids, store.NewID(tenant, namespace, childkey.MustParse(key)).String())
	}
	return ids
}

// charges is an Opaque route whose handler fails, behind a guard of that configuration.
func charges(tb testing.TB, url string, cfg server.Config) http.Handler {
	tb.Helper()
	cfg.Namespace = namespace
	guard, err := server.NewGuard(newStore(tb, url), func(*http.Request) (string, error) { return tenant, nil }, cfg)
	require.NoError(tb, err)
	failing := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
	memo := func(*http.Request, []byte) ([]byte, error) { return []byte("charge 7"), nil }
	h, err := guard.Route(server.Route{Name: "charge", Effect: server.Opaque, Memo: memo}, failing)
	require.NoError(tb, err)
	return h
}

func charge(tb testing.TB, h http.Handler, key string) *httptest.ResponseRecorder {
	tb.Helper()
	r := httptest.NewRequestWithContext(tb.Context(), http.MethodPost, "/charges", strings.NewReader(secret))
	r.Header.Set(wire.HeaderKey, key)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

type none struct{}

// fragile has one step, which must succeed and is refused for good: it ends stuck.
var fragile = saga.MustDefine("fragile", 1, func(b *saga.Builder[none, none]) {
	step := saga.StepFunc(b, "shipping.book", b.Input(), func(context.Context, saga.Call[none]) (none, error) {
		return none{}, saga.Rejected(errors.New("no such address"))
	}).Retriable()
	saga.Return(b, step.Output())
})

// halfway holds stock, is refused, and cannot free the stock: it ends stuck on its way back.
var halfway = saga.MustDefine("halfway", 1, func(b *saga.Builder[none, none]) {
	hold := saga.StepFunc(b, "stock.hold", b.Input(), func(context.Context, saga.Call[none]) (none, error) { return none{}, nil }).
		UndoFunc("stock.free", func(context.Context, saga.UndoCall[none, none]) error {
			return saga.Rejected(errors.New("no such hold"))
		})
	step := saga.StepFunc(b, "shipping.book", hold.Output(), func(context.Context, saga.Call[none]) (none, error) {
		return none{}, saga.Rejected(errors.New("no such address"))
	})
	saga.Return(b, step.Output())
})

// doubtful does not know whether its one step happened, and cannot undo it: it ends stuck on its way back.
var doubtful = saga.MustDefine("doubtful", 1, func(b *saga.Builder[none, none]) {
	step := saga.StepFunc(b, "shipping.book", b.Input(), func(context.Context, saga.Call[none]) (none, error) {
		return none{}, errors.New("the carrier does not answer")
	}).Retry(saga.RetryPolicy{Attempts: 1})
	saga.Return(b, step.Output())
})

// stuckSagas runs sagas until they are stuck. It returns their IDs.
func stuckSagas(tb testing.TB, url string, keys ...string) []string {
	tb.Helper()
	return stuckOf(tb, url, fragile, keys...)
}

func stuckOf(tb testing.TB, url string, d *saga.Definition[none, none], keys ...string) []string {
	tb.Helper()
	j, err := pgjournal.New(openPool(tb, url), pgjournal.Config{})
	require.NoError(tb, err)
	client, err := sdk.New(sdk.Config{Services: map[string]sdk.Service{"shipping": {URL: "http://localhost:1"}}})
	require.NoError(tb, err)
	engine, err := saga.Open(tb.Context(), j, saga.Config{Client: client, Definitions: []saga.AnyDefinition{d}, Lease: time.Second})
	require.NoError(tb, err)
	var ids []string
	for _, key := range keys {
		_, err = d.Run(tb.Context(), engine, childkey.MustParse(key), none{})
		require.ErrorIs(tb, err, saga.ErrStuck)
		ids = append(ids, journal.IDOf("", d.Name(), childkey.MustParse(key)).String())
	}
	require.NoError(tb, engine.Close(tb.Context()))
	j.Close()
	return ids
}

// startedSaga stores a saga that no engine has. It returns its ID.
func startedSaga(tb testing.TB, url, key string) string {
	tb.Helper()
	return startedOf(tb, url, fragile, key)
}

func startedOf(tb testing.TB, url string, d *saga.Definition[none, none], key string) string {
	tb.Helper()
	pool := openPool(tb, url)
	require.NoError(tb, pgx.BeginFunc(tb.Context(), pool, func(tx pgx.Tx) error {
		_, err := pgjournal.Start(tb.Context(), tx, d, childkey.MustParse(key), none{}, pgjournal.StartConfig{})
		return err
	}))
	return journal.IDOf("", d.Name(), childkey.MustParse(key)).String()
}

// quarantinedKey leaves a key whose owners died. It returns its ID.
func quarantinedKey(t *testing.T, url, key string) string {
	t.Helper()
	s := newStore(t, url)
	id := store.NewID(tenant, namespace, childkey.MustParse(key))
	guard, err := server.NewGuard(s, func(*http.Request) (string, error) { return tenant, nil }, server.Config{
		Namespace: namespace, Lease: 100 * time.Millisecond, MaxRecoveryAttempts: 1, Wait: time.Minute,
	})
	require.NoError(t, err)
	dying := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		// The process that ran it is gone: nobody renews the lease, and nobody settles.
		execute(t, url, "update idempotency set token = gen_random_uuid() where state = 1")
	})
	h, err := guard.Route(server.Route{Name: "ship", Effect: server.Keyed}, dying)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/ship", strings.NewReader("{}"))
		r.Header.Set(wire.HeaderKey, key)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Header().Get(wire.HeaderCode) == string(wire.Poisoned)
	}, time.Minute, 10*time.Millisecond)
	return id.String()
}

// deadLetter leaves a message that was given up. It returns the ID of its key.
func deadLetter(t *testing.T, url string) string {
	t.Helper()
	guard, err := server.NewGuard(newStore(t, url), server.Unscoped, server.Config{})
	require.NoError(t, err)
	consumer, err := inbox.New(guard, inbox.Config{Consumer: "mailer", Effect: server.Transactional, MaxAttempts: 1})
	require.NoError(t, err)
	delivery, err := consumer.Handle(t.Context(), inbox.Message{Source: "mails", ID: "7"}, func(context.Context, []byte) error {
		return errors.New("no such address")
	})
	require.Error(t, err)
	require.Equal(t, inbox.Dead, delivery.Result)
	return text(parse[keyList](t, on(t, url, "keys", "list", "--state", "dead-letter", "--json").requireCode(t, 0)).Keys[0]["id"])
}
