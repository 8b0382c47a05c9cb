package pgstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/internal/pgkittest"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/store"
)

// A renewal beside a held record takes several round trips. If one of them fails, the results that Renew does return
// are true. A repeated renewal decides every owner except the owner of the held record.
func TestInjection_partialRenewal(t *testing.T) {
	t.Parallel()
	i := new(pgkittest.Injector)
	s, look := open(t, pgstore.Config{}, i.Under)
	held := claim(t, s)
	tx, err := look.Begin(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, tx.Rollback(context.WithoutCancel(t.Context()))) }()
	_, err = tx.Exec(t.Context(), "select from idempotency where key = $1 for update", [16]byte(held.ID))
	require.NoError(t, err)

	var owners []store.Owner
	var stale store.Owner
	prepare := func() {
		owners = []store.Owner{held}
		for range 5 {
			owners = append(owners, claim(t, s))
		}
		stale = claim(t, s)
		stale.Token = random()
		owners = append(owners, stale)
	}
	var got store.Renewal
	partial := 0
	i.EveryFault(t, prepare, func(ctx context.Context) {
		got, err = s.Renew(ctx, owners, 2*time.Hour)
	}, func(t *testing.T, at string) {
		require.Error(t, err, at)
		if n := len(got.Renewed) + len(got.Lost); n > 0 && n < len(owners)-1 {
			partial++
		}
		for _, o := range got.Renewed {
			r := read(t, s, o.ID)
			require.Greater(t, r.LeaseLeft(), time.Hour, at)
		}
		require.NotContains(t, got.Renewed, held, at)
		for _, o := range got.Lost {
			require.Equal(t, stale, o, at)
		}
		// An attempt whose fate is unknown may hold the records until the server ends it.
		until(t, "the others are decided", func() bool {
			got, err = s.Renew(t.Context(), owners, 2*time.Hour)
			return len(got.Renewed) == len(owners)-2
		})
		require.Equal(t, []store.Owner{stale}, got.Lost, at)
	})
	require.Positive(t, partial, "some faults left a part of the owners decided")
}
