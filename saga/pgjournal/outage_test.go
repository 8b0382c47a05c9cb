package pgjournal_test

import (
	"context"
	"flag"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/pgjournal"
	"github.com/fanonce/fanonce/server/pgtest"
)

var outages = flag.Int("pgjournal.outages", 6, "how often the server is away for one and a half leases")

// The server is killed again and again, each time for one and a half leases. Two processes
// live through it, so no saga that they execute is stuck, though none gets on meanwhile. With the
// default MaxRecoveryAttempts five deaths would be enough.
func TestOutage_isNoDeath(t *testing.T) {
	t.Parallel()
	const lease, sagas = 500 * time.Millisecond, 10
	cluster, err := pgtest.Start(t.Context(), pgtest.Config{Private: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cluster.Stop()) })
	j, look := openAt(t, cluster, pgjournal.Config{})
	var over atomic.Bool
	patient := saga.MustDefine("patient", 1, func(b *saga.Builder[journey, nothing]) {
		saga.StepFunc(b, "a.wait", b.Input(), func(ctx context.Context, _ saga.Call[journey]) (nothing, error) {
			for !over.Load() && ctx.Err() == nil {
				time.Sleep(10 * time.Millisecond)
			}
			return nothing{}, ctx.Err()
		}).ReadOnly().AttemptTimeout(time.Hour)
	})
	cfg := saga.Config{Definitions: []saga.AnyDefinition{patient}, Lease: lease, Poll: quickPoll}
	for _, journal := range []*pgjournal.Journal{j, openOn(t, look, pgjournal.Config{})} {
		e, err := saga.Open(t.Context(), journal, cfg)
		require.NoError(t, err)
		t.Cleanup(func() { closeEngine(t, e) })
	}
	for range sagas {
		req, err := patient.Request(childkey.MustNew(), journey{Trip: "t"})
		require.NoError(t, err)
		_, _, err = j.Start(t.Context(), req)
		require.NoError(t, err)
	}
	// fences is how often the sagas changed their owners, or 0 while the server is away.
	fences := func() (sum int) {
		_ = look.QueryRow(t.Context(), "select coalesce(sum(fence), 0)::int from saga where engine in (select id from saga_engine where lease_until > clock_timestamp())").Scan(&sum)
		return sum
	}
	for n := range *outages {
		until(t, "each saga has another owner", func() bool { return fences() >= sagas*(n+1) })
		require.NoError(t, cluster.Kill())
		time.Sleep(lease + lease/2) // leases end while the server is away
		require.NoError(t, cluster.Restart(t.Context()))
		look.Reset()
	}
	until(t, "each saga has another owner", func() bool { return fences() >= sagas*(*outages+1) })
	over.Store(true)
	until(t, "all sagas are over", func() bool {
		return queryRow[int](t, look, "select count(*) from saga where status in (1, 2)") == 0
	})
	require.Equal(t, sagas, queryRow[int](t, look, "select count(*) from saga where status = 3"), "sagas that completed")
}
