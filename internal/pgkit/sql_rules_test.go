package pgkit_test

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/internal/pgkit"
)

// Statements stay inside the SQL that distributed Postgres shares with a single server. Citus
// distributes a table by its key, and refuses what breaks one of these rules.
const (
	ruleVolatile = "an UPDATE, DELETE or RETURNING calls no volatile function"
	ruleNotify   = "a notification is a statement of its own"
	ruleWriteCTE = "no CTE writes"
	ruleLocks    = "a row is locked by its key, and none is skipped"
	ruleUnnest   = "no join with unnest"
	ruleKey      = "a statement on the distributed table names the key"
	ruleCase     = "an UPDATE takes no time in a case or coalesce of columns"
	ruleUpsert   = "a DO UPDATE calls no function"
)

var sqlRules = map[string]func(sql string) bool{
	ruleVolatile: func(sql string) bool { return writes.MatchString(sql) && volatile.MatchString(sql) },
	ruleNotify:   func(sql string) bool { return writes.MatchString(sql) && strings.Contains(sql, "pg_notify(") },
	ruleWriteCTE: func(sql string) bool { return writeCTE.MatchString(sql) },
	ruleLocks: func(sql string) bool {
		return strings.Contains(sql, "skip locked") || (rowLock.MatchString(sql) && !byOneKey.MatchString(sql))
	},
	ruleUnnest: func(sql string) bool { return strings.Contains(sql, "unnest(") },
	ruleCase: func(sql string) bool {
		return strings.Contains(sql, "update /") && slices.ContainsFunc(choices.FindAllString(sql, -1), func(choice string) bool {
			return strings.Contains(choice, "_timestamp()") && column.MatchString(choice)
		})
	},
	ruleUpsert: func(sql string) bool { return upsert.MatchString(sql) },
	ruleKey: func(sql string) bool {
		return distributed.MatchString(sql) && !insertsKey.MatchString(sql) && !namesKey.MatchString(sql)
	},
}

var (
	sqlComments = regexp.MustCompile(`(?m)--.*$`)
	writes      = regexp.MustCompile(`\b(update /|delete from|do update|returning)`)
	volatile    = regexp.MustCompile(`\b(clock_timestamp|timeofday|random|gen_random_uuid|set_config|nextval|pg_advisory\w*)\(`)
	writeCTE    = regexp.MustCompile(`\bas (materialized )?\(\s*(insert|update|delete)\b`)
	rowLock     = regexp.MustCompile(`\bfor (no key )?update\b`)
	// The tables that are distributed by their key. The side tables follow them.
	distributed = regexp.MustCompile(`/\*schema\*/(idempotency|saga)\b`)
	insertsKey  = regexp.MustCompile(`insert into /\*schema\*/(idempotency|saga) (as \w+ )?\((key|id),`)
	byOneKey    = regexp.MustCompile(`\b(\w+\.)?(key|id) = @(key|id)\b`)
	choices     = regexp.MustCompile(`\bcase\b.*?\bend\b|\bcoalesce\([^()]*(\(\))?[^()]*\)`)
	column      = regexp.MustCompile(`\b[a-z]\.[a-z]`)
	upsert      = regexp.MustCompile(`(?s)\bdo update\s+set\b.*\(`)
	namesKey    = regexp.MustCompile(`\b(\w+\.)?(key|id) = (@(key|id)\b|any \(@|\w+\.(key|id)\b)`)
)

// allShards are statements that may go to all shards: no request sends them.
var allShards = []string{
	"pgjournal/claimable", "pgjournal/list", "pgjournal/owners", "pgjournal/stats", "pgjournal/sweep",
}

// Reasons why a statement may break a rule. None may hold for a new statement that was not tried on
// a Citus: TestDistributed runs the suites there.
const (
	savesRoundTrip = "the settings of a single write travel inside it: a statement of their own costs each request one"
	oneBatch       = "the rows of a batch are locked and changed in one statement"
	oneFlush       = "the writes of a flush are one statement, whatever their keys"
	oneStep        = "the record and what belongs to it change in one round trip"
	oneNode        = "one saga is named by its ID, and its node has all leases: that node carries out the whole statement"
	readsClock     = "the clock is read behind the write, in a select of its own"
	onEachNode     = "the table of leases is on every node, and is not distributed"
)

