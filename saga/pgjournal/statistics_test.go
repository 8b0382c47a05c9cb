package pgjournal_test

import (
	"crypto/sha256"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/saga/pgjournal"
)

// ANALYZE keeps no input and no result: they would stay in the statistics when the sagas are
// gone.
func TestStatistics_keepNoInputs(t *testing.T) {
	t.Parallel()
	j, look := open(t, pgjournal.Config{})
	engine := beat(t, j, time.Hour)
	large := journal.Entry{Step: "a.b", Outcome: completed("a.b").Outcome, Attempts: 1, At: time.Now(), Result: []byte(`"canary` + strings.Repeat("x", 64<<10) + `"`)}
	for range 30 { // what comes often is what ANALYZE keeps
		req := newRequest(engine)
		req.Input = []byte(`{"card":"canary"}`)
		req.InputHash = sha256.Sum256(req.Input)
		r, _, err := j.Start(t.Context(), req)
		require.NoError(t, err)
		write(t, j, r, journal.Write{Entries: []journal.Entry{large}, Status: journal.Completed, Result: []byte(`"canary"`), Keep: time.Hour})
	}
	exec(t, look, "analyze")
	require.NotZero(t, queryRow[int](t, look, "select count(*) from pg_stats where tablename = 'saga'"), "it was analyzed")
	require.NotZero(t, queryRow[int](t, look, "select count(*) from saga_result"))
	require.Zero(t, queryRow[int](t, look, `select count(*) from pg_stats s where tablename like 'saga%'
		and (attname in ('input', 'input_hash', 'entries', 'result', 'cause', 'stuck_on') or position(encode('canary', 'hex') in s::text) > 0)`))
}
