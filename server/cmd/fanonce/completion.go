package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/server/store"
)

// A person who presses Tab waits for the database, but only so long, and gets only so many suggestions.
const (
	completionTimeout = 2 * time.Second
	completionMost    = 50
)

// A suggester finds what a word can be, from the database. It reads only what an index finds at once.
type suggester func(ctx context.Context, a *app) ([]cobra.Completion, error)

// completes makes a completion of a suggester. It suggests nothing if the database does not answer.
func (a *app) completes(find suggester, most int) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if most > 0 && len(args) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		a.timeout = min(a.timeout, completionTimeout)
		if a.check() != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := a.bound(cmd.Context())
		defer cancel()
		found, err := find(ctx, a)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return slices.DeleteFunc(found, func(c cobra.Completion) bool {
				word, _, _ := strings.Cut(c, "\t") // without its description
				return slices.Contains(args, word)
			}),
			cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}

// attentive returns the keys that need a person.
func (a *app) attentive(ctx context.Context) ([]store.Record, error) {
	r, err := a.keyReader(ctx)
	if err != nil {
		return nil, err
	}
	return r.List(ctx, store.ListRequest{States: []store.State{store.StateUnknown, store.StateQuarantined}, Limit: completionMost})
}

func suggestKeys(ctx context.Context, a *app) ([]cobra.Completion, error) {
	records, err := a.attentive(ctx)
	var out []cobra.Completion
	for _, r := range records {
		out = append(out, cobra.CompletionWithDesc(r.ID.String(), printable(fmt.Sprintf("%s %s %s", r.State, r.Route, ago(r.Now.Sub(r.CreatedAt))))))
	}
	return out, err
}

func suggestRoutes(ctx context.Context, a *app) ([]cobra.Completion, error) {
	records, err := a.attentive(ctx)
	var out []cobra.Completion
	for _, r := range records {
		if route := printable(r.Route); route == r.Route && route != "" && !slices.Contains(out, route) {
			out = append(out, route)
		}
	}
	return out, err
}

// suggestSagas suggests unfinished sagas, the stuck ones first.
func suggestSagas(ctx context.Context, a *app) ([]cobra.Completion, error) {
	o, j, err := a.operator(ctx)
	if err != nil {
		return nil, err
	}
	defer j.Close()
	var out []cobra.Completion
	for _, status := range []journal.Status{journal.Stuck, journal.Compensating, journal.Running} {
		records, err := o.List(ctx, journal.ListRequest{Statuses: []journal.Status{status}, Limit: completionMost})
		if err != nil {
			return nil, err
		}
		for _, r := range records {
			out = append(out, cobra.CompletionWithDesc(r.ID.String(), printable(fmt.Sprintf("%s %s %s", r.Status, r.Name, ago(r.Now.Sub(r.CreatedAt))))))
		}
	}
	return out, nil
}

// suggestRoles suggests roles that can connect.
func suggestRoles(ctx context.Context, a *app) ([]cobra.Completion, error) {
	return a.suggestNames(ctx, "select rolname from pg_roles where rolcanlogin and rolname !~ '^pg_' order by 1 limit $1")
}

// suggestSchemas suggests schemas that have tables of a component.
func suggestSchemas(ctx context.Context, a *app) ([]cobra.Completion, error) {
	return a.suggestNames(ctx, `select distinct n.nspname from pg_class c join pg_namespace n on n.oid = c.relnamespace
		where c.relname in ('idempotency_version', 'saga_version') order by 1 limit $1`)
}

func (a *app) suggestNames(ctx context.Context, sql string) ([]cobra.Completion, error) {
	pool, err := a.pool(ctx)
	if err != nil {
		return nil, err
	}
	rows, err := pool.Query(ctx, sql, completionMost)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}
