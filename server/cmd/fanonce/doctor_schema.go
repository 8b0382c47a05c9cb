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

// checkSearchPath looks for the tables in other schemas than the one that the session finds.
func checkSearchPath(ctx context.Context, p *patient) ([]finding, error) {
	if p.schema != "" {
		return nil, nil // the person has named it
	}
	var out []finding
	for _, c := range components {
		rows, err := p.db.Query(ctx, `select n.nspname, pg_table_is_visible(c.oid)
			from pg_class c join pg_namespace n on n.oid = c.relnamespace
			where c.relname = $1 and c.relkind = 'r' and n.nspname !~ '^pg_' order by 2 desc, 1`, c.prefix+"_version")
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
