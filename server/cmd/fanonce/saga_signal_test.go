package main_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/saga/pgjournal"
)

var waiter = saga.MustDefine("waiter", 1, func(b *saga.Builder[none, struct{}]) {
	saga.Await(b, saga.NewSignal[string]("order.approved"))
})

// show says what a saga waits for, and signal sends it, once, with a line in the audit log.
func TestSagaSignal(t *testing.T) {
	t.Parallel()
	url := database(t)
	j, err := pgjournal.New(openPool(t, url), pgjournal.Config{})
	require.NoError(t, err)
	defer j.Close()
	engine, err := saga.Open(t.Context(), j, saga.Config{Definitions: []saga.AnyDefinition{waiter}, Lease: time.Second})
	require.NoError(t, err)
	r, err := waiter.Start(t.Context(), engine, childkey.MustParse("now"), none{})
	require.NoError(t, err)
	id := r.ID.String()
	require.Eventually(t, func() bool {
		r, err := engine.Lookup(t.Context(), r.ID)
		return err == nil && r.Clean
	}, 20*time.Second, 20*time.Millisecond)
	said := on(t, url, "saga", "show", id).requireCode(t, 0).stdout
	require.Contains(t, said, "waits for order.approved since "+r.FirstClaimedAt.Format(time.RFC3339)+"\n")
	require.NotContains(t, said, "sleeps until")
	require.Contains(t, on(t, url, "saga", "show", "--json", id).requireCode(t, 0).stdout, `"signal": "order.approved"`)

	signal := func(args ...string) result {
		return on(t, url, append([]string{"saga", "signal", "--yes", "--reason", "by phone", id}, args...)...)
	}
	require.Contains(t, signal("order.approved", "ann").requireCode(t, 2).stderr, "not JSON")
	require.Contains(t, signal("order.paid", `"ann"`).requireCode(t, 1).stdout, "does not await")
	signal("order.approved", `"ann"`, "--dry-run").requireCode(t, 0)
	found, err := j.Signals(t.Context(), []journal.ID{r.ID})
	require.NoError(t, err)
	require.Empty(t, found)
	signal("order.approved", `"ann"`).requireCode(t, 0)
	_, err = waiter.Run(t.Context(), engine, childkey.MustParse("now"), none{})
	require.NoError(t, err)
	require.NoError(t, engine.Close(t.Context()))
	require.Contains(t, signal("order.approved", `"bob"`).requireCode(t, 1).stdout, "was sent with another value")
	require.Regexp(t, `signal +order.approved`, on(t, url, "saga", "audit", id).requireCode(t, 0).stdout)
}
