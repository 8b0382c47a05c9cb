package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/saga/pgjournal"
	"github.com/fanonce/fanonce/server/store"
)

func newSaga(a *app) *cobra.Command {
	cmd := group(&cobra.Command{
		Use: "saga", Short: "List, show and move sagas",
		Long: `List, show and move sagas. Neither keys nor inputs nor results are shown. The first four digits or more of an ID are
enough, where no other ID begins with them.

The verbs here need no definition: they read the plan that the journal keeps. There is no force-ok: it gives a step an
output, and only the saga's definition knows the type of the output. An output of another type would leave a saga that no
engine can go on with. Use "Force OK" in a console that the service mounts with its engine, or saga.NewOperator with the
definition in a program of the service.`,
	})
	cmd.AddCommand(newSagaList(a), newSagaShow(a), newSagaAudit(a))
	for _, x := range sagaVerbs {
		cmd.AddCommand(newSagaVerb(a, x))
	}
	cmd.AddCommand(newSagaMigrate(a), newSagaSignal(a))
	return cmd
}

func (a *app) operator(ctx context.Context) (*saga.Operator, *pgjournal.Journal, error) {
	pool, err := a.openComponent(ctx, "sagas")
	if err != nil {
		return nil, nil, err
	}
	return a.newOperator(pool)
}

// sagaIDs returns the IDs of sagas. The database is open.
func (a *app) sagaIDs(ctx context.Context, args []idArg) ([]store.ID, error) {
	return complete(ctx, args, "saga", a.tableIDs(a.opened, [2]string{"saga", "id"}, [2]string{"saga_audit", "saga"}))
}

func (a *app) newOperator(pool *pgxpool.Pool) (*saga.Operator, *pgjournal.Journal, error) {
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
	// SleepsUntil is when an engine may take the saga, if that is to come.
	SleepsUntil string `json:"sleeps_until,omitempty"`
}

