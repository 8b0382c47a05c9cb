package main

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

func identifier(name string) string { return pgx.Identifier{name}.Sanitize() }

// upCommand is what brings the tables of a component to this program's version.
func (p *patient) upCommand(c *component) string {
	command := "fanonce migrate up --component " + c.name
	if p.schema != "" {
		command += " --schema " + p.schema
	}
	return command
}

func checkSchema(ctx context.Context, p *patient) ([]finding, error) {
	var out []finding
	some := false
	for _, c := range components {
		v, err := p.version(ctx, p.db, &c)
		if err != nil {
			return out, err
		}
		some = some || v.have > 0
		wanted := slices.ContainsFunc(p.wanted, func(w component) bool { return w.name == c.name })
		switch v.state() {
		case stateMissing:
			if wanted {
				out = append(out, found("schema-missing", c.name, "there are no tables of "+c.name, p.upCommand(&c)))
			}
		case stateOld:
			out = append(out, found("schema-old", c.name,
				fmt.Sprintf("the tables of %s have version %d, and this program wants %d", c.name, v.have, v.want), p.upCommand(&c)))
		case stateNewer:
			out = append(out, found("schema-newer", c.name,
				fmt.Sprintf("the tables of %s have version %d, which asks for programs of at least %d; this one knows %d", c.name, v.have, v.oldest, v.want),
				"deploy the version of the library that migrated, and use its fanonce"))
		}
	}
	if !some && len(p.wanted) == 0 {
		out = append(out, found("schema-missing", "", "there are no tables of keys or sagas", "fanonce migrate up --component keys"))
	}
	return out, nil
}

// checkSearchPath looks for the tables in other schemas than the one that the service finds.
func checkSearchPath(ctx context.Context, p *patient) ([]finding, error) {
	if p.schema != "" {
		return nil, nil // the person has named it
	}
	s, err := p.settings(ctx, "search_path")
	if err != nil {
		return nil, err
	}
	path := strings.NewReplacer(`"`, "", " ", "", "$user", p.role).Replace(s["search_path"])
	var out []finding
	for _, c := range components {
		rows, err := p.db.Query(ctx, `select n.nspname, case when $2 then n.nspname = any (string_to_array($3, ',')) else pg_table_is_visible(c.oid) end
			from pg_class c join pg_namespace n on n.oid = c.relnamespace
			where c.relname = $1 and c.relkind = 'r' and n.nspname !~ '^pg_' order by 2 desc, 1`, c.prefix+"_version", p.other, path)
		if err != nil {
			return out, err
		}
		var schemas []string
		var schema string
		var visible, seen bool
		_, err = pgx.ForEachRow(rows, []any{&schema, &visible}, func() error {
			schemas, seen = append(schemas, schema), seen || visible
			return nil
		})
		switch {
		case err != nil:
			return out, err
		case len(schemas) > 0 && !seen:
			out = append(out, found("schema-elsewhere", c.name,
				fmt.Sprintf("the tables of %s are in %s, which is not in the search_path", c.name, strings.Join(schemas, " and ")),
				fmt.Sprintf("alter role %s set search_path = %s; or give Config.Schema, and fanonce --schema %s", identifier(p.role), identifier(schemas[0]), schemas[0])))
		case len(schemas) > 1:
			out = append(out, found("schema-twice", c.name,
				fmt.Sprintf("the tables of %s are in the schemas %s; this session finds those in %s", c.name, strings.Join(schemas, ", "), schemas[0]),
				"name the schema in every service (Config.Schema), and drop the tables that none uses"))
		}
	}
	return out, nil
}

func checkIndexes(ctx context.Context, p *patient) ([]finding, error) {
	var out []finding
	for _, c := range p.tables {
		indexes, err := c.relations("index", 1<<20)
		if err != nil {
			return out, err
		}
		for _, index := range indexes {
			var exists bool
			if err := p.db.QueryRow(ctx, "select to_regclass($1) is not null", qualify(p.schema, index)).Scan(&exists); err != nil {
				return out, err
			}
			if !exists {
				out = append(out, found("index-missing", index, "the index "+index+" of "+c.name+" is not there",
					"find its statement: fanonce migrate print --component "+c.name+"; run it with create index concurrently"))
			}
		}
	}
	invalid, err := p.texts(ctx, `select i.indexrelid::regclass::text from pg_index i
		where not (i.indisvalid and i.indisready) and i.indrelid = any ($1::text[]::regclass[])`, p.names())
	for _, index := range invalid {
		out = append(out, found("index-invalid", index, "the index "+index+" is invalid: its creation was interrupted or failed",
			"reindex index concurrently "+index+";"))
	}
	return out, err
}

