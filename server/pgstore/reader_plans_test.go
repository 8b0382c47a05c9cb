package pgstore_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/pgtest"
	"github.com/fanonce/fanonce/server/store"
)

// A planNode is a part of a plan, as "explain (format json)" has it.
type planNode struct {
	Type     string     `json:"Node Type"`
	Relation string     `json:"Relation Name"`
	Index    string     `json:"Index Name"`
	Removed  float64    `json:"Rows Removed by Filter"` // the mean of all loops
	Rows     float64    `json:"Actual Rows"`            // the mean of all loops
	Loops    float64    `json:"Actual Loops"`
	Hit      int        `json:"Shared Hit Blocks"`
	Read     int        `json:"Shared Read Blocks"`
	Time     float64    `json:"Actual Total Time"` // in milliseconds
	Plans    []planNode `json:"Plans"`
}

// walk calls visit with each node.
func (n *planNode) walk(visit func(*planNode)) {
	visit(n)
	for i := range n.Plans {
		n.Plans[i].walk(visit)
	}
}

// explain returns how the server would carry out a question under the reader's settings. mode is a plan_cache_mode, and
// options are more ones of EXPLAIN.
func explain(ctx context.Context, conn *pgx.Conn, settings, q pgstore.Question, mode string, options ...string) (root planNode, err error) {
	tx, err := conn.Begin(ctx)
	if err != nil {
		return root, err
	}
	defer func() { _ = tx.Rollback(ctx) }()
	if _, err := tx.Exec(ctx, settings.SQL, settings.Args...); err != nil {
		return root, err
	}
	name := "plan_" + hexOf(random())
	prepared, err := tx.Prepare(ctx, name, q.SQL)
	if err != nil {
		return root, err
	}
	literals := make([]string, len(q.Args))
	for i, arg := range q.Args {
		text, err := conn.TypeMap().Encode(prepared.ParamOIDs[i], pgx.TextFormatCode, arg, []byte{}) // nil means null
		if err != nil {
			return root, err
		}
		literals[i] = "'" + strings.ReplaceAll(string(text), "'", "''") + "'"
		if text == nil {
			literals[i] = "null"
		}
	}
	execute := "execute " + name
	if len(literals) > 0 {
		execute += "(" + strings.Join(literals, ", ") + ")"
	}
	if _, err := tx.Exec(ctx, "set local plan_cache_mode = "+mode); err != nil {
		return root, err
	}
	var text string
	if err := tx.QueryRow(ctx, "explain ("+strings.Join(append(options, "format json"), ", ")+") "+execute).Scan(&text); err != nil {
		return root, err
	}
	var plans []struct{ Plan planNode }
	if err := json.Unmarshal([]byte(text), &plans); err != nil {
		return root, err
	}
	return plans[0].Plan, nil
}

func hexOf(b [16]byte) string { return fmt.Sprintf("%x", b) }

// The indexes that each question may use, by the beginning of its name.
var questionIndexes = []struct {
	question string
	indexes  []string
}{
	{"show", []string{"idempotency_pkey"}},
	{"browse", []string{"idempotency_created_at"}},
	{"attention", []string{"idempotency_attention_created_at", "idempotency_pkey"}},
	{"count attention", []string{"idempotency_pkey"}},
	{"dead", []string{"idempotency_opaque", "idempotency_attention_created_at", "idempotency_pkey"}},
	{"children", []string{"idempotency_children"}},
	{"sweep lag", []string{"idempotency_expires_at"}},
	{"young", []string{"idempotency_created_at"}},
	{"audit of a key", []string{"idempotency_audit_key"}},
	{"audit", []string{"idempotency_audit_pkey"}},
}

