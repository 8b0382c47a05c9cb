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
)

var sqlRules = map[string]func(sql string) bool{
	ruleVolatile: func(sql string) bool { return writes.MatchString(sql) && volatile.MatchString(sql) },
	ruleNotify:   func(sql string) bool { return writes.MatchString(sql) && strings.Contains(sql, "pg_notify(") },
	ruleWriteCTE: func(sql string) bool { return writeCTE.MatchString(sql) },
	ruleLocks: func(sql string) bool {
		return strings.Contains(sql, "skip locked") || (rowLock.MatchString(sql) && !byOneKey.MatchString(sql))
	},
	ruleUnnest: func(sql string) bool { return strings.Contains(sql, "unnest(") },
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
	namesKey    = regexp.MustCompile(`\b(\w+\.)?(key|id) = (@(key|id)\b|any \(@|\w+\.(key|id)\b)`)
)

// allShards are statements that may go to all shards: no request sends them.
var allShards = []string{
	"pgstore/channel", "pgstore/notify", "pgstore/drop_answers", "pgstore/list", "pgstore/list_opaque", "pgstore/list_children", "pgstore/list_attention",
	"pgstore/count_attention", "pgstore/sweep_attention", "pgstore/find_attention", "pgstore/size", "pgstore/stats", "pgstore/sweep",
	"pgjournal/list", "pgjournal/stats", "pgjournal/sweep", "pgjournal/sweep_engines", "pgjournal/claim",
}

// Reasons why a statement may break a rule for now. None may hold for a new statement.
const (
	savesRoundTrip = "the settings of a single write travel inside it: a statement of their own costs each request one"
	wakesWaiters   = "the notification hangs on the flag that the settlement reads: a statement of its own costs each settlement one"
	oneBatch       = "the rows of a batch are locked and changed in one statement"
	oneFlush       = "the writes of a flush are one statement, whatever their keys"
	oneStep        = "the record and what belongs to it change in one round trip"
	eachByIndex    = "each plan, status or engine is looked up by an index of its own, whatever the statistics say"
	engineTime     = "an engine's lease goes by the clock: a claim that waited must not take a saga from a living engine"
)

// breaches are the statements that break a rule, and why. Remove the line with the breach.
var breaches = map[string]map[string]string{
	"pgjournal/append":                {ruleVolatile: savesRoundTrip},
	"pgjournal/append_results":        {ruleUnnest: oneStep},
	"pgjournal/beat":                  {ruleVolatile: engineTime},
	"pgjournal/change":                {ruleVolatile: savesRoundTrip, ruleWriteCTE: oneStep, ruleUnnest: oneStep},
	"pgjournal/claim":                 {ruleVolatile: engineTime, ruleLocks: oneBatch, ruleUnnest: oneBatch},
	"pgjournal/claimable":             {ruleUnnest: eachByIndex},
	"pgjournal/compact":               {ruleVolatile: savesRoundTrip},
	"pgjournal/park":                  {ruleVolatile: savesRoundTrip},
	"pgjournal/start":                 {ruleVolatile: savesRoundTrip},
	"pgjournal/stats":                 {ruleUnnest: eachByIndex},
	"pgjournal/sweep":                 {ruleWriteCTE: oneBatch, ruleLocks: oneBatch, ruleUnnest: eachByIndex},
	"pgjournal/sweep_engines":         {ruleWriteCTE: oneBatch},
	"pgjournal/wake":                  {ruleVolatile: savesRoundTrip, ruleWriteCTE: oneStep},
	"pgstore/quarantine":              {ruleVolatile: savesRoundTrip},
	"pgstore/claim":                   {ruleVolatile: savesRoundTrip},
	"pgstore/claim_many":              {ruleUnnest: oneFlush},
	"pgstore/claim_many_alike":        {ruleUnnest: oneFlush},
	"pgstore/claim_many_contended":    {ruleUnnest: oneFlush},
	"pgstore/defer":                   {ruleVolatile: savesRoundTrip},
	"pgstore/drop_answers":            {ruleVolatile: savesRoundTrip, ruleWriteCTE: oneBatch, ruleLocks: oneBatch},
	"pgstore/ended":                   {ruleUnnest: oneBatch},
	"pgstore/expect":                  {ruleVolatile: savesRoundTrip, ruleWriteCTE: oneBatch, ruleLocks: oneBatch, ruleUnnest: oneBatch},
	"pgstore/forget":                  {ruleVolatile: savesRoundTrip, ruleWriteCTE: oneStep},
	"pgstore/intent_begin":            {ruleVolatile: savesRoundTrip},
	"pgstore/intents_sweep":           {ruleLocks: oneBatch},
	"pgstore/read_many":               {ruleUnnest: oneBatch},
	"pgstore/read_many_partitioned":   {ruleUnnest: oneBatch},
	"pgstore/resolve":                 {ruleVolatile: savesRoundTrip, ruleWriteCTE: oneStep},
	"pgstore/settle":                  {ruleVolatile: savesRoundTrip, ruleNotify: wakesWaiters},
	"pgstore/settle_many":             {ruleNotify: wakesWaiters, ruleUnnest: oneFlush},
	"pgstore/settle_many_alike":       {ruleNotify: wakesWaiters, ruleUnnest: oneFlush},
	"pgstore/settle_many_partitioned": {ruleNotify: wakesWaiters, ruleUnnest: oneFlush, ruleWriteCTE: oneStep},
	"pgstore/settle_partitioned":      {ruleVolatile: savesRoundTrip, ruleNotify: wakesWaiters, ruleWriteCTE: oneStep},
	"pgstore/settle_tx":               {ruleVolatile: savesRoundTrip, ruleNotify: wakesWaiters, ruleWriteCTE: oneStep},
	"pgstore/settle_tx_partitioned":   {ruleVolatile: savesRoundTrip, ruleNotify: wakesWaiters, ruleWriteCTE: oneStep},
	"pgstore/sweep":                   {ruleVolatile: savesRoundTrip, ruleWriteCTE: oneBatch, ruleLocks: oneBatch},
	"pgstore/take_over":               {ruleVolatile: savesRoundTrip},
}

// A statement that breaks a rule is refused, unless it is listed with a reason. So is a line of
// the list that no statement needs any more.
func TestSQL_rules(t *testing.T) {
	t.Parallel()
	found := make(map[string]map[string]string)
	for component, dir := range map[string]string{"pgstore": "../../server/pgstore/query", "pgjournal": "../../saga/pgjournal/query"} {
		files, err := filepath.Glob(dir + "/*.sql")
		require.NoError(t, err)
		require.Greater(t, len(files), 20, dir)
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			name := component + "/" + strings.TrimSuffix(filepath.Base(file), ".sql")
			for _, rule := range broken(name, string(text)) {
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
	} {
		require.Equal(t, []string{rule}, broken("new", sql))
	}
	for _, sql := range []string{
		"update /*schema*/idempotency set lease_until = statement_timestamp() where key = @key returning key -- not clock_timestamp()",
		"insert into /*schema*/idempotency (key, token) values (@key, @token) on conflict (key) do nothing returning key",
		"select state, clock_timestamp() from /*schema*/idempotency where key = @key for update",
		"select set_config('lock_timeout', @lock_timeout, true)",
	} {
		require.Empty(t, broken("new", sql), sql)
	}
	require.Equal(t, []string{ruleLocks}, broken("new", "select from /*schema*/idempotency where key = any (@keys) for update"))
}
