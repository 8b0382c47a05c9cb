package pgkittest

import (
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The rules for statements that are sent to tables that Citus distributes by a key. Citus refuses
// what breaks one of them, or sends it to all shards, or carries it out on one server alone.
const (
	RuleVolatile = "a statement that writes calls no volatile function"
	RuleTime     = "CASE, COALESCE and RETURNING in a write call no function of the time"
	RuleCase     = "a write has no CASE that compares one value: Citus sends it to the workers as another expression"
	RuleUpsert   = "a DO UPDATE calls no function"
	RuleNotify   = "a notification is a statement of its own"
	RuleWriteCTE = "a CTE writes the rows of one key, and each table in it names the key"
	RuleLocks    = "a row is locked by its key, and none is skipped"
	RuleUnnest   = "unnest stands beside a list of the keys, and feeds no INSERT"
	RuleKey      = "a statement on a distributed table names the key"
)

// SQLRules says which statements the rules are for. Its zero value has none.
type SQLRules struct {
	Files fs.FS // has the folder query
	// Text returns the statement in a file in its form for distributed tables, as pgkit.DistributedText does.
	Text func(files fs.FS, file string) (string, error)
	// Tables are the distributed tables, and Key is the column that they are distributed by, and
	// the name of the argument for it: a regular expression, where the tables differ. Keys is the
	// name of an argument for several.
	Tables    []string
	Key, Keys string
	// AllShards are statements that may go to all shards: no request sends them.
	AllShards []string
	// Elsewhere are statements that distributed tables never get, and the reason.
	Elsewhere map[string]string
	// Breaches are the statements that break a rule, and by rule the reason. A reason must not hold
	// for a new statement that was not tried on a Citus.
	Breaches map[string]map[string]string
}

// Require holds each statement in query, in its form for distributed tables, to the rules.
func (s SQLRules) Require(tb testing.TB) {
	tb.Helper()
	files, err := fs.Glob(s.Files, "query/*.sql")
	more, moreErr := fs.Glob(s.Files, "query/distributed/*.sql")
	if err != nil || moreErr != nil || len(files) < 20 {
		tb.Fatalf("%d statements: %v, %v", len(files), err, moreErr)
	}
	seen := make(map[string]bool)
	for _, file := range append(files, more...) {
		name := strings.TrimSuffix(path.Base(file), ".sql")
		if seen[name] {
			continue
		}
		seen[name] = true
		file = "query/" + name + ".sql"
		text, err := s.Text(s.Files, file)
		if err != nil {
			tb.Error(err)
		}
		broken := s.Broken(name, text)
		if reason, ok := s.Elsewhere[name]; !ok {
			s.compare(tb, name, broken)
		} else if len(broken) == 0 {
			tb.Errorf("%s keeps all rules: it need not be left out because %s", name, reason)
		}
	}
	for _, name := range slices.Concat(s.AllShards, slices.Collect(maps.Keys(s.Elsewhere)), slices.Collect(maps.Keys(s.Breaches))) {
		if !seen[name] {
			tb.Errorf("there is no statement %s", name)
		}
	}
}

// compare reports the broken rules of a statement that have no reason, and the reasons without a broken rule.
func (s SQLRules) compare(tb testing.TB, name string, broken []string) {
	tb.Helper()
	for _, rule := range broken {
		if s.Breaches[name][rule] == "" {
			tb.Errorf("%s breaks the rule: %s", name, rule)
		}
	}
	for rule := range s.Breaches[name] {
		if !slices.Contains(broken, rule) {
			tb.Errorf("%s does not break the rule any more: %s. Take it out of Breaches", name, rule)
		}
	}
}

var (
	sqlComments  = regexp.MustCompile(`(?m)--.*$`)
	sqlWrites    = regexp.MustCompile(`\b(insert into|update /|delete from)`)
	sqlVolatile  = regexp.MustCompile(`\b(clock_timestamp|timeofday|random|gen_random_uuid|set_config|nextval|pg_advisory\w*)\(`)
	sqlTime      = `\b(statement_timestamp|now|transaction_timestamp)\(`
	sqlTimes     = regexp.MustCompile(sqlTime)
	sqlCase      = regexp.MustCompile(`(?s)\bcase\b.*?\bend\b`)
	sqlValueCase = regexp.MustCompile(`\bcase\s+([^w\s]|w[^h])`)
	sqlCoalesce  = regexp.MustCompile(`\bcoalesce\([^()]*` + sqlTime)
	sqlReturning = regexp.MustCompile(`\breturning\b[^)]*` + sqlTime)
	sqlUpsert    = regexp.MustCompile(`(?s)\bdo update\s+set\b.*\(`)
	sqlWriteCTE  = regexp.MustCompile(`\bas (materialized )?\(\s*(insert|update|delete)\b`)
	sqlRowLock   = regexp.MustCompile(`\bfor (no key )?update\b`)
)

// Broken returns the rules that a statement breaks, in the order of their text.
func (s SQLRules) Broken(name, text string) (rules []string) {
	sql := strings.ToLower(sqlComments.ReplaceAllString(text, ""))
	writes := sqlWrites.MatchString(sql)
	check := func(rule string, broken bool) {
		if broken {
			rules = append(rules, rule)
		}
	}
	check(RuleVolatile, writes && sqlVolatile.MatchString(sql))
	check(RuleTime, writes && s.needsServerTime(sql))
	check(RuleCase, writes && sqlValueCase.MatchString(sql))
	check(RuleUpsert, sqlUpsert.MatchString(sql))
	check(RuleNotify, writes && strings.Contains(sql, "pg_notify("))
	check(RuleWriteCTE, sqlWriteCTE.MatchString(sql) && !s.eachNames(sql))
	check(RuleLocks, strings.Contains(sql, "skip locked") || (sqlRowLock.MatchString(sql) && !s.byOne().MatchString(sql)))
	check(RuleUnnest, strings.Contains(sql, "unnest(") && !s.byMany().MatchString(sql))
	check(RuleKey, s.onTable().MatchString(sql) && !s.insertsKey().MatchString(sql) && !s.byOne().MatchString(sql) &&
		!s.byMany().MatchString(sql) && !slices.Contains(s.AllShards, name))
	slices.Sort(rules)
	return rules
}

// needsServerTime reports whether the time is asked for where Citus would have each server answer. In the values
// of one row it is not: the coordinator has worked them out before it sends them.
func (s SQLRules) needsServerTime(sql string) bool {
	inCase := !strings.Contains(sql, "values (") && slices.ContainsFunc(sqlCase.FindAllString(sql, -1), sqlTimes.MatchString)
	return inCase || sqlCoalesce.MatchString(sql) || sqlReturning.MatchString(sql)
}

func (s SQLRules) tables() string {
	return `/\*schema\*/(` + strings.Join(s.Tables, "|") + `)\b`
}

func (s SQLRules) onTable() *regexp.Regexp { return regexp.MustCompile(s.tables()) }

func (s SQLRules) insertsKey() *regexp.Regexp {
	return regexp.MustCompile(`insert into ` + s.tables() + `( as \w+)? \(([^)]*\b)?(` + s.Key + `)\b`)
}

func (s SQLRules) byOne() *regexp.Regexp {
	return regexp.MustCompile(`\b(\w+\.)?(` + s.Key + `) = @(` + s.Key + `)\b`)
}

func (s SQLRules) byMany() *regexp.Regexp {
	return regexp.MustCompile(`\b(\w+\.)?(` + s.Key + `) = any \(@` + s.Keys + `\b`)
}

// eachNames reports whether each UPDATE and DELETE of a statement with a CTE that writes names its key
// or keys. An INSERT names the key among its columns.
func (s SQLRules) eachNames(sql string) bool {
	changes := len(regexp.MustCompile(`(update|delete from) `+s.tables()).FindAllString(sql, -1))
	named := len(s.byOne().FindAllString(sql, -1)) + len(s.byMany().FindAllString(sql, -1))
	inserts := len(regexp.MustCompile(`insert into `+s.tables()).FindAllString(sql, -1))
	return named >= changes && len(s.insertsKey().FindAllString(sql, -1)) == inserts
}
