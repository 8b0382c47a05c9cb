package pgjournal_test

import (
	"os"
	"testing"

	"github.com/fanonce/fanonce/internal/pgkit"
	"github.com/fanonce/fanonce/internal/pgkittest"
)

const (
	joined  = "the row that it joins has the ID"
	oneSaga = "the rows are one saga's, which the statement names: they come from its node and stay there"
	// A flush of distributed tables sends one statement for each saga that starts.
	unsent = "distributed tables never get this form"
	// A user's transaction gets the plain form, with one row in a select.
	collected = "the coordinator collects the row, and evaluates the times, before it inserts"
	oneNode   = "one saga is named by its ID, and its node has all leases: that node carries out the whole statement"
)

// Every statement that distributed tables get stays inside the SQL that Citus carries out.
func TestSQL_rules(t *testing.T) {
	t.Parallel()
	pgkittest.SQLRules{
		Files: os.DirFS("."), Text: pgkit.DistributedText, Tables: []string{"saga", "saga_result", "saga_local", "saga_signal", "saga_audit"}, Key: "id|saga", Keys: "ids",
		AllShards: []string{"claimable", "list", "owners", "prune_audit", "reader_audit", "reader_browse", "reader_estimate", "reader_index", "reader_unfinished",
			"stats", "sweep", "sweep_signals", "keep_signals", "unheard"},
		Breaches: map[string]map[string]string{
			"append_results": {pgkittest.RuleUnnest: oneSaga},
			"change":         {pgkittest.RuleUnnest: oneSaga},
			"append":         {pgkittest.RuleKey: joined},
			"append_many":    {pgkittest.RuleKey: joined, pgkittest.RuleUnnest: joined},
			"finish":         {pgkittest.RuleKey: joined},
			"finish_many":    {pgkittest.RuleKey: joined, pgkittest.RuleUnnest: joined},
			"claim":          {pgkittest.RuleVolatile: "the clock is read behind the write, in a select of its own", pgkittest.RuleLocks: oneNode, pgkittest.RuleUnnest: oneNode},
			"start_many":     {pgkittest.RuleTime: unsent, pgkittest.RuleCase: unsent, pgkittest.RuleUnnest: unsent},
			"start_tx":       {pgkittest.RuleTime: collected, pgkittest.RuleCase: collected},
			"end_leases":     {pgkittest.RuleUnnest: "the table of leases is on every node, and is not distributed"},
			"sweep":          {pgkittest.RuleWriteCTE: "the rows of a batch are locked and changed in one statement"},
		},
	}.Require(t)
}

// A list of columns that several statements return stands in one file of query/columns.
func TestSQL_columnsOnce(t *testing.T) {
	t.Parallel()
	pgkittest.RequireColumnsOnce(t, os.DirFS("."))
}
