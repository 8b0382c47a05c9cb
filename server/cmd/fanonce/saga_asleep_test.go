package main_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/saga/pgjournal"
)

var sleeper = saga.MustDefine("sleeper", 1, func(b *saga.Builder[none, struct{}]) {
	saga.Sleep(b, "trial.ends", saga.Const(b, 48*time.Hour))
})

// show says until when a saga sleeps: one of StartAt that no engine had yet, and one whose step sleeps. retry-now wakes
// neither.
func TestSagaShow_asleep(t *testing.T) {
	t.Parallel()
	url := database(t)
	pool := openPool(t, url)
	at := time.Now().Add(24 * time.Hour).UTC().Truncate(time.Second)
	require.NoError(t, pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		_, err := pgjournal.Start(t.Context(), tx, sleeper, childkey.MustParse("later"), none{}, pgjournal.StartConfig{At: at})
		return err
	}))
	j, err := pgjournal.New(pool, pgjournal.Config{})
	require.NoError(t, err)
	defer j.Close()
	engine, err := saga.Open(t.Context(), j, saga.Config{Definitions: []saga.AnyDefinition{sleeper}, Lease: time.Second})
	require.NoError(t, err)
	now, err := sleeper.Start(t.Context(), engine, childkey.MustParse("now"), none{})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		r, err := engine.Lookup(t.Context(), now.ID)
		return err == nil && r.Clean
	}, 20*time.Second, 20*time.Millisecond)
	require.NoError(t, engine.Close(t.Context()))

	said := on(t, url, "saga", "show", now.ID.String()).requireCode(t, 0).stdout
	require.Regexp(t, `trial.ends +forward +asleep`, said)
	require.Contains(t, said, "sleeps until "+now.FirstClaimedAt.Add(48*time.Hour).Format(time.RFC3339))
	later := journal.IDOf("", "sleeper", childkey.MustParse("later")).String()
	require.Contains(t, on(t, url, "saga", "show", "--json", later).requireCode(t, 0).stdout, `"sleeps_until": "`+at.Format(time.RFC3339))
	for _, id := range []string{later, now.ID.String()} {
		require.Contains(t, on(t, url, "saga", "retry-now", "--yes", "--reason", "r", id).requireCode(t, 1).stdout, "no call of it waits")
	}
}
