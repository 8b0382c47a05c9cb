package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/fanonce/fanonce/internal/benchkit"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/store"
)

const (
	selectOne    = "SELECT 1"
	selectByKey  = "SELECT by key"
	replays      = "retry's read"
	unexpected   = "duplicate's claim"
	replayers    = 64
	replayWindow = 500 * time.Millisecond // of one look at what duplicates write
)

var replay = bench{
	name: "replay", title: "replay of a completed key",
	conditions: "Claims of completed keys with answers of 200 bytes. A retry's is a read, as a guard knows it by the attempt's number; a duplicate's is a claim. SELECT 1 and SELECT by key: prepared by name, on one connection of pgx for one caller, on 32 for 64. What repeats write is that of the turn with most, by the ids of transactions and by the server's statistics of their statements; the log as a whole, which the server writes to by itself now and then, is that of the quietest turn.",
	measure:    measureReplay,
}

func measureReplay(ctx context.Context, l *lab, e effort) (_ []figure, err error) {
	on, err := l.postgres(ctx)
	if err != nil {
		return nil, err
	}
	db, err := fillDatabase(ctx, on, e.replayKeys, "1 day")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.drop()) }()
	config, err := db.config(connections)
	if err != nil {
		return nil, err
	}
	s, err := pgstore.Open(ctx, config, pgstore.Config{})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	d := &duplicates{store: s, database: db, keys: e.replayKeys}
	one, err := d.contest(ctx, e, 1)
	if err != nil {
		return nil, err
	}
	many, err := d.contest(ctx, e, replayers)
	if err != nil {
		return nil, err
	}
	costs, err := l.profiler.spent(ctx, e, "replay", func() (*variant, error) { return d.variant(replays, 1, d.ask(true)), nil })
	if err != nil {
		return nil, err
	}
	writes, err := d.countWrites(ctx, e)
	if err != nil {
		return nil, err
	}
	figures := []figure{
		{Name: "replay, 1 caller", Prototype: "3.5 (function), select by key 1.95", Measures: []measure{
			one.ratio(replays, selectOne, (*cell).p50).Measure("p50 by SELECT 1", times, benchkit.AtMost(2.2)),
			one.ratio(replays, selectByKey, (*cell).p50).Measure("by SELECT by key", times, nil),
			one.ratio(unexpected, selectOne, (*cell).p50).Measure("a duplicate's by SELECT 1", times, nil),
		}},
		{Name: "replay, what it writes", Prototype: "0", Measures: writes},
		{Name: "replay, 64 callers", Prototype: "0.7", Measures: []measure{
			many.ratio(replays, selectOne, (*cell).rate).Measure("rate by SELECT 1", times, benchkit.AtLeast(0.9)),
			many.ratio(replays, selectByKey, (*cell).rate).Measure("by SELECT by key", times, nil),
			many.ratio(unexpected, selectOne, (*cell).rate).Measure("a duplicate's by SELECT 1", times, nil),
		}},
	}
	figures = append(figures, costs.At("1 caller"))
	for _, name := range []string{replays, unexpected, selectOne, selectByKey} {
		figures = append(figures, one.describe(name).At("1 caller"), many.describe(name).At("64 callers"))
	}
	return figures, nil
}

// duplicates ask for keys that are completed.
type duplicates struct {
	*database

	store *pgstore.Store
	keys  int
}

var errNoReplay = errors.New("bench: a completed key did not give its answer")

// ask returns an operation as the guard sends it to the store: for a request that says
// that it is a retry, or for a duplicate that does not.
func (d *duplicates) ask(retry bool) func(context.Context) error {
	return func(ctx context.Context) error {
		var (
			r   store.Record
			won bool
			err error
		)
		if id := bulkKey(rand.IntN(d.keys)); retry {
			r, err = d.store.Read(ctx, id)
		} else {
			r, won, err = claim(ctx, d.store, claimOf(id))
		}
		if err == nil && (won || len(r.Answer.Envelope) != len(answer)) {
			err = errNoReplay
		}
		return err
	}
}