// A grant is one right that a service needs.
type grant struct{ privilege, table, column string }

var (
	granted   = regexp.MustCompile(`(?s)\ngrant ([^;]+?) on (\w+(?:, \w+)*) to ([^;]+);`)
	privilege = regexp.MustCompile(`(?s)(\w+)(?:\s*\(([^)]*)\))?`)
)

// needs returns the rights that the component's SQL gives to the role of services.
func (c *component) needs() []grant {
	var out []grant
	for _, g := range granted.FindAllStringSubmatch(c.roles, -1) {
		if !strings.Contains(g[3], "fanonce_runtime") {
			continue
		}
		for _, table := range strings.Split(g[2], ", ") {
			for _, right := range privilege.FindAllStringSubmatch(g[1], -1) {
				if right[2] == "" {
					out = append(out, grant{right[1], table, ""})
					continue
				}
				for _, column := range strings.Split(right[2], ",") {
					out = append(out, grant{right[1], table, strings.TrimSpace(column)})
				}
			}
		}
	}
	return out
}

func checkGrants(ctx context.Context, p *patient) ([]finding, error) {
	var out []finding
	for _, c := range p.tables {
		var tables, columns, rights []string
		for _, g := range c.needs() {
			tables, columns, rights = append(tables, qualify(p.schema, g.table)), append(columns, g.column), append(rights, g.privilege)
		}
		missing, err := p.texts(ctx, `select distinct n.t || ': ' || n.r || case n.c when '' then '' else ' of ' || n.c end
			from unnest($2::text[], $3::text[], $4::text[]) n (t, c, r)
			where not case n.c when '' then has_table_privilege($1::name, n.t, n.r)
				else has_column_privilege($1::name, n.t, n.c, n.r) end order by 1`, p.role, tables, columns, rights)
		if err != nil {
			return out, err
		}
		if len(missing) > 0 {
			fix := "grant fanonce_runtime to " + identifier(p.role) + "; -- fanonce migrate print --component " + c.name + " --roles makes that role"
			out = append(out, found("grant-missing", c.name, "the role "+p.role+" lacks "+strings.Join(missing, "; "), fix))
		}
	}
	if p.other {
		var super bool
		if err := p.db.QueryRow(ctx, "select rolsuper from pg_roles where rolname = $1", p.role).Scan(&super); err != nil {
			return out, err
		}
		if super {
			out = append(out, found("role-superuser", p.role, "the role "+p.role+" is a superuser",
				"alter role "+identifier(p.role)+" nosuperuser; grant fanonce_runtime to "+identifier(p.role)+";"))
		}
	}
	return out, nil
}

// The severities of findings.
const (
	severityError   = "error"   // something is lost, or does not work, now or at the next crash
	severityWarning = "warning" // something will go wrong, or waits for a person
)

// A disease is one kind of finding. Its ID never changes: scripts know it.
type disease struct {
	id, severity, why string
}

