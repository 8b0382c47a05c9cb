package browsertest_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/saga/memjournal"
	"github.com/fanonce/fanonce/saga/pgjournal"
	"github.com/fanonce/fanonce/server/console"
	"github.com/fanonce/fanonce/server/memstore"
	"github.com/fanonce/fanonce/server/outbox"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/pgtest"
	"github.com/fanonce/fanonce/server/store"
)

// A backend keeps the keys, sagas and messages of a site.
type backend struct {
	keys      store.Store
	keyReader store.Reader
	sagas     journal.Journal
	reader    journal.Reader
	outbox    console.Outbox
	pool      *pgxpool.Pool // nil: memory
}

// inMemory is a backend without an outbox: memory has none.
func inMemory() backend {
	keys, sagas := memstore.New(), memjournal.New()
	return backend{keys: keys, keyReader: keys.Reader(), sagas: sagas, reader: memjournal.NewReader(sagas)}
}

// inPostgres is a backend in a database of tb's own.
func inPostgres(tb testing.TB) backend {
	tb.Helper()
	cfg := pgtest.NewPool(tb, migrate).Config()
	cfg.MaxConns = 10
	pgstore.Prepare(cfg)
	pool, err := pgxpool.NewWithConfig(tb.Context(), cfg)
	require.NoError(tb, err)
	tb.Cleanup(pool.Close)
	be, done, err := backendOn(pool)
	require.NoError(tb, err)
	tb.Cleanup(done)
	return be
}

// migrate makes the tables of a backend.
func migrate(ctx context.Context, pool *pgxpool.Pool, schema string) error {
	for _, step := range []func(context.Context, *pgxpool.Pool, string) error{
		pgstore.Migrate, pgstore.AddReaderIndexes, pgjournal.Migrate, pgjournal.AddReaderIndexes, outbox.Migrate,
	} {
		if err := step(ctx, pool, schema); err != nil {
			return err
		}
	}
	return nil
}

// backendOn is a backend in a migrated database. done frees what it holds.
func backendOn(pool *pgxpool.Pool) (be backend, done func(), err error) {
	keys, err := pgstore.New(pool, pgstore.Config{KeepRoutes: true})
	if err != nil {
		return be, nil, err
	}
	sagas, err := pgjournal.New(pool, pgjournal.Config{})
	if err != nil {
		return be, nil, err
	}
	// The machine may be busy with other tests. The readers wait longer than they do in production.
	be = backend{keys: keys, sagas: sagas, pool: pool}
	if be.keyReader, err = pgstore.NewReader(pool, pgstore.ReaderConfig{StatementTimeout: patience}); err != nil {
		return be, nil, err
	}
	if be.reader, err = pgjournal.NewReader(pool, pgjournal.ReaderConfig{StatementTimeout: patience}); err != nil {
		return be, nil, err
	}
	messages, err := outbox.NewReader(pool, outbox.ReaderConfig{StatementTimeout: patience})
	if err != nil {
		return be, nil, err
	}
	be.outbox = outboxOf(messages)
	return be, func() {
		sagas.Close()
		keys.Close()
	}, nil
}

// outboxOf shows the messages of a database.
func outboxOf(r *outbox.Reader) console.Outbox {
	return console.Outbox{
		Name: "events",
		Stats: func(ctx context.Context) (console.OutboxStats, error) {
			st, err := r.Stats(ctx)
			return console.OutboxStats{Waiting: st.Waiting, Failing: st.Failing, Oldest: st.Oldest, Relays: st.Relays}, err
		},
		List: func(ctx context.Context, failing bool, after string, limit int) ([]console.Message, error) {
			lane, position, _ := strings.Cut(after, "/")
			cursor := outbox.Cursor{}
			cursor.Lane, _ = strconv.Atoi(lane) // 0 for the first page
			cursor.Position, _ = strconv.ParseInt(position, 10, 64)
			found, err := r.List(ctx, outbox.ListRequest{Failing: failing, After: cursor, Limit: limit})
			var out []console.Message
			for _, m := range found {
				out = append(out, console.Message{
					Position: fmt.Sprintf("%d/%d", m.Lane, m.Position), Topic: m.Topic, Aggregate: m.Aggregate,
					Attempts: m.Attempts, Created: m.Created, Error: m.LastError,
				})
			}
			return out, err
		},
	}
}

// message writes a message that the broker refuses with that text.
func (s *site) message(topic, aggregate, refusal string) {
	s.tb.Helper()
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	box, err := outbox.New(outbox.Config{})
	require.NoError(s.tb, err)
	require.NoError(s.tb, pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		_, err := box.WriteTx(ctx, tx, outbox.Message{Topic: topic, Aggregate: aggregate})
		return err
	}))
	relay, err := box.NewRelay(s.pool, outbox.RelayConfig{Publish: func(_ context.Context, batch []outbox.Message) []error {
		errs := make([]error, len(batch))
		for i := range errs {
			errs[i] = errors.New(refusal)
		}
		return errs
	}})
	require.NoError(s.tb, err)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		relay.Run(ctx)
	}()
	require.Eventually(s.tb, func() bool {
		stats, err := box.Stats(ctx, s.pool)
		return err == nil && stats.Failing == stats.Waiting
	}, patience, 5*time.Millisecond)
	stop()
	<-ended
}
