package sagaotel_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/saga/sagaotel"
)

var errDown = errors.New("no tea")

// A source is a journal whose answers take time or fail. It counts the questions.
type source struct {
	asked atomic.Int64
	takes time.Duration
	err   error
	stuck int64
}

func (s *source) Stats(ctx context.Context) (journal.Stats, error) {
	s.asked.Add(1)
	select {
	case <-time.After(s.takes):
		return journal.Stats{ByStatus: map[journal.Status]int64{journal.Stuck: s.stuck}}, s.err
	case <-ctx.Done():
		return journal.Stats{}, ctx.Err()
	}
}

// watch returns a process that only watches. Each source has an observer of its own, with that name.
func watch(t *testing.T, sources map[string]*source) *process {
	t.Helper()
	p := &process{reader: sdkmetric.NewManualReader()}
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(p.reader))
	for name, s := range sources {
		o, err := sagaotel.New(sagaotel.Config{Name: name, MeterProvider: provider})
		require.NoError(t, err)
		require.NoError(t, o.Watch(s))
		t.Cleanup(func() { require.NoError(t, o.Close()) })
		p.observe = o
	}
	return p
}

const (
	up    = "fanonce.saga.journal.up{fanonce.saga.journal=a}"
	stuck = "fanonce.saga.sagas{fanonce.saga.journal=a,fanonce.saga.status=stuck}"
)

// A journal that does not answer lets no reading wait, and is down. Close ends the question.
func TestWatch_hangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &source{takes: time.Hour}
		p := watch(t, map[string]*source{"a": s})
		start := time.Now()
		require.NotContains(t, p.numbers(t), up, "nothing is known yet")
		require.Zero(t, time.Since(start))
		time.Sleep(11 * time.Second)
		start = time.Now()
		got := p.numbers(t)
		require.Contains(t, got, up)
		require.Zero(t, got[up])
		require.NotContains(t, got, stuck)
		require.NoError(t, p.observe.Close())
		require.NoError(t, p.observe.Close())
		require.Zero(t, time.Since(start))
		require.NotContains(t, p.numbers(t), up)
	}) // fails if a goroutine is left
}

// The numbers of a journal that fails stay, with their age. It is asked once in a while, however many readings there are.
func TestWatch_fails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &source{stuck: 3}
		p := watch(t, map[string]*source{"a": s})
		p.numbers(t)
		synctest.Wait()
		s.err = errDown
		require.EqualValues(t, 1, p.numbers(t)[up])
		time.Sleep(10 * time.Second)
		p.numbers(t)
		synctest.Wait()
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				got := p.numbers(t)
				require.Zero(t, got[up])
				require.EqualValues(t, 3, got[stuck])
				require.EqualValues(t, 10, got["fanonce.saga.read.age{fanonce.saga.journal=a}"])
			})
		}
		wg.Wait()
		require.EqualValues(t, 2, s.asked.Load())
	})
}

// The journals of one process hide no number of each other. An observer watches one.
func TestWatch_two(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := watch(t, map[string]*source{"a": {stuck: 3}, "b": {}})
		p.numbers(t)
		synctest.Wait()
		got := p.numbers(t)
		require.EqualValues(t, 3, got[stuck])
		require.Contains(t, got, "fanonce.saga.sagas{fanonce.saga.journal=b,fanonce.saga.status=stuck}")
		var wrong *sagaotel.ConfigError
		require.ErrorAs(t, p.observe.Watch(&source{}), &wrong)
		require.NoError(t, p.observe.Close())
		require.NoError(t, p.observe.Watch(&source{}), "the first one is gone")
	})
}
