package saga_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
)

// A saga that starts in two months is nobody's until then, is not swept, and has all its time from then on. A Run waits
// for it, and is told what it waits for.
func TestStartAt(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		tr := newTrial()
		d := saga.MustDefine("later", 1, func(b *saga.Builder[time.Duration, nothing]) {
			b.Timeout(time.Hour)
			tr.invoice(b).After(saga.Sleep(b, "a.nap", b.Input()))
		})
		e := s.openWith(s.journal, slow(d))
		go e.RunSweeper(s.Context())
		at := time.Now().Add(60 * day)
		r, err := d.Start(s.Context(), e, key(s.T, "k"), 30*time.Minute, saga.StartAt(at))
		require.NoError(s, err)
		require.Equal(s, at, r.WakeAt.Local())
		require.Zero(s, r.Fence)
		again, err := d.Start(s.Context(), e, key(s.T, "k"), 30*time.Minute, saga.StartAt(at.Add(day)))
		require.NoError(s, err)
		require.Equal(s, r.WakeAt, again.WakeAt, "it keeps its time")
		_, err = e.RetryNow(s.Context(), r.ID, someone)
		require.ErrorIs(s, err, saga.ErrConflict)
		ctx, cancel := context.WithTimeout(s.Context(), day)
		defer cancel()
		_, err = d.Run(ctx, e, key(s.T, "k"), 30*time.Minute)
		require.ErrorIs(s, err, saga.ErrDetached)
		require.ErrorIs(s, err, context.DeadlineExceeded)
		require.ErrorContains(s, err, "it sleeps until "+at.UTC().Format(time.RFC3339))
		time.Sleep(58 * day)
		require.Equal(s, r.Revision, s.read("k").Revision)
		_, err = d.Run(s.Context(), e, key(s.T, "k"), 30*time.Minute)
		require.NoError(s, err)
		require.WithinDuration(s, at.Add(30*time.Minute), <-tr.invoiced, time.Second)
		require.Equal(s, at, s.read("k").FirstClaimedAt.Local())
	})
}

// A saga that was to start later is cancelled at once, without a call. A time that is over starts one at once, and one
// that no journal can hold is refused.
func TestStartAt_cancelled(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		tr := newTrial()
		d := tr.definition()
		e := s.open(d)
		r, err := d.Start(s.Context(), e, key(s.T, "k"), 0, saga.StartAt(time.Now().Add(day)))
		require.NoError(s, err)
		_, err = e.Cancel(s.Context(), r.ID, someone)
		require.NoError(s, err)
		_, err = d.Run(s.Context(), e, key(s.T, "k"), 0)
		require.ErrorIs(s, err, saga.ErrCancelled)
		require.Less(s, s.read("k").FinishedAt.Sub(r.CreatedAt), time.Second)
		require.Empty(s, tr.opened)

		_, err = d.Run(s.Context(), e, key(s.T, "late"), 0, saga.StartAt(time.Now().Add(-day)))
		require.NoError(s, err)
		require.Len(s, tr.opened, 1)
		_, err = d.Run(s.Context(), e, key(s.T, "never"), 0, saga.StartAt(time.Now().AddDate(101, 0, 0)))
		require.ErrorIs(s, err, saga.ErrConfig)
		_, err = e.Lookup(s.Context(), journal.IDOf("", "trial", key(s.T, "never")))
		require.ErrorIs(s, err, saga.ErrNotFound)
	})
}
