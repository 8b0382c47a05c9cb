package pgstore_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	osexec "os/exec"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/sdk"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/memstore"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/pgtest"
)

var _ sdk.IntentStore = (*pgstore.Intents)(nil)

func orderKey(tb testing.TB, parts ...string) childkey.Key {
	tb.Helper()
	key, err := childkey.FromParts("checkout", parts...)
	require.NoError(tb, err)
	return key
}

func TestIntents(t *testing.T) {
	t.Parallel()
	s, look := open(t, pgstore.Config{})
	intents := s.Intents()
	raw := string([]byte{0xff, 0, 'a'}) // parts are bytes
	key := orderKey(t, "order-42", raw)

	began, existed, err := intents.Begin(t.Context(), key, "checkout", []string{"order-42", raw})
	require.NoError(t, err)
	require.False(t, existed)
	again, existed, err := intents.Begin(t.Context(), key, "checkout", []string{"order-42", raw})
	require.NoError(t, err)
	require.True(t, existed)
	require.Equal(t, began, again)

	pending, err := intents.Pending(t.Context(), 0, 10)
	require.NoError(t, err)
	require.Equal(t, []pgstore.Intent{{Parent: key, Namespace: "checkout", Parts: []string{"order-42", raw}, Began: began}}, pending)
	pending, err = intents.Pending(t.Context(), time.Hour, 10)
	require.NoError(t, err)
	require.Empty(t, pending)

	for range 2 {
		require.NoError(t, intents.Done(t.Context(), "checkout", "order-42", raw))
	}
	require.ErrorIs(t, intents.Done(t.Context(), "checkout", "order-43"), server.ErrNotFound)
	pending, err = intents.Pending(t.Context(), 0, 10)
	require.NoError(t, err)
	require.Empty(t, pending)

	_, _, err = intents.Begin(t.Context(), orderKey(t, "order-43"), "checkout", []string{"order-43"})
	require.NoError(t, err)
	exec(t, look, "update idempotency_intent set began_at = began_at - interval '9 days', done_at = done_at - interval '8 days'")
	n, err := intents.Sweep(t.Context(), 7*24*time.Hour)
	require.NoError(t, err)
	require.Equal(t, 1, n, "only what is done")
	pending, err = intents.Pending(t.Context(), time.Hour, 10)
	require.NoError(t, err)
	require.Len(t, pending, 1)
}

func TestIntents_pendingInOrder(t *testing.T) {
	t.Parallel()
	s, _ := open(t, pgstore.Config{})
	for i := range 5 {
		_, _, err := s.Intents().Begin(t.Context(), orderKey(t, fmt.Sprint(i)), "checkout", []string{fmt.Sprint(i)})
		require.NoError(t, err)
	}
	pending, err := s.Intents().Pending(t.Context(), 0, 3)
	require.NoError(t, err)
	require.Len(t, pending, 3)
	for i, in := range pending {
		require.Equal(t, []string{fmt.Sprint(i)}, in.Parts)
	}
}

// If several callers begin at once, one of them is the first, and all get the same time.
func TestIntents_oneIsFirst(t *testing.T) {
	t.Parallel()
	look := pgtest.NewPool(t, pgstore.Migrate)
	stores := []*pgstore.Store{openOn(t, look, pgstore.Config{}), openOn(t, look, pgstore.Config{})}
	for round := range 20 {
		parts := []string{fmt.Sprint(round)}
		key := orderKey(t, parts...)
		var first atomic.Int32
		times := make([]time.Time, 32)
		var wg sync.WaitGroup
		for i := range times {
			wg.Go(func() {
				began, existed, err := stores[i%2].Intents().Begin(t.Context(), key, "checkout", parts)
				if err != nil {
					t.Error(err)
				}
				if !existed {
					first.Add(1)
				}
				times[i] = began
			})
		}
		wg.Wait()
		require.EqualValues(t, 1, first.Load())
		for _, at := range times {
			require.Equal(t, times[0], at)
		}
	}
}

// A staged intent is there if the transaction that staged it committed.
func TestIntents_stage(t *testing.T) {
	t.Parallel()
	s, look := open(t, pgstore.Config{})
	for _, commit := range []bool{false, true} {
		tx, err := look.Begin(t.Context())
		require.NoError(t, err)
		existed, err := s.Intents().Stage(t.Context(), tx, "checkout", "order-42")
		require.NoError(t, err)
		require.False(t, existed)
		existed, err = s.Intents().Stage(t.Context(), tx, "checkout", "order-42")
		require.NoError(t, err)
		require.True(t, existed)
		if commit {
			require.NoError(t, tx.Commit(t.Context()))
		} else {
			require.NoError(t, tx.Rollback(t.Context()))
		}
		pending, err := s.Intents().Pending(t.Context(), 0, 10)
		require.NoError(t, err)
		require.Equal(t, commit, len(pending) == 1)
	}
	ctx, err := sdk.Begin(t.Context(), s.Intents(), "checkout", "order-42")
	require.NoError(t, err)
	in, _ := wire.FromContext(ctx)
	require.True(t, in.Rerun, "whether it was sent after the commit is not known")
}

