package pgstore_test

import (
	"os"
	"testing"

	"github.com/fanonce/fanonce/internal/pgkit"
	"github.com/fanonce/fanonce/internal/pgkittest"
)

// Every statement that distributed tables get stays inside the SQL that Citus carries out.
func TestSQL_rules(t *testing.T) {
	t.Parallel()
	pgkittest.SQLRules{
		Files: os.DirFS("."), Text: pgkit.DistributedText, Tables: tables, Key: "key", Keys: "keys",
		AllShards: []string{
			"answer_keys", "channel", "count_attention", "find_attention", "find_dead", "intents_pending", "intents_sweep", "stale_notes",
			"reader_attention", "reader_audit", "reader_browse", "reader_children", "reader_dead", "reader_indexes", "reader_size", "reader_sweep_lag", "reader_young",
			"owns_answers", "partitions", "prune_audit", "size", "stats", "sweep_attention", "sweep_keys",
		},
		Elsewhere: map[string]string{
			"as_pool":          "Citus has other connections to its workers for each role, so the role stays",
			"claim_many_alike": "claim_many has the rows of distributed tables",
			"expect":           "only Config.Listen needs it, which distributed tables do not allow",
			"notify":           "only Config.Listen needs it, which distributed tables do not allow",
		},
	}.Require(t)
}

// A list of columns that several statements return stands in one file of query/columns.
func TestSQL_columnsOnce(t *testing.T) {
	t.Parallel()
	pgkittest.RequireColumnsOnce(t, os.DirFS("."))
}
