package guardprom_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/guardprom"
	"github.com/fanonce/fanonce/server/memstore"
	"github.com/fanonce/fanonce/server/store"
)

// A database is a store whose answers take time or fail. It counts the questions.
type database struct {
	store.Store
	down                              atomic.Bool
	takes                             atomic.Int64 // the time of Attention
	attentions, estimates, statistics atomic.Int64
	statsHang                         bool
}

var errDown = errors.New("no tea")

func (d *database) answer(ctx context.Context, takes time.Duration) error {
	select {
	case <-time.After(takes):
	case <-ctx.Done():
		return ctx.Err()
	}
	if d.down.Load() {
		return errDown
	}
	return nil
}

func (d *database) Stats(ctx context.Context) (store.Stats, error) {
	d.statistics.Add(1)
	if d.statsHang {
		<-ctx.Done()
		return store.Stats{}, ctx.Err()
	}
	if err := d.answer(ctx, 0); err != nil {
		return store.Stats{}, err
	}
	return d.Store.Stats(ctx)
}

func (d *database) Reader() store.Reader { return databaseReader{d.Store.Reader(), d} }

type databaseReader struct {
	store.Reader
	d *database
}

func (r databaseReader) Attention(ctx context.Context) (store.Attention, error) {
	r.d.attentions.Add(1)
	if err := r.d.answer(ctx, time.Duration(r.d.takes.Load())); err != nil {
		return store.Attention{}, err
	}
	return r.Reader.Attention(ctx)
}

func (r databaseReader) Estimate(ctx context.Context) (store.Estimate, error) {
	r.d.estimates.Add(1)
	if err := r.d.answer(ctx, 0); err != nil {
		return store.Estimate{}, err
	}
	return r.Reader.Estimate(ctx)
}

// scrapeAtOnce scrapes in virtual time, and fails if that takes some. Then it waits for the questions that the scrape began.
func scrapeAtOnce(t *testing.T, r *prometheus.Registry) string {
	t.Helper()
	before := time.Now()
	text := scrape(t, r)
	require.Zero(t, time.Since(before), "a scrape waits for nothing")
	synctest.Wait()
	return text
}

// fail makes a key that needs a person.
func fail(t *testing.T, s store.Store, key string) {
	t.Helper()
	send(route(t, s, nil, server.Opaque, 500), key, "tea")
}

// Statistics that never come make no scrape wait, and hide nothing else. They are asked for once in StatsEvery.
func TestCollector_statsHang(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &database{Store: memstore.New(), statsHang: true}
		_, r := newCollector(t, guardprom.Config{Name: "a", Store: s, StatsEvery: time.Hour})
		scrapeAtOnce(t, r)
		fail(t, s, "k")
		for range 20 {
			time.Sleep(15 * time.Second)
			scrapeAtOnce(t, r)
		}
		text := scrapeAtOnce(t, r)
		require.Contains(t, text, `fanonce_store_up{store="a"} 1`)
		require.Contains(t, text, `fanonce_store_attention{reason="unknown",store="a"} 1`)
		require.Contains(t, text, `fanonce_store_read_age_seconds{read="attention",store="a"} 0`)
		require.NotContains(t, text, "fanonce_store_records")
		require.EqualValues(t, 1, s.statistics.Load())
		time.Sleep(time.Hour) // for the time limit of the statistics
	})
}

// A store that does not answer is down. Its old numbers stay, with their age, and it is not asked more often for that.
func TestCollector_storeDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &database{Store: memstore.New()}
		_, r := newCollector(t, guardprom.Config{Name: "a", Store: s})
		fail(t, s, "k")
		require.NotContains(t, scrapeAtOnce(t, r), "fanonce_store_", "nothing is known yet")
		s.down.Store(true)
		require.Contains(t, scrapeAtOnce(t, r), `fanonce_store_up{store="a"} 1`)
		time.Sleep(5 * time.Second)
		scrapeAtOnce(t, r)
		time.Sleep(2 * time.Second)
		for range 10 {
			text := scrapeAtOnce(t, r)
			require.Contains(t, text, `fanonce_store_up{store="a"} 0`)
			require.Contains(t, text, `fanonce_store_attention{reason="unknown",store="a"} 1`)
			require.Contains(t, text, `fanonce_store_read_age_seconds{read="attention",store="a"} 7`)
		}
		require.EqualValues(t, 2, s.attentions.Load(), "one that succeeded, and one that failed")
		require.EqualValues(t, 1, s.estimates.Load())
		require.Zero(t, s.statistics.Load(), "nobody asked for a count")
		s.down.Store(false)
		time.Sleep(5 * time.Second)
		scrapeAtOnce(t, r)
		require.Contains(t, scrapeAtOnce(t, r), `fanonce_store_up{store="a"} 1`)
	})
}

// A database behind a broken network does not answer at all. That is down, too.
func TestCollector_storeHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &database{Store: memstore.New()}
		s.takes.Store(int64(time.Hour))
		_, r := newCollector(t, guardprom.Config{Name: "a", Store: s})
		scrapeAtOnce(t, r)
		time.Sleep(6 * time.Second)
		require.Contains(t, scrapeAtOnce(t, r), `fanonce_store_up{store="a"} 0`)
		time.Sleep(6 * time.Second)
	})
}

// Many scrapers cost as much as one.
func TestCollector_manyScrapers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &database{Store: memstore.New()}
		s.takes.Store(int64(time.Second))
		_, r := newCollector(t, guardprom.Config{Name: "a", Store: s, StatsEvery: time.Hour})
		for range 3 {
			var wg sync.WaitGroup
			for range 50 {
				wg.Go(func() { scrape(t, r) })
			}
			wg.Wait()
			time.Sleep(time.Second)
		}
		require.EqualValues(t, 1, s.attentions.Load())
		require.EqualValues(t, 1, s.estimates.Load())
		require.EqualValues(t, 1, s.statistics.Load())
	})
}

// Two guards of a process are in one registry, with a name of each, also if nobody named them.
func TestCollector_twoGuards(t *testing.T) {
	t.Parallel()
	r := prometheus.NewPedanticRegistry()
	names := make(map[string]bool)
	for range 2 {
		s := memstore.New()
		c, err := guardprom.New(guardprom.Config{Store: s})
		require.NoError(t, err)
		require.NoError(t, r.Register(c))
		send(route(t, s, c, server.Opaque, 500), "k", "tea")
	}
	require.Eventually(t, func() bool {
		return strings.Count(scrape(t, r), `fanonce_store_attention{reason="unknown",store=`) == 2
	}, time.Minute, time.Millisecond)
	families, err := r.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() != "fanonce_store_attention" {
			continue
		}
		for _, m := range f.GetMetric() {
			if m.GetLabel()[0].GetValue() == "unknown" {
				require.EqualValues(t, 1, m.GetGauge().GetValue())
				names[m.GetLabel()[1].GetValue()] = true
			}
		}
	}
	require.Len(t, names, 2)
}

// The registry refuses the second collector of one name.
func TestCollector_sameName(t *testing.T) {
	t.Parallel()
	_, r := newCollector(t, guardprom.Config{Name: "orders"})
	c, err := guardprom.New(guardprom.Config{Name: "orders"})
	require.NoError(t, err)
	require.Error(t, r.Register(c))
}
