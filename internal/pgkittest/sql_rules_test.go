package pgkittest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/internal/pgkittest"
)

// Each rule finds its breaches, and finds none in a statement that keeps to all rules.
func TestSQLRules(t *testing.T) {
	t.Parallel()
	rules := pgkittest.SQLRules{Tables: []string{"item", "item_log"}, Key: "key", Keys: "keys", AllShards: []string{"stats"}}
	for _, tt := range []struct{ rule, sql string }{
		{pgkittest.RuleVolatile, "update /*schema*/item set until = clock_timestamp() where key = @key"},
		{pgkittest.RuleVolatile, "insert into /*schema*/item (key) select @key from (select set_config('lock_timeout', '1', true)) s"},
		{pgkittest.RuleTime, "update /*schema*/item set until = case when state = 1 then statement_timestamp() end where key = @key"},
		{pgkittest.RuleTime, "update /*schema*/item set until = coalesce(until, statement_timestamp()) where key = @key"},
		{pgkittest.RuleTime, "update /*schema*/item set state = 1 where key = @key returning key, statement_timestamp() as now"},
		{pgkittest.RuleCase, "update /*schema*/item set tries = case state when 1 then 1 else 0 end where key = @key"},
		{pgkittest.RuleUpsert, "insert into /*schema*/item as e (key) values (@key) on conflict (key) do update set until = statement_timestamp()"},
		{pgkittest.RuleNotify, "delete from /*schema*/item where key = @key returning pg_notify('c', key::text)"},
		{pgkittest.RuleWriteCTE, "with gone as ( delete from /*schema*/item where key = @key returning key ) delete from /*schema*/item_log l using gone where l.key = gone.key"},
		{pgkittest.RuleLocks, "select from /*schema*/item where key = @key for update skip locked"},
		{pgkittest.RuleLocks, "select from /*schema*/item where key = any (@keys) for update"},
		{pgkittest.RuleUnnest, "insert into /*schema*/item (key) select k.key from (select unnest(@names::uuid[]) as key) k"},
		{pgkittest.RuleUnnest, "select from unnest(@names::text[]) k join /*schema*/item i on i.name = k.name where i.key = @key"},
		{pgkittest.RuleKey, "update /*schema*/item set state = 3 where fence = @fence"},
		{pgkittest.RuleKey, "insert into /*schema*/item (token) values (@token)"},
	} {
		require.Equal(t, []string{tt.rule}, rules.Broken("new", tt.sql), tt.sql)
	}
	for _, sql := range []string{
		"update /*schema*/item set until = statement_timestamp() where key = @key returning key -- not clock_timestamp()",
		"insert into /*schema*/item (key, token) values (@key, @token) on conflict (key) do nothing returning key",
		"insert into /*schema*/item as e (key) values (@key) on conflict (key) do update set until = excluded.until",
		"update /*schema*/item i set state = o.state from (select unnest(@keys::uuid[]) as key) o where i.key = o.key and i.key = any (@keys)",
		"with done as ( update /*schema*/item set state = 3 where key = @key returning key ) insert into /*schema*/item_log (verb, key) select 'x', key from done",
		"select state, clock_timestamp() from /*schema*/item where key = @key for update",
		"select set_config('lock_timeout', @lock_timeout, true)",
	} {
		require.Empty(t, rules.Broken("new", sql), sql)
	}
	require.Empty(t, rules.Broken("stats", "select count(*) from /*schema*/item"))
}
