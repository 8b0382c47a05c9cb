package pgstore_test

import (
	"context"
	"crypto/md5" //nolint:gosec // keys that SQL can make, too
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/store"
)

// A way does something that others do in another way.
type way struct {
	name string
	do   func(ctx context.Context) error
}

// compare lets the ways take turns. It reports the medians of their rates and
// of their median times, in ratio to the first way.
func compare(b *testing.B, callers int, ways []way) {
	b.Helper()
	b.ReportAllocs()
	rates, times := make([][]float64, len(ways)), make([][]float64, len(ways))
	var base []float64
	for b.Loop() {
		baseRate, baseTime := turnOf(b, callers, ways[0].do)
		base = append(base, baseRate)
		for i, w := range ways[1:] {
			rate, median := turnOf(b, callers, w.do)
			rates[i+1] = append(rates[i+1], rate/baseRate)
			times[i+1] = append(times[i+1], float64(median)/float64(baseTime))
		}
	}
	b.ReportMetric(middle(base), "base-ops/s")
	for i, w := range ways[1:] {
		b.ReportMetric(middle(rates[i+1]), "x-rate-"+w.name)
		b.ReportMetric(middle(times[i+1]), "x-p50-"+w.name)
	}
}

// BenchmarkJoined measures the cost of a business transaction, one insert of
// 100 bytes, that happens once. The result is in ratio to BEGIN, INSERT and
// COMMIT without this package.
func BenchmarkJoined(b *testing.B) {
	look := durable(b)
	exec(b, look, "create table business (id bigint generated always as identity primary key, what text not null)")
	s := openOn(b, look, pgstore.Config{}, size(32))
	cfg := look.Config()
	size(32)(cfg)
	pgstore.Prepare(cfg)
	pool, err := pgxpool.NewWithConfig(b.Context(), cfg)
	require.NoError(b, err)
	b.Cleanup(pool.Close)
	ways := []way{
		{"alone", func(ctx context.Context) error {
			return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return trade(ctx, tx) })
		}},
		{"transactional", func(ctx context.Context) error { return transactional(ctx, s) }},
		{"once", func(ctx context.Context) error {
			return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
				if first, err := pgstore.Once(ctx, tx, newOnce()); err != nil || !first {
					return errors.Join(errors.New("not the first"), err)
				}
				return trade(ctx, tx)
			})
		}},
		{"once-func", func(ctx context.Context) error {
			first, err := s.OnceFunc(ctx, newOnce(), trade)
			if !first && err == nil {
				err = errors.New("not the first")
			}
			return err
		}},
		{"pipelined", func(ctx context.Context) error {
			batch := new(pgx.Batch)
			batch.Queue(insertTrade, hundredBytes)
			first, err := s.SendOnce(ctx, newOnce(), batch)
			if !first && err == nil {
				err = errors.New("not the first")
			}
			return err
		}},
	}
	for _, callers := range []int{1, 32} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) { compare(b, callers, ways) })
	}
}

const insertTrade = "insert into business (what) values ($1)"

var hundredBytes = strings.Repeat("x", 100)

func trade(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, insertTrade, hundredBytes)
	return err
}

func transactional(ctx context.Context, s *pgstore.Store) error {
	req := newClaim()
	req.Effect = store.Transactional
	r, won, err := s.Claim(ctx, req)
	if err != nil || !won {
		return errors.Join(errors.New("not the first"), err)
	}
	tx, err := s.Begin(ctx)
	if err != nil {
		return err
	}
	if err := trade(ctx, pgstore.Tx(tx.NewContext(ctx))); err != nil {
		return errors.Join(err, tx.Rollback(ctx))
	}
	return tx.Settle(ctx, store.Owner{ID: req.ID, Token: req.Token, Fence: r.Fence}, completion)
}

var onceNumber atomic.Uint64

func newOnce() pgstore.OnceRequest {
	key, err := childkey.FromParts("bench", fmt.Sprint(onceNumber.Add(1)), fmt.Sprint(rand.Uint64()))
	if err != nil {
		panic(err)
	}
	return pgstore.OnceRequest{Scope: "tenant", Name: "trade", Key: key}
}

// BenchmarkReplay measures duplicates of completed keys, 200 bytes each of 200,000,
// in ratio to SELECT 1.
func BenchmarkReplay(b *testing.B) {
	look := durable(b)
	keys := uint64(200_000)
	if testing.Short() {
		keys = 2_000
	}
	exec(b, look, `insert into idempotency (key, token, fence, state, effect, fingerprint_version, fingerprint,
			created_at, lease_until, expires_at, replay_until, status, envelope)
		select md5(int8send(n))::uuid, md5(int8send(n))::uuid, 1, 2, 2, 1, sha256(int8send(n)),
			now(), now(), now() + interval '1 day', now() + interval '1 day', 200, decode(repeat('61', 200), 'hex')
		from generate_series(1::bigint, $1) n`, keys)
	exec(b, look, "vacuum analyze idempotency")
	on := openOn(b, look, pgstore.Config{}, size(32))
	off := openOn(b, look, pgstore.Config{SeparateCommits: true}, size(32))
	cfg := look.Config()
	size(32)(cfg)
	pgstore.Prepare(cfg)
	pool, err := pgxpool.NewWithConfig(b.Context(), cfg)
	require.NoError(b, err)
	b.Cleanup(pool.Close)
	duplicate := func(s *pgstore.Store, retry bool) func(context.Context) error {
		return func(ctx context.Context) error {
			req := claimOf(completed(1 + rand.Uint64N(keys)))
			ask := s.Claim
			if retry {
				ask = func(ctx context.Context, req store.ClaimRequest) (store.Record, bool, error) {
					r, err := s.Read(ctx, req.ID)
					return r, false, err
				}
			}
			r, won, err := ask(ctx, req)
			if err != nil || won || r.State != store.StateCompleted || len(r.Answer.Envelope) != 200 {
				return fmt.Errorf("won %v, state %v: %w", won, r.State, err)
			}
			return nil
		}
	}
	ways := []way{
		{"select-1", func(ctx context.Context) error {
			var n int
			return pool.QueryRow(ctx, "select 1").Scan(&n)
		}},
		{"retry", duplicate(on, true)},
		{"duplicate", duplicate(on, false)},
		{"retry-off", duplicate(off, true)},
		{"duplicate-off", duplicate(off, false)},
	}
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) { compare(b, callers, ways) })
	}
}

// completed is the ID of the nth key.
func completed(n uint64) store.ID {
	return md5.Sum(binary.BigEndian.AppendUint64(nil, n)) //nolint:gosec // of no secret
}

// turnOf lets the callers call do for a while. It returns the calls in a
// second, and the median time of a call.
func turnOf(b *testing.B, callers int, do func(context.Context) error) (rate float64, median time.Duration) {
	b.Helper()
	all := inTurn(callers, func() bool {
		err := do(b.Context())
		if err != nil {
			b.Error(err)
		}
		return err == nil
	})
	require.NotEmpty(b, all)
	return float64(len(all)) / slice().Seconds(), middle(all)
}
