package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/saga/pgjournal"
)

func newSaga(a *app) *cobra.Command {
	cmd := group(&cobra.Command{
		Use: "saga", Short: "List, show and move sagas",
		Long: `List, show and move sagas. Neither keys nor inputs nor results are shown.

The verbs here need no definition: they read the plan that the journal keeps. Only force-ok does: it is for a program of
the service, with saga.NewOperator and its definitions.`,
	})
	cmd.AddCommand(newSagaList(a), newSagaShow(a), newSagaAudit(a))
	for _, x := range sagaVerbs {
		cmd.AddCommand(newSagaVerb(a, x))
	}
	return cmd
}

func (a *app) operator(ctx context.Context) (*saga.Operator, *pgjournal.Journal, error) {
	pool, err := a.pool(ctx)
	if err != nil {
		return nil, nil, err
	}
	if err := a.ready(ctx, "sagas"); err != nil {
		return nil, nil, err
	}
	j, err := pgjournal.New(pool, pgjournal.Config{Schema: a.schema})
	if err != nil {
		return nil, nil, err
	}
	o, err := saga.NewOperator(j)
	return o, j, err
}

// sagaRow is one saga in JSON.
type sagaRow struct {
	ID         string `json:"id"`
	Name       string `json:"name"`
	Version    int    `json:"version"`
	Status     string `json:"status"`
	Revision   int64  `json:"revision"`
	Fence      int64  `json:"fence"`
	StuckOn    string `json:"stuck_on,omitempty"` // the step
	Undo       bool   `json:"undo"`               // it is stuck on the step's undo
	Reason     string `json:"reason,omitempty"`   // why it is stuck
	Unreadable bool   `json:"unreadable"`         // sealed, of a newer build, or damaged
	CreatedAt  string `json:"created_at"`
	AgeSeconds int64  `json:"age_seconds"`
}

func sagaRowOf(r *journal.Record) sagaRow {
	row := sagaRow{
		ID: r.ID.String(), Name: r.Name, Version: r.Version, Status: r.Status.String(), Revision: r.Revision, Fence: r.Fence,
		Unreadable: r.Corrupt != nil, CreatedAt: stamp(r.CreatedAt), AgeSeconds: int64(r.Now.Sub(r.CreatedAt).Seconds()),
	}
	if r.StuckOn != nil {
		row.StuckOn, row.Undo, row.Reason = r.StuckOn.Step, r.StuckOn.Undo, string(r.StuckOn.Reason)
	}
	return row
}

// sagaListOut is the JSON of saga list.
type sagaListOut struct {
	Sagas []sagaRow `json:"sagas"`
	Next  string    `json:"next,omitempty"`
}

var unfinished = map[string]journal.Status{"stuck": journal.Stuck, "running": journal.Running, "compensating": journal.Compensating}

// A sagaFilter says which sagas are meant. Only unfinished ones have an index to list them by.
type sagaFilter struct {
	statuses []string
	name     string
	step     string // of a verb about one step
}

func (f *sagaFilter) flags(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&f.statuses, "status", []string{"stuck"}, "stuck, running, compensating: one or more")
	cmd.Flags().StringVar(&f.name, "name", "", "of this definition")
	_ = cmd.RegisterFlagCompletionFunc("status", cobra.FixedCompletions([]string{"stuck", "running", "compensating"}, cobra.ShellCompDirectiveNoFileComp))
}

func (f *sagaFilter) request(limit int, after journal.Cursor) (journal.ListRequest, error) {
	req := journal.ListRequest{Name: f.name, Limit: limit, After: after}
	for _, name := range f.statuses {
		status, ok := unfinished[name]
		if !ok {
			return req, fmt.Errorf("--status %q is none of stuck, running, compensating: finished sagas have no index to list them by", name)
		}
		req.Statuses = append(req.Statuses, status)
	}
	if len(req.Statuses) == 0 {
		return req, errors.New("--status is empty")
	}
	return req, nil
}

func newSagaList(a *app) *cobra.Command {
	var f sagaFilter
	var p page
	cmd := &cobra.Command{
		Use: "list", Short: "List unfinished sagas, the oldest first; by default those that are stuck", Args: takes(0, 0),
		Example: "  fanonce saga list --status stuck --name checkout",
		RunE: func(cmd *cobra.Command, _ []string) error {
			at, id, err := parseCursor(p.after)
			if err != nil {
				return err
			}
			req, err := f.request(p.limit, journal.Cursor{CreatedAt: at, ID: journal.ID(id)})
			if err := errors.Join(err, p.check()); err != nil {
				return err
			}
			o, j, err := a.operator(cmd.Context())
			if err != nil {
				return err
			}
			defer j.Close()
			ctx, cancel := a.bounded(cmd.Context())
			defer cancel()
			records, err := o.List(ctx, req)
			if err != nil {
				return err
			}
			return a.printSagas(records, p.limit)
		},
	}
	f.flags(cmd)
	p.flags(cmd)
	return cmd
}