// badPlans returns the questions whose plans read a table as a whole, or by another index than theirs.
func badPlans(tb testing.TB, look *pgxpool.Pool, r *pgstore.Reader, id, parent store.ID) (bad []string) {
	tb.Helper()
	questions, err := r.Questions(tb.Context(), id, parent)
	require.NoError(tb, err)
	settings, err := r.Settings(tb.Context())
	require.NoError(tb, err)
	conn, err := look.Acquire(tb.Context())
	require.NoError(tb, err)
	defer conn.Release()
	for _, q := range questions {
		i := slices.IndexFunc(questionIndexes, func(of struct {
			question string
			indexes  []string
		}) bool {
			return strings.HasPrefix(q.Name, of.question)
		})
		require.GreaterOrEqual(tb, i, 0, q.Name)
		for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
			root, err := explain(tb.Context(), conn.Conn(), settings, q, mode)
			require.NoError(tb, err, q.Name)
			scans := 0
			root.walk(func(n *planNode) {
				switch {
				case n.Relation == "":
					return
				case q.Name == "count attention" && n.Relation == "idempotency_attention": // it counts all notes
				case n.Index == "" || !slices.Contains(questionIndexes[i].indexes, n.Index):
					bad = append(bad, fmt.Sprintf("%s (%s): %s on %s using %q", q.Name, mode, n.Type, n.Relation, n.Index))
				}
				scans++
			})
			require.Positive(tb, scans, "%s (%s): %+v", q.Name, mode, root)
		}
	}
	return bad
}

// fillForPlans has enough records, notes and entries that a planner thinks of more than the size of the tables.
func fillForPlans(tb testing.TB, look *pgxpool.Pool, records int) (id, parent store.ID) {
	tb.Helper()
	exec(tb, look, `insert into idempotency (key, token, fence, state, effect, fingerprint_version, parent, created_at, lease_until, expires_at, status, replay_until)
		select gen_random_uuid(), gen_random_uuid(), 1, case when n % 1000 = 0 then 4 when n % 50 = 0 then 1 else 2 end, n % 3 + 1, 1,
			case when n % 2 = 0 then md5((n / 8)::text)::uuid end,
			now() - n * interval '1 second', now(), now() - (n % 100000 - 500) * interval '1 second', 200, now()
		from generate_series(1, $1) n`, records)
	exec(tb, look, `insert into idempotency_attention (created_at, noted_at, fence, key, state)
		select created_at, now(), fence, key, state from idempotency where state = 4`)
	exec(tb, look, `insert into idempotency_audit (key, verb, actor, reason, from_state, to_state, fence)
		select key, 'resolve', case when random() < 0.001 then 'ann' else 'bob' end, 'a reason', 4, 2, 2 from idempotency limit 20000`)
	exec(tb, look, "analyze idempotency, idempotency_attention, idempotency_audit")
	id = queryRow[[16]byte](tb, look, "select key from idempotency_audit limit 1")
	return id, queryRow[[16]byte](tb, look, "select parent from idempotency where parent is not null limit 1")
}

// No question of a reader reads a table as a whole, whatever the planner knows of the request.
func TestReader_plans(t *testing.T) {
	t.Parallel()
	look := pgtest.NewPool(t, migrateForReaders)
	r := openReader(t, look, pgstore.ReaderConfig{StatementTimeout: time.Minute})
	require.Empty(t, badPlans(t, look, r, random(), random()), "without records, and never analyzed")
	id, parent := fillForPlans(t, look, 30_000)
	require.Empty(t, badPlans(t, look, r, id, parent))
	for _, tt := range []struct{ index, question string }{ // the control: this test sees a table that is read as a whole
		{"idempotency_created_at", "browse"}, {"idempotency_created_at", "young"}, {"idempotency_children", "children"},
		{"idempotency_expires_at", "sweep lag"}, {"idempotency_audit_key", "audit of a key"},
		{"idempotency_attention_created_at", "attention"},
	} {
		def := queryRow[string](t, look, "select pg_get_indexdef($1::regclass)", tt.index)
		exec(t, look, "drop index "+tt.index)
		bad := badPlans(t, look, r, id, parent)
		require.True(t, slices.ContainsFunc(bad, func(said string) bool { return strings.HasPrefix(said, tt.question) }),
			"without %s: %v", tt.index, bad)
		exec(t, look, def)
	}
}
