package pgstore_test

import (
	"flag"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/pgtest"
	"github.com/fanonce/fanonce/server/store"
)

// recurringRecords is how many records TestRecurring has: the long form has 10 million, with 100,000 notes.
var recurringRecords = flag.Int("records", 100_000, "how many records TestRecurring makes; a hundredth of them have notes")

// mostBuffers is how many pages of 8 kB a statement that recurs may touch at any size of the tables, besides one for each
// note: 10,000 records and the pages of their index.
const mostBuffers = 60_000

// Statements that are sent again and again, by sweepers, reconcilers, scrapes, pages and commands, read a bounded part of
// the records.
func TestRecurring_readsABoundedPart(t *testing.T) {
	t.Parallel()
	look := pgtest.NewPool(t, migrateForReaders)
	s := openOn(t, look, pgstore.Config{})
	r := openReader(t, look, pgstore.ReaderConfig{StatementTimeout: time.Minute})
	const batch = 1_000_000
	for done := 0; done < *recurringRecords; done += batch {
		exec(t, look, `insert into idempotency (key, token, fence, state, effect, fingerprint_version, created_at, lease_until, expires_at, status, replay_until, answer_until, envelope, route)
			select gen_random_uuid(), gen_random_uuid(), 1, case when n % 100 = 0 then 4 else 2 end, case when n % 3 = 0 then 1 else 3 end, 1,
				now() - n * interval '50 ms', now(), now() + interval '7 days' - n * interval '50 ms', 200, now(), now() + interval '1 day', 'answer', 'charge'
			from generate_series($1::bigint, $2) n`, done, min(done+batch, *recurringRecords)-1)
	}
	exec(t, look, "insert into idempotency_attention (created_at, noted_at, fence, key, state) select created_at, now() - interval '1 h', fence, key, state from idempotency where state = 4")
	exec(t, look, "vacuum analyze idempotency, idempotency_attention")
	settings, err := r.Settings(t.Context())
	require.NoError(t, err)
	questions, err := r.Questions(t.Context(), random(), random())
	require.NoError(t, err)
	recurring, err := s.Recurring()
	require.NoError(t, err)
	conn, err := look.Acquire(t.Context())
	require.NoError(t, err)
	defer conn.Release()
	notes := *recurringRecords / 100
	for _, q := range append(questions, recurring...) {
		switch q.Name { // a person asks these, and they end with the StatementTimeout
		case "browse of a rare state", "browse of everything":
			continue
		}
		root, err := explain(t.Context(), conn.Conn(), settings, q, "auto", "analyze", "buffers")
		require.NoError(t, err, q.Name)
		t.Logf("%-20s %7.1f ms, %d buffers", q.Name, root.Time, root.Hit+root.Read)
		most := mostBuffers
		if q.Name == "sweep attention" { // it looks at each
			most += 10 * notes
		}
		require.LessOrEqual(t, root.Hit+root.Read, most, q.Name)
		root.walk(func(n *planNode) {
			if n.Relation == "idempotency" {
				require.NotEqual(t, "Seq Scan", n.Type, q.Name)
				require.LessOrEqual(t, n.Removed*n.Loops, 10_000.0+float64(notes), "%s: rows removed by a filter", q.Name)
			}
		})
	}
	began := time.Now()
	all, err := s.Reader().List(t.Context(), store.ListRequest{States: []store.State{store.StateInProgress, store.StateUnknown}, Effect: store.Opaque, Limit: 1000})
	require.NoError(t, err)
	t.Logf("the reconciler's list: %v for %d records", time.Since(began), len(all))
}