func (a *app) printSagas(records []journal.Record, limit int) error {
	out := sagaListOut{Sagas: []sagaRow{}}
	t := newTable(a.stdout, "ID", "SAGA", "STATUS", "STUCK ON", "REVISION", "AGE")
	for i := range records {
		row := sagaRowOf(&records[i])
		out.Sagas = append(out.Sagas, row)
		on := row.StuckOn
		if row.Undo {
			on = "undo of " + on
		}
		t.row(row.ID, fmt.Sprintf("%s/%d", row.Name, row.Version), row.Status, on, row.Revision, ago(records[i].Now.Sub(records[i].CreatedAt)))
	}
	if n := len(records); n == limit {
		out.Next = cursorText(records[n-1].CreatedAt, records[n-1].ID.String())
	}
	if a.json {
		return writeJSON(a.stdout, out)
	}
	a.more(out.Next)
	return t.flush()
}

// stepRow is one call of a saga in JSON, without its result and the body of a refusal.
type stepRow struct {
	Step     string `json:"step"`
	Undo     bool   `json:"undo"`
	Outcome  string `json:"outcome"` // "pending" while it is to be tried again
	Attempts int    `json:"attempts"`
	At       string `json:"at"`
	RetryAt  string `json:"retry_at,omitempty"`
	Status   int    `json:"status,omitempty"`
	Code     string `json:"code,omitempty"`
	Forced   string `json:"forced,omitempty"`
}

type sagaShowOut struct {
	Saga  sagaRow    `json:"saga"`
	Steps []stepRow  `json:"steps"`
	Audit []auditRow `json:"audit"`
}

func stepsOf(entries []journal.Entry) []stepRow {
	rows := make([]stepRow, len(entries))
	for i, e := range entries {
		rows[i] = stepRow{e.Step, e.Undo, e.Outcome.String(), e.Attempts, stamp(e.At), stamp(e.RetryAt), e.Status, string(e.Code), e.Forced}
		if e.Pending {
			rows[i].Outcome = "pending"
		}
	}
	return rows
}

func sagaAuditOf(entries []journal.AuditEntry) []auditRow {
	rows := make([]auditRow, len(entries))
	for i, e := range entries {
		rows[i] = auditRow{stamp(e.At), e.ID.String(), string(e.Verb), e.Step, e.Actor, e.Reason, e.From.String(), e.To.String(), e.Fence}
	}
	return rows
}

func newSagaShow(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "show ID", Short: "Show one saga: its status, its steps and its audit log", Args: takes(1, 1),
		ValidArgsFunction: a.completes(suggestSagas, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ids, err := parseIDs(args)
			if err != nil {
				return err
			}
			o, j, err := a.operator(cmd.Context())
			if err != nil {
				return err
			}
			defer j.Close()
			ctx, cancel := a.bounded(cmd.Context())
			defer cancel()
			r, err := o.Lookup(ctx, journal.ID(ids[0]))
			if errors.Is(err, journal.ErrNotFound) {
				return no("no saga has the ID %s", args[0])
			}
			if err != nil {
				return err
			}
			entries, err := o.AuditLog(ctx, r.ID, 20)
			if err != nil {
				return err
			}
			return a.printSaga(sagaShowOut{sagaRowOf(&r), stepsOf(r.Entries), sagaAuditOf(entries)}, &r)
		},
	}
}

func (a *app) printSaga(out sagaShowOut, r *journal.Record) error {
	if a.json {
		return writeJSON(a.stdout, out)
	}
	if err := a.printSagas([]journal.Record{*r}, 0); err != nil {
		return err
	}
	_, _ = fmt.Fprintln(a.stdout)
	t := newTable(a.stdout, "STEP", "CALL", "OUTCOME", "ATTEMPTS", "STATUS", "CODE", "RETRY AT", "FORCED BY")
	for _, s := range out.Steps {
		direction := "forward"
		if s.Undo {
			direction = "undo"
		}
		t.row(s.Step, direction, s.Outcome, s.Attempts, s.Status, s.Code, s.RetryAt, s.Forced)
	}
	if err := t.flush(); err != nil || len(out.Audit) == 0 {
		return err
	}
	_, _ = fmt.Fprintln(a.stdout)
	return a.printAudit(out.Audit)
}

func newSagaAudit(a *app) *cobra.Command {
	var p page
	cmd := &cobra.Command{
		Use: "audit [ID]", Short: "Show who moved sagas, the youngest change first", Args: takes(0, 1),
		ValidArgsFunction: a.completes(suggestSagas, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ids, err := parseIDs(args)
			if err := errors.Join(err, p.check()); err != nil {
				return err
			}
			o, j, err := a.operator(cmd.Context())
			if err != nil {
				return err
			}
			defer j.Close()
			ctx, cancel := a.bounded(cmd.Context())
			defer cancel()
			entries, err := o.AuditLog(ctx, journal.ID(first(ids)), p.limit)
			if err != nil {
				return err
			}
			return a.printAudit(sagaAuditOf(entries))
		},
	}
	cmd.Flags().IntVar(&p.limit, "limit", 50, "how many at most, up to 1000")
	return cmd
}