// contest has duplicates and bare statements take turns.
func (d *duplicates) contest(ctx context.Context, e effort, n int) (_ results, err error) {
	pool, err := d.pool(ctx, int32(min(n, connections))) //nolint:gosec // at most 32
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	var db querier = pool
	if n == 1 {
		conn, err := pool.Acquire(ctx)
		if err != nil {
			return nil, err
		}
		defer conn.Release()
		db = conn
	}
	bare := func(ctx context.Context) error {
		var one int
		return db.QueryRow(ctx, "select 1").Scan(&one)
	}
	byKey := func(ctx context.Context) error {
		var body []byte
		return db.QueryRow(ctx, "select envelope from idempotency where key = $1", [16]byte(bulkKey(rand.IntN(d.keys)))).Scan(&body)
	}
	return contest(ctx, e, d.variant(replays, n, d.ask(true)), d.variant(unexpected, n, d.ask(false)),
		d.variant(selectOne, n, bare), d.variant(selectByKey, n, byKey))
}

func (d *duplicates) variant(name string, n int, operation func(context.Context) error) *variant {
	return &variant{
		name: name, server: d.server, turn: callers(n, operation),
		check: func(ctx context.Context, _ int) error {
			return d.holds(ctx, d.keys, "select count(*) from idempotency")
		},
		close: func() error { return nil },
	}
}

// countWrites returns what the server counts of repeats, by its statistics and its log.
func (d *duplicates) countWrites(ctx context.Context, e effort) ([]measure, error) {
	db, err := d.database.toCounted()
	if err != nil {
		return nil, err
	}
	s, err := storeOn(ctx, db, pgstore.Config{})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	return (&duplicates{store: s.Store, database: db, keys: d.keys}).writes(ctx, e)
}

// writes measures what the server writes while there is nothing but repeats, of
// each kind by itself.
func (d *duplicates) writes(ctx context.Context, e effort) (all []measure, err error) {
	for _, kind := range []struct {
		name  string
		retry bool
	}{{"retries", true}, {"duplicates", false}} {
		w, err := d.measureWrites(ctx, e, callers(replayers, d.ask(kind.retry)))
		if err != nil {
			return nil, err
		}
		all = append(all, w.measures(d.database, kind.name)...)
	}
	return all, nil
}

// A written has the work of the server in each turn. It has the bytes of the log, the bytes that
// statements of the repeats wrote, transactions with an id, and statements for each operation.
type written struct{ wal, own, transactions, sent []float64 }

// measures are judged by the turn with the most writes. Only the log as a whole is judged by the
// turn with the least. A server without writers logs the running transactions up to 15 s after the
// last write. That falls into some turn, and the repeats did not cause it.
func (w written) measures(on *database, kind string) []measure {
	all := []measure{
		number("WAL with nothing but "+kind+", in the quietest turn", slices.Min(w.wal), byteCount, benchkit.AtMost(0)),
		number("their transaction ids", slices.Max(w.transactions), "", benchkit.AtMost(0)),
	}
	all = append(all, on.statements("bytes of WAL by their statements", []float64{slices.Max(w.own)}, benchkit.AtMost(0))...)
	return append(all, on.statements("their statements each", w.sent, nil)...)
}

// measureWrites returns what the server does in turns.
func (d *duplicates) measureWrites(ctx context.Context, e effort, turn func(context.Context, time.Duration) (work, error)) (w written, err error) {
	for range max(e.rounds, 3) {
		before, err := d.theirs(ctx)
		if err != nil {
			return w, err
		}
		from, err := d.server.position(ctx)
		if err != nil {
			return w, err
		}
		did, err := turn(ctx, min(replayWindow, e.slice))
		if err != nil {
			return w, err
		}
		to, err := d.server.position(ctx)
		if err != nil {
			return w, err
		}
		after, err := d.theirs(ctx)
		if err != nil {
			return w, err
		}
		w.wal = append(w.wal, to.wal-from.wal)
		w.own = append(w.own, after.logged-before.logged)
		w.transactions = append(w.transactions, to.transactions-from.transactions)
		w.sent = append(w.sent, (after.sent-before.sent)/float64(did.operations))
	}
	return w, nil
}
