package outbox_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server/outbox"
	"github.com/fanonce/fanonce/server/pgtest"
)

func newPool(t *testing.T) *pgxpool.Pool {
	t.Helper()
	return pgtest.NewPool(t, outbox.Migrate)
}

func newBox(t *testing.T) *outbox.Outbox {
	t.Helper()
	box, err := outbox.New(outbox.Config{})
	require.NoError(t, err)
	return box
}

// write commits one message.
func write(t *testing.T, pool *pgxpool.Pool, box *outbox.Outbox, m outbox.Message) {
	t.Helper()
	require.NoError(t, pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		_, err := box.WriteTx(t.Context(), tx, m)
		return err
	}))
}

// A broker keeps what was published, in order. refuse says which messages it does not take; nil takes all.
type broker struct {
	mu     sync.Mutex
	got    []outbox.Message
	refuse func(m outbox.Message) error
}

func (b *broker) publish(_ context.Context, batch []outbox.Message) []error {
	b.mu.Lock()
	defer b.mu.Unlock()
	failures := make([]error, len(batch))
	for i, m := range batch {
		if b.refuse != nil {
			failures[i] = b.refuse(m)
		}
		if failures[i] == nil {
			b.got = append(b.got, m)
		}
	}
	return failures
}

// payloads returns what the broker got of an aggregate, without later copies.
func (b *broker) payloads(aggregate string) (texts []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	seen := make(map[string]bool)
	for _, m := range b.got {
		if m.Aggregate == aggregate && !seen[m.Key.String()] {
			seen[m.Key.String()] = true
			texts = append(texts, string(m.Payload))
		}
	}
	return texts
}

func (b *broker) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.got)
}

// run runs a relay until stop is called, or the test ends.
func run(t *testing.T, pool *pgxpool.Pool, box *outbox.Outbox, cfg outbox.RelayConfig) (stop func()) {
	t.Helper()
	cfg.PollInterval = 5 * time.Millisecond
	relay, err := box.NewRelay(pool, cfg)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		relay.Run(ctx)
	}()
	stop = func() {
		cancel()
		<-done
	}
	t.Cleanup(stop)
	return stop
}

// until waits for a condition, for as long as it takes within a minute.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	require.Eventually(t, ok, time.Minute, 5*time.Millisecond, what)
}