func sagaRowOf(r *journal.Record) sagaRow {
	row := sagaRow{
		ID: r.ID.String(), Name: r.Name, Version: r.Version, Status: r.Status.String(), Revision: r.Revision, Fence: r.Fence,
		Unreadable: r.Corrupt != nil, CreatedAt: stamp(r.CreatedAt), AgeSeconds: int64(r.Now.Sub(r.CreatedAt).Seconds()),
	}
	if r.WakeAt.After(r.Now) {
		row.SleepsUntil = stamp(r.WakeAt)
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

// stepRow is one call of a saga in JSON, without its result and the body of a refusal.
type stepRow struct {
	Step     string `json:"step"`
	Undo     bool   `json:"undo"`
	Outcome  string `json:"outcome"` // "pending" while it is to be tried again, "asleep" until RetryAt, "skipped" if the saga goes on without it
	Attempts int    `json:"attempts"`
	At       string `json:"at"`
	RetryAt  string `json:"retry_at,omitempty"`
	Status   int    `json:"status,omitempty"`
	Code     string `json:"code,omitempty"`
	Forced   string `json:"forced,omitempty"`
}

// An awaitRow is a signal that a saga waits for.
type awaitRow struct {
	Signal string `json:"signal"`
	Since  string `json:"since"`
	Until  string `json:"until,omitempty"` // "": as long as it takes, or not known
}

// awaitsOf returns what the saga waits for, if its plan can be read.
func awaitsOf(ctx context.Context, reader journal.Reader, r *journal.Record) []awaitRow {
	rows := []awaitRow{}
	plan, err := reader.Plan(ctx, r.Name, r.Version)
	if err != nil || plan.Hash != r.Plan {
		return rows
	}
	steps, err := saga.PlanSteps(plan)
	if err != nil {
		return rows
	}
	for _, w := range saga.AwaitedBy(*r, steps) {
		rows = append(rows, awaitRow{w.Signal, stamp(w.Since), stamp(w.Until)})
	}
	return rows
}

func (w awaitRow) String() string {
	text := "waits for " + w.Signal + " since " + w.Since
	if w.Until != "" {
		text += ", until " + w.Until
	}
	return text
}

type sagaShowOut struct {
	Saga   sagaRow    `json:"saga"`
	Awaits []awaitRow `json:"awaits"`
	Why    string     `json:"why,omitempty"` // the saga is stuck, failed, or waits for another build
	Steps  []stepRow  `json:"steps"`
	Audit  []auditRow `json:"audit"`
}

func whyOf(r *journal.Record) string {
	for _, f := range []*journal.Failure{r.StuckOn, r.Cause, r.Deferred} {
		if f != nil {
			return oneLine(f.String())
		}
	}
	return ""
}

func stepsOf(entries []journal.Entry) []stepRow {
	rows := make([]stepRow, len(entries))
	for i, e := range entries {
		rows[i] = stepRow{e.Step, e.Undo, e.Outcome.String(), e.Attempts, stamp(e.At), stamp(e.RetryAt), e.Status, string(e.Code), e.Forced}
		switch {
		case e.IsAsleep():
			rows[i].Outcome = "asleep"
		case e.Pending:
			rows[i].Outcome = "pending"
		case e.Skipped:
			rows[i].Outcome = "skipped"
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
		Example: "  fanonce saga show 6f1ed002-ab55-8a2c-9a51-0c6d5e4f3a2b",
		RunE: func(cmd *cobra.Command, args []string) error {
			named, err := parseIDs(args)
			if err != nil {
				return err
			}
			reader, err := a.sagaReader(cmd.Context())
			if err != nil {
				return err
			}
			ids, err := a.sagaIDs(cmd.Context(), named)
			if err != nil {
				return err
			}
			r, err := reader.Show(cmd.Context(), journal.ID(ids[0]))
			if errors.Is(err, journal.ErrNotFound) {
				return no("no saga has the ID %s", ids[0])
			}
			if errors.Is(err, pgjournal.ErrPrivilege) {
				return fmt.Errorf("%w: the steps of a saga need the rights of fanonce_runtime", err)
			}
			if err != nil {
				return err
			}
			entries, err := reader.AuditPage(cmd.Context(), journal.AuditRequest{ID: r.ID, Limit: 20})
			if err != nil {
				return err
			}
			return a.printSaga(sagaShowOut{sagaRowOf(&r), awaitsOf(cmd.Context(), reader, &r), whyOf(&r), stepsOf(r.Entries), sagaAuditOf(entries)}, &r)
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
	for _, w := range out.Awaits {
		_, _ = fmt.Fprintln(a.stdout, "\n"+printable(w.String()))
	}
	if until := out.Saga.SleepsUntil; until != "" && len(out.Awaits) == 0 {
		_, _ = fmt.Fprintln(a.stdout, "\nsleeps until", until)
	}
	if out.Why != "" {
		_, _ = fmt.Fprintln(a.stdout, "\nwhy:", out.Why)
	}
	_, _ = fmt.Fprintln(a.stdout)
	t := newTable(a.stdout, "STEP", "CALL", "OUTCOME", "ATTEMPTS", "STATUS", "CODE", "RETRY AT", "FORCED BY")
	for _, s := range out.Steps {
		direction := "forward"
		if s.Undo {
			direction = "undo"
		}
		t.row(s.Step, direction, s.Outcome, s.Attempts, orNone(s.Status), s.Code, s.RetryAt, s.Forced)
	}
	if err := t.flush(); err != nil || len(out.Audit) == 0 {
		return err
	}
	_, _ = fmt.Fprintln(a.stdout)
	return a.printAudit(out.Audit)
}

func newSagaAudit(a *app) *cobra.Command {
	return newAudit(a, &cobra.Command{Short: "Show who moved sagas, the youngest change first", Example: "  fanonce saga audit --actor ann@laptop --limit 20"},
		func(ctx context.Context, args []idArg, actor string, limit int) ([]auditRow, error) {
			r, err := a.sagaReader(ctx)
			if err != nil {
				return nil, err
			}
			ids, err := a.sagaIDs(ctx, args)
			if err != nil {
				return nil, err
			}
			entries, err := r.AuditPage(ctx, journal.AuditRequest{ID: journal.ID(append(ids, store.ID{})[0]), Actor: actor, Limit: limit})
			return sagaAuditOf(entries), err
		})
}