var diseases = []disease{
	{"schema-missing", severityError, "no guard or engine can start without its tables"},
	{"schema-old", severityError, "this version of the library refuses tables that are older than it"},
	{"schema-newer", severityError, "programs of this version cannot use the tables any more"},
	{"schema-elsewhere", severityError, "the tables are there, but the service's search_path does not find them"},
	{"schema-twice", severityWarning, "two services with different search_paths use different tables: the same key runs once in each"},
	{"index-missing", severityError, "a statement that runs all the time reads the whole table without it"},
	{"index-invalid", severityError, "Postgres does not use the index, and every write still pays for it"},
	{"grant-missing", severityError, "the service's statements fail: calls get 503 store-unavailable"},
	{"role-superuser", severityWarning, "a service that is taken over then owns the whole server; fanonce_runtime has all that it needs"},
	{"fsync-off", severityError, "a crash of the machine can forget claims and answers that were acknowledged, or break the tables"},
	{"full-page-writes-off", severityError, "a crash of the machine can leave half-written pages, which no recovery mends"},
	{"synchronous-commit-off", severityError, "a crash forgets the last acknowledged answers: a retry then runs the work again"},
	{"synchronous-commit-local", severityWarning, "commits do not wait for the synchronous standby: a failover forgets acknowledged answers"},
	{"read-only", severityError, "no key can be claimed: calls get 503 not-claimed"},
	{"standby-server", severityError, "this server is a standby, and takes no writes"},
	{"standby-asynchronous", severityWarning, "a failover to this standby can forget acknowledged answers: a retry then runs the work again"},
	{"standby-lagging", severityWarning, "a failover takes as long as the standby needs to catch up, and reads from it are old"},
	{"standby-sync-missing", severityError, "every commit waits for a standby that is not there: all calls hang"},
	{"pooler-transaction", severityWarning, "LISTEN, the maintenance of partitions and prepared statements need a session, and lose it here"},
	{"clock-skew", severityWarning, "callers' First-Sent times are compared with the database's clock: keys can be refused as expired or from the future"},
	{"autovacuum-off", severityError, "dead rows pile up until every statement is slow, and transaction numbers run out"},
	{"autovacuum-off-table", severityWarning, "dead rows of this table pile up until every statement on it is slow"},
	{"dead-rows", severityWarning, "vacuum does not keep up: statements read rows that are gone"},
	{"index-bloat", severityWarning, "the index is much larger than its rows need: it takes memory from others"},
	{"wraparound", severityWarning, "the server stops taking writes when transaction numbers run out, at an age of two thousand million"},
	{"partitions-behind", severityWarning, "answers that find no partition go to their records, and are not dropped as cheaply"},
	{"partitions-default", severityError, "beside a default partition no other can be detached: answers past their time are not dropped"},
	{"sweep-lag", severityWarning, "nothing sweeps, or the sweep is too slow: tables grow, and data is kept longer than promised"},
	{"jit-short", severityWarning, "the server compiles statements that take a millisecond: that takes longer than the statement"},
	{"connections-low", severityWarning, "new connections are refused when none is left: calls get 503 not-claimed"},
	{"transaction-long", severityWarning, "vacuum removes no row that ended after this transaction began, and the sweep passes over rows that it holds"},
	{"transaction-prepared", severityWarning, "nobody ends a forgotten prepared transaction: it holds its locks and blocks vacuum for ever"},
	{"slot-inactive", severityWarning, "the server keeps all log since the slot stopped, until the disk is full, and may keep dead rows"},
	{"idle-in-transaction-unbounded", severityWarning, "a process that hangs inside a transaction holds its locks, and blocks vacuum, for ever"},
	{"keys-attention", severityWarning, "these keys wait for a person: their callers get 423, or the message is a dead letter"},
	{"sagas-stuck", severityWarning, "these sagas wait for a person: they neither finish nor undo what they did"},
	{"sagas-no-engine", severityError, "sagas are due, and no engine with a lease is there to run them"},
	{"sagas-deferred", severityWarning, "these sagas have a part that the running builds do not know: they wait for another build"},
	{"unchecked", severityWarning, "a check that could not run may hide any of the findings that it looks for"},
}

func diseaseIDs() []string {
	ids := make([]string, len(diseases))
	for i, d := range diseases {
		ids[i] = d.id
	}
	return ids
}

// A finding is one thing that is wrong. It is part of the JSON of doctor.
type finding struct {
	ID       string   `json:"id"`
	Severity string   `json:"severity"`
	Subject  string   `json:"subject,omitempty"` // which table, role, session …; "" for the server
	Problem  string   `json:"problem"`
	Why      string   `json:"why"`
	Fix      []string `json:"fix"` // what to type, or what to do
}

// found makes a finding of the disease with that ID.
func found(id, subject, problem string, fix ...string) finding {
	d := diseases[slices.IndexFunc(diseases, func(d disease) bool { return d.id == id })]
	return finding{ID: id, Severity: d.severity, Subject: subject, Problem: problem, Why: d.why, Fix: fix}
}
