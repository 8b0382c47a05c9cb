package pgkit_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/internal/pgkit"
)

// Writes that the server refuses are found out, and the others of their flush still share a commit, also
// where the isolation level needs a block around it.
func TestCombiner_severs(t *testing.T) {
	t.Parallel()
	for _, level := range []string{"read committed", "serializable"} {
		t.Run(level, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, 1, pgkit.CombinerConfig{}, session("default_transaction_isolation", level))
			release := b.hold(t)
			all := puts(30)
			for _, bad := range []int{0, 7, 29} {
				all[bad].value = -1
			}
			done := b.queue(t.Context(), t, all...)
			release()
			for i, p := range all {
				got := <-done[i]
				if p.value == -1 {
					require.Equal(t, pgkit.FailureRefused, pgkit.Classify(got.err), "%+v: %v", p, got.err)
					continue
				}
				require.NoError(t, got.err)
				require.Equal(t, given{2 * p.value, true, nil}, got)
			}
			n, commits := b.count(t)
			require.Equal(t, 27, n)
			require.Equal(t, 1, commits)
		})
	}
}

// A write whose row is locked is set aside soon, and the others do not wait for the lock.
func TestCombiner_setsAsideWhatIsLocked(t *testing.T) {
	t.Parallel()
	settings := pgkit.Statement{SQL: "select set_config('lock_timeout', '10', true)"}
	b := newBench(t, 2, pgkit.CombinerConfig{MaxFlushes: 1, Settings: settings}, session("lock_timeout", "10ms"))
	b.block(t, 5)
	release := b.hold(t)
	done := b.queue(t.Context(), t, puts(9)...)
	release()
	for i, p := range puts(9) {
		got := <-done[i]
		if p.id == 5 {
			require.Equal(t, pgkit.FailureLockTimeout, pgkit.Classify(got.err), "%v", got.err)
			continue
		}
		require.NoError(t, got.err)
	}
	n, commits := b.count(t)
	require.Equal(t, []int{8, 1}, []int{n, commits})
	_, _, err := b.puts.DoAlone(t.Context(), put{5, 0})
	require.Equal(t, pgkit.FailureLockTimeout, pgkit.Classify(err), "%v", err)
	until(t, "nothing is under way", b.combiner.Idle)
}

// Writes that go alone take few connections, however many there are, and wait for each other.
func TestCombiner_singlesAreBounded(t *testing.T) {
	t.Parallel()
	b := newBench(t, 8, pgkit.CombinerConfig{MaxFlushes: 2})
	unblock := b.block(t, 1)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 5)
	for id := range cap(done) {
		go func() { _, _, err := b.puts.DoAlone(ctx, put{id + 1, 0}); done <- err }()
		if id == 0 {
			b.blocked(t)
		}
	}
	until(t, "one is sent, and the others wait", func() bool {
		underWay, callers := b.combiner.Alone()
		return underWay == 1 && callers == 5
	})
	require.EqualValues(t, 1, b.pool.Stat().AcquiredConns())
	_, ok, err := b.puts.Do(t.Context(), put{100, 0})
	require.NoError(t, err, "a flush does not wait for them")
	require.True(t, ok)
	cancel()
	for range cap(done) {
		require.ErrorIs(t, <-done, context.Canceled)
	}
	unblock()
	until(t, "nothing is under way", func() bool { return b.combiner.Idle() && b.writer.Detached() == 0 })
	n, _ := b.count(t)
	require.Equal(t, 2, n, "the one that was sent, and the flush")
}

func TestRetryLocked(t *testing.T) {
	t.Parallel()
	locked := answer("ERROR", "55P03")
	for _, tt := range []struct {
		name  string
		errs  []error
		want  error
		tries int
	}{
		{"at once", []error{nil}, nil, 1},
		{"another error", []error{pgx.ErrNoRows, nil}, pgx.ErrNoRows, 1},
		{"the third time", []error{locked, locked, nil}, nil, 3},
	} {
		tries := 0
		_, err := pgkit.RetryLocked(t.Context(), time.Minute, func() (int, error) {
			tries++
			return 0, tt.errs[tries-1]
		})
		require.ErrorIs(t, err, tt.want, tt.name)
		require.Equal(t, tt.tries, tries, tt.name)
	}
	start := time.Now()
	tries := 0
	_, err := pgkit.RetryLocked(t.Context(), 200*time.Millisecond, func() (int, error) { tries++; return 0, locked })
	require.ErrorIs(t, err, locked)
	require.Greater(t, tries, 1)
	require.Less(t, time.Since(start), 5*time.Second)
}