func TestIntents_badInput(t *testing.T) {
	t.Parallel()
	s, look := open(t, pgstore.Config{})
	tx, err := look.Begin(t.Context())
	require.NoError(t, err)
	defer tx.Rollback(t.Context())
	i := s.Intents()
	for _, tt := range []struct {
		name string
		try  func(ctx context.Context) error
	}{
		{"no key", func(ctx context.Context) error {
			_, _, err := i.Begin(ctx, childkey.Key{}, "checkout", nil)
			return err
		}},
		{"stage without a transaction", func(ctx context.Context) error { _, err := i.Stage(ctx, nil, "checkout", "a"); return err }},
		{"stage without parts", func(ctx context.Context) error { _, err := i.Stage(ctx, tx, "checkout"); return err }},
		{"stage with a bad namespace", func(ctx context.Context) error { _, err := i.Stage(ctx, tx, "check out", "a"); return err }},
		{"done without parts", func(ctx context.Context) error { return i.Done(ctx, "checkout") }},
		{"negative age", func(ctx context.Context) error { _, err := i.Pending(ctx, -1, 1); return err }},
		{"no limit", func(ctx context.Context) error { _, err := i.Pending(ctx, 0, 0); return err }},
		{"sweep at once", func(ctx context.Context) error { _, err := i.Sweep(ctx, 0); return err }},
		{"sweep with an age that overflows", func(ctx context.Context) error { _, err := i.Sweep(ctx, math.MaxInt64); return err }},
	} {
		require.ErrorIs(t, tt.try(t.Context()), pgstore.ErrArgument, tt.name)
	}
}

// The runtime role is enough for all of it.
func TestIntents_asRuntime(t *testing.T) {
	t.Parallel()
	look := pgtest.NewPool(t, pgstore.Migrate)
	s := openOn(t, look, pgstore.Config{}, as(roles(t, look).Runtime))
	_, _, err := s.Intents().Begin(t.Context(), orderKey(t, "a"), "checkout", []string{"a"})
	require.NoError(t, err)
	_, err = s.Intents().Pending(t.Context(), 0, 1)
	require.NoError(t, err)
	require.NoError(t, s.Intents().Done(t.Context(), "checkout", "a"))
	_, err = s.Intents().Sweep(t.Context(), time.Microsecond)
	require.NoError(t, err)
}

// These variables are the environment of a process that begins an order and charges for it.
const (
	intentURL  = "PGSTORE_TEST_INTENT_URL"
	paymentURL = "PGSTORE_TEST_INTENT_PAYMENT"
)

type amount struct{ Cents int }

var chargeOp = contract.Post[amount, amount]("payment", "charge", "/charges")

// chargeOrder is that process. It does what is pending, as a worker would.
func chargeOrder(url string) int {
	err := func() error {
		ctx := context.Background()
		cfg, err := pgxpool.ParseConfig(url)
		if err != nil {
			return err
		}
		store, err := pgstore.Open(ctx, cfg, pgstore.Config{AllowNonDurable: true})
		if err != nil {
			return err
		}
		defer store.Close()
		client, err := sdk.New(sdk.Config{Services: map[string]sdk.Service{"payment": {URL: os.Getenv(paymentURL)}}})
		if err != nil {
			return err
		}
		pending, err := store.Intents().Pending(ctx, 0, 10)
		if err != nil || len(pending) == 0 {
			return err
		}
		in := pending[0]
		ctx, err = sdk.Begin(ctx, store.Intents(), in.Namespace, in.Parts...)
		if err != nil {
			return err
		}
		if _, err := sdk.Call(ctx, client, chargeOp, amount{500}); err != nil {
			return err
		}
		return store.Intents().Done(ctx, in.Namespace, in.Parts...)
	}()
	if err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

// Twice the process is killed after its work is done and before it gets the
// answer. Each time the next process sends the same key, bytes and First-Sent.
func TestIntents_processIsKilled(t *testing.T) {
	t.Parallel()
	s, look := open(t, pgstore.Config{})
	_, _, err := s.Intents().Begin(t.Context(), orderKey(t, "order-42"), "checkout", []string{"order-42"})
	require.NoError(t, err)

	var effects atomic.Int32
	guard, err := server.NewGuard(memstore.New(), server.Unscoped, server.Config{})
	require.NoError(t, err)
	mux := http.NewServeMux()
	require.NoError(t, server.Handle(mux, guard, chargeOp, server.Keyed, func(_ context.Context, in amount) (amount, error) {
		effects.Add(1)
		return in, nil
	}))
	type delivery struct{ key, body, firstSent string }
	var mu sync.Mutex
	var deliveries []delivery
	var toKill atomic.Int32 // processes
	kill := make(chan struct{})
	payment := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		deliveries = append(deliveries, delivery{r.Header.Get(wire.HeaderKey), string(body), r.Header.Get(wire.HeaderFirstSent)})
		mu.Unlock()
		r.Body = io.NopCloser(bytes.NewReader(body))
		answer := httptest.NewRecorder()
		mux.ServeHTTP(answer, r)
		if toKill.Add(-1) >= 0 { // the work is done and its answer is lost
			kill <- struct{}{}
			<-r.Context().Done()
			return
		}
		for name, values := range answer.Header() {
			w.Header()[name] = values
		}
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes())
	}))
	defer payment.Close()

	run := func(dies bool) {
		cmd := osexec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), intentURL+"="+look.Config().ConnString(), paymentURL+"="+payment.URL)
		if !dies {
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s", out)
			return
		}
		toKill.Store(1)
		require.NoError(t, cmd.Start())
		<-kill
		require.NoError(t, cmd.Process.Kill())
		require.ErrorContains(t, cmd.Wait(), "killed")
	}
	run(true)
	run(true)
	run(false)
	run(false) // finds nothing to do
	require.Len(t, deliveries, 3)
	for _, d := range deliveries {
		require.Equal(t, deliveries[0], d)
		require.NotEmpty(t, d.firstSent)
	}
	require.EqualValues(t, 1, effects.Load())
}
