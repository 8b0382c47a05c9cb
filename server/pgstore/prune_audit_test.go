package pgstore_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/store"
)

func TestPruneAudit(t *testing.T) {
	t.Parallel()
	s, look := open(t, pgstore.Config{})
	r := roles(t, look)
	exec(t, look, `insert into idempotency_audit (at, key, verb, actor, reason, from_state, to_state, fence)
		select clock_timestamp() - interval '400 days', gen_random_uuid(), 'forget', 'ann', 'a test key', 2, 0, 1 from generate_series(1, 2500)`)
	young := unknown(t, s)
	_, _, err := s.Forget(t.Context(), young.ID, young.Fence, someone)
	require.NoError(t, err)

	const year = 365 * 24 * time.Hour
	_, err = openOn(t, look, pgstore.Config{}, as(r.Runtime)).PruneAudit(t.Context(), year)
	var refused *pgconn.PgError
	require.True(t, errors.As(err, &refused) && refused.Code == "42501", "a service took its log back: %v", err)

	owner := openOn(t, look, pgstore.Config{}, as(r.Owner))
	for _, want := range []int{2500, 0} {
		n, err := owner.PruneAudit(t.Context(), year)
		require.NoError(t, err)
		require.Equal(t, want, n)
	}
	log, err := s.Reader().AuditPage(t.Context(), store.AuditRequest{Limit: 10})
	require.NoError(t, err)
	require.Len(t, log, 1)
	require.Equal(t, young.ID, log[0].ID)
	for _, age := range []time.Duration{0, -time.Hour, math.MaxInt64} {
		_, err := owner.PruneAudit(t.Context(), age)
		require.ErrorIs(t, err, pgstore.ErrArgument)
	}
}
