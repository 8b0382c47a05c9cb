package pgjournal_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/saga/pgjournal"
)

// Later builds may store an entry with a mark that this build does not know, or an entry of a
// later version.
var ofLaterBuilds = []string{`\x050180800100`, `\x020400`}

// An engine leaves a saga whose entries are of a later build to that build, and executes the
// others. Another engine that can read the entries takes the saga over at once.
func TestDeferred_entriesOfALaterBuild(t *testing.T) {
	t.Parallel()
	for _, entries := range ofLaterBuilds {
		t.Run(entries, func(t *testing.T) {
			t.Parallel()
			j, look := open(t, pgjournal.Config{}, func(cfg *pgxpool.Config) { cfg.MaxConns = 8 })
			c := newCallees(t)
			dead := beat(t, j, time.Minute)
			var ids []journal.ID
			for i := range 3 {
				ids = append(ids, startTrip(t, j, dead, journey{Trip: fmt.Sprint(i)}).ID)
			}
			deferred := [16]byte(ids[1])
			exec(t, look, `update saga set entries = $1::text::bytea where id = $2`, entries, deferred)
			require.NoError(t, j.Leave(t.Context(), dead))
			older := engineOn(t, j, c)
			require.Equal(t, journal.Completed, ended(t, j, ids[0]).Status)
			require.Equal(t, journal.Completed, ended(t, j, ids[2]).Status)
			until(t, "it is deferred", func() bool {
				r, err := j.Read(t.Context(), ids[1])
				require.NoError(t, err)
				return r.Deferred != nil
			})
			shown, err := older.Reader().Show(t.Context(), ids[1])
			require.NoError(t, err)
			require.ErrorIs(t, shown.Corrupt, journal.ErrNewer)
			require.ErrorIs(t, shown.Corrupt, journal.ErrCorrupt)
			require.Equal(t, journal.ReasonNewer, shown.Deferred.Reason)
			require.Contains(t, shown.Deferred.Detail, "a part that this build does not know")
			st, err := older.Stats(t.Context())
			require.NoError(t, err)
			require.EqualValues(t, 1, st.Deferred)
			_, err = j.Sweep(t.Context(), 10)
			require.NoError(t, err)
			require.Zero(t, queryRow[int](t, look, `select count(*) from saga_engine where id = 'ffffffff-ffff-ffff-ffff-ffffffffffff'`),
				"the engine of deferred sagas has a lease that could end")

			exec(t, look, `update saga set entries = '' where id = $1`, deferred) // as the build that knows them reads them
			engineOn(t, j, c)
			r := ended(t, j, ids[1])
			require.Equal(t, journal.Completed, r.Status)
			require.Nil(t, r.Deferred)
			require.Zero(t, r.RecoveryAttempts)
		})
	}
}
