package pgjournal_test

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/saga/pgjournal"
	"github.com/fanonce/fanonce/server/pgtest"
)

// The primary is lost while sagas run, and its synchronous standby takes its place.
// Every saga ends, no call happens twice, and what was undone stays so.
func TestFailover(t *testing.T) {
	t.Parallel()
	primary, err := pgtest.Start(t.Context(), pgtest.Config{Private: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, primary.Stop()) })
	_, err = primary.CreateDatabase(t.Context(), "shop")
	require.NoError(t, err)
	standby, err := primary.StartStandby(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, standby.Stop()) })
	url, err := pgtest.FailoverURL("shop", primary, standby)
	require.NoError(t, err)
	cfg, err := pgxpool.ParseConfig(url)
	require.NoError(t, err)
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg.Copy())
	require.NoError(t, err)
	require.NoError(t, pgjournal.Migrate(t.Context(), pool, ""))
	pool.Close()
	j, err := pgjournal.Open(t.Context(), cfg, pgjournal.Config{AllowNonDurable: true})
	require.NoError(t, err)
	t.Cleanup(j.Close)
	c := newCallees(t)
	e := engineWith(t, j, c, saga.Config{Poll: quickPoll})

	const sagas, callers = 60, 6
	var over atomic.Int32
	together(1+callers, func(n int) {
		if n == callers {
			for over.Load() < sagas/3 {
				time.Sleep(time.Millisecond)
			}
			if err := errors.Join(primary.Kill(), standby.Promote(t.Context())); err != nil {
				t.Error(err)
			}
			return
		}
		for i := n; i < sagas; i += callers {
			in := journey{Trip: fmt.Sprint(i), Refuse: i%5 == 0}
			key, err := childkey.FromParts("trip", in.Trip)
			if err != nil {
				t.Error(err)
			}
			status := journal.Completed
			for { // as a caller does: again, with the same key
				_, err = trip.Run(t.Context(), e, key, in)
				if err == nil || errors.Is(err, saga.ErrCompensated) || t.Context().Err() != nil {
					break
				}
				time.Sleep(10 * time.Millisecond)
			}
			if errors.Is(err, saga.ErrCompensated) {
				status = journal.Compensated
			}
			over.Add(1)
			r := ended(t, j, journal.IDOf("", "trip", key))
			if r.Status != status {
				t.Errorf("%s is %v, and its caller was told %v", in.Trip, r.Status, status)
			}
			c.check(t, in.Trip, r.Status, "while the primary was lost")
		}
	})
}