// breaches are the statements that break a rule, and why. Remove the line with the breach.
var breaches = map[string]map[string]string{
	"pgjournal/append_results": {ruleUnnest: oneStep},
	"pgjournal/change":         {ruleWriteCTE: oneStep, ruleUnnest: oneStep},
	"pgjournal/claim":          {ruleVolatile: readsClock, ruleLocks: oneNode, ruleUnnest: oneNode, ruleWriteCTE: oneNode},
	"pgjournal/end_leases":     {ruleUnnest: onEachNode},
	"pgjournal/sweep":          {ruleWriteCTE: oneBatch},
	"pgjournal/wake":           {ruleWriteCTE: oneStep},
}

// A statement that breaks a rule is refused, unless it is listed with a reason. So is a line of
// the list that no statement needs any more.
func TestSQL_rules(t *testing.T) {
	t.Parallel()
	found := make(map[string]map[string]string)
	for component, dir := range map[string]string{"pgjournal": "../../saga/pgjournal"} {
		for _, file := range statementFiles(t, dir) {
			text, err := pgkit.DistributedText(os.DirFS(dir), "query/"+file)
			require.NoError(t, err)
			name := component + "/" + strings.TrimSuffix(file, ".sql")
			for _, rule := range broken(name, text) {
				if found[name] == nil {
					found[name] = make(map[string]string)
				}
				found[name][rule] = breaches[name][rule]
				if breaches[name][rule] == "" {
					t.Errorf("%s breaks the rule: %s", name, rule)
				}
			}
		}
	}
	for name, rules := range breaches {
		for rule := range rules {
			if _, ok := found[name][rule]; !ok {
				t.Errorf("%s does not break the rule any more: %s. Take the line out of breaches", name, rule)
			}
		}
	}
}

// statementFiles returns the names of the files in query and in query/distributed.
func statementFiles(t *testing.T, dir string) []string {
	t.Helper()
	names := make(map[string]bool)
	for _, pattern := range []string{"/query/*.sql", "/query/distributed/*.sql"} {
		files, err := filepath.Glob(dir + pattern)
		require.NoError(t, err)
		for _, file := range files {
			names[filepath.Base(file)] = true
		}
	}
	require.Greater(t, len(names), 20, dir)
	return slices.Sorted(maps.Keys(names))
}

// broken returns the rules that a statement breaks.
func broken(name, text string) (rules []string) {
	sql := strings.ToLower(sqlComments.ReplaceAllString(text, ""))
	for _, rule := range slices.Sorted(maps.Keys(sqlRules)) {
		if sqlRules[rule](sql) && (rule != ruleKey || !slices.Contains(allShards, name)) {
			rules = append(rules, rule)
		}
	}
	return rules
}

// Each rule finds its breaches, and finds none in a statement that keeps to all rules.
func TestSQL_rulesFind(t *testing.T) {
	t.Parallel()
	for rule, sql := range map[string]string{
		ruleVolatile: "update /*schema*/idempotency set lease_until = clock_timestamp() where key = @key",
		ruleNotify:   "delete from /*schema*/idempotency where key = @key returning pg_notify('c', key::text)",
		ruleWriteCTE: "with gone as ( delete from /*schema*/idempotency where key = @key returning key ) select count(*) from gone",
		ruleLocks:    "select from /*schema*/idempotency where key = @key for update skip locked",
		ruleUnnest:   "select from unnest(@keys::uuid[]) k join /*schema*/idempotency i on i.key = k.key",
		ruleKey:      "update /*schema*/idempotency set state = 3 where fence = @fence",
		ruleCase:     "update /*schema*/saga i set ended = coalesce(i.ended, statement_timestamp()) where i.id = @id",
		ruleUpsert:   "insert into /*schema*/saga_engine as e (id) values (@id) on conflict (id) do update set lease_until = statement_timestamp()",
	} {
		require.Equal(t, []string{rule}, broken("new", sql))
	}
	for _, sql := range []string{
		"update /*schema*/idempotency set lease_until = statement_timestamp() where key = @key returning key -- not clock_timestamp()",
		"insert into /*schema*/idempotency (key, token) values (@key, @token) on conflict (key) do nothing returning key",
		"select state, clock_timestamp() from /*schema*/idempotency where key = @key for update",
		"select set_config('lock_timeout', @lock_timeout, true)",
		"update /*schema*/saga i set ended = case when @ends then statement_timestamp() end where i.id = @id",
		"insert into /*schema*/saga_engine as e (id) values (@id) on conflict (id) do update set lease_until = excluded.lease_until",
	} {
		require.Empty(t, broken("new", sql), sql)
	}
	require.Equal(t, []string{ruleLocks}, broken("new", "select from /*schema*/idempotency where key = any (@keys) for update"))
}
