package pgjournal_test

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/saga/pgjournal"
	"github.com/fanonce/fanonce/saga/sagatest"
)

func TestDistributed_reader(t *testing.T) {
	t.Parallel()
	databases := newCitusStock(t)
	sagatest.TestReader(t, func(tb testing.TB) (journal.Journal, journal.Reader) {
		look := databases.lend(tb)
		require.NoError(tb, pgjournal.AddReaderIndexes(tb.Context(), look, ""))
		return openOn(tb, look, pgjournal.Config{}), newReader(tb, look, pgjournal.ReaderConfig{StatementTimeout: time.Minute})
	})
}

var scanned = regexp.MustCompile(`Scan.* on saga_\d+ .*rows=(\d+) loops=(\d+)`)

// Each node reads as much of its unfinished sagas as a page has, and not all of them: 6,000 in this table.
func TestDistributed_listOfUnfinished(t *testing.T) {
	t.Parallel()
	look := distributedTables(t)
	crowd(t, look, 20_000)
	for _, oldest := range []bool{false, true} {
		l := new(listener)
		r := newReader(t, look, pgjournal.ReaderConfig{StatementTimeout: time.Minute}, func(cfg *pgxpool.Config) { cfg.ConnConfig.Tracer = l })
		page, err := r.Browse(t.Context(), journal.BrowseRequest{Statuses: unfinished, Limit: 10, OldestFirst: oldest})
		require.NoError(t, err)
		require.Len(t, page, 10)
		read, found := 0, false
		for _, st := range l.sent {
			if strings.Contains(st.SQL, "stuck_on") {
				found, read = true, read+rowsScanned(t, look, st)
			}
		}
		require.True(t, found)
		t.Logf("oldest first %t: %d rows", oldest, read)
		require.Positive(t, read)
		require.LessOrEqual(t, read, 2_000)
	}
}

// rowsScanned returns how many sagas the nodes read for a statement.
func rowsScanned(t *testing.T, look *pgxpool.Pool, st pgx.TraceBatchQueryData) (read int) {
	t.Helper()
	tx, err := look.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(t.Context()) }()
	_, err = tx.Exec(t.Context(), "set local citus.explain_all_tasks to on")
	require.NoError(t, err)
	rows, err := tx.Query(t.Context(), "explain (analyze, costs off, timing off) "+st.SQL, st.Args...)
	require.NoError(t, err)
	plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	for _, line := range plan {
		if m := scanned.FindStringSubmatch(line); m != nil {
			n, _ := strconv.Atoi(m[1])
			loops, _ := strconv.Atoi(m[2])
			read += n * loops
		}
	}
	return read
}
