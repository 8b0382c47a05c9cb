package pgkit_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/internal/pgkit"
)

// The cause of an ended ctx is not the fate of the write.
func TestClassify_causeOfTheEnd(t *testing.T) {
	t.Parallel()
	for _, cause := range []error{
		pgkit.ErrQueueFull,
		&pgconn.PgError{Severity: "ERROR", Code: "40001", Message: "a sibling's"},
		&pgconn.ConnectError{},
	} {
		t.Run(fmt.Sprintf("%T", cause), func(t *testing.T) {
			t.Parallel()
			pool, blocked, release := blockable(t)
			defer release()
			err := detach(t, pool, newWriter(t, pool, 0), blocked, cause)
			require.ErrorIs(t, err, cause)
			require.Equal(t, pgkit.FailureLost, pgkit.Classify(err))
		})
	}
}

// A write that begins without the writer also waits until few enough writes are detached.
func TestWriter_Admit(t *testing.T) {
	t.Parallel()
	pool, blocked, release := blockable(t)
	w := newWriter(t, pool, 1)
	require.NoError(t, w.Admit(t.Context()))
	require.ErrorIs(t, detach(t, pool, w, blocked, nil), pgkit.ErrFateUnknown)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.ErrorIs(t, w.Admit(ctx), pgkit.ErrBusy)
	release()
	until(t, "nothing is detached", func() bool { return w.Detached() == 0 })
	require.NoError(t, w.Admit(t.Context()))
}
