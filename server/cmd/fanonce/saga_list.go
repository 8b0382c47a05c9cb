package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/saga/pgjournal"
)

// sagaReader opens the sagas for looking.
func (a *app) sagaReader(ctx context.Context) (*pgjournal.Reader, error) {
	pool, err := a.openComponent(ctx, "sagas")
	if err != nil {
		return nil, err
	}
	return a.newSagaReader(pool)
}

func (a *app) newSagaReader(pool *pgxpool.Pool) (*pgjournal.Reader, error) {
	return pgjournal.NewReader(pool, pgjournal.ReaderConfig{Schema: a.schema, StatementTimeout: a.readTime()})
}

// sagaStatuses are the statuses of sagas in the order of their lives.
var sagaStatuses = []journal.Status{
	journal.Running, journal.Compensating, journal.Stuck, journal.Completed, journal.Compensated, journal.Abandoned,
}

func sagaStatusNames() []string {
	names := []string{stateAny}
	for _, s := range sagaStatuses {
		names = append(names, s.String())
	}
	return names
}

// A sagaList is the flags of saga list.
type sagaList struct {
	page

	statuses     []string
	name, step   string
	since, until time.Duration
}

func (s *sagaList) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringSliceVar(&s.statuses, "status", []string{"stuck"}, strings.Join(sagaStatusNames(), ", ")+": one or more")
	f.StringVar(&s.name, "name", "", "of this definition")
	f.StringVar(&s.step, "step", "", "stuck on this step, as saga show has it")
	f.DurationVar(&s.since, "since", 0, "created at most so long ago; default with finished sagas: 1h")
	f.DurationVar(&s.until, "until", 0, "created at least so long ago")
	_ = cmd.RegisterFlagCompletionFunc("status", cobra.FixedCompletions(sagaStatusNames(), cobra.ShellCompDirectiveNoFileComp))
	s.page.flags(cmd)
}

// request refuses flags that no list can have.
func (s *sagaList) request(now time.Time) (journal.BrowseRequest, error) {
	at, id, err := parseCursor(s.after)
	if err := errors.Join(err, s.page.check(), s.checkWindow()); err != nil {
		return journal.BrowseRequest{}, err
	}
	req := journal.BrowseRequest{Name: s.name, StuckOn: s.step, Before: journal.Cursor{CreatedAt: at, ID: journal.ID(id)}, Limit: s.limit}
	if s.since != 0 {
		req.From = now.Add(-s.since)
	}
	if s.until != 0 {
		req.To = now.Add(-s.until)
	}
	if len(s.statuses) == 0 {
		return req, errors.New("--status is empty")
	}
	for _, name := range s.statuses {
		i := slices.IndexFunc(sagaStatuses, func(known journal.Status) bool { return known.String() == name })
		switch {
		case name == stateAny:
			req.Statuses = append(req.Statuses, sagaStatuses...)
		case i < 0:
			return req, fmt.Errorf("--status %q is none of %s", name, strings.Join(sagaStatusNames(), ", "))
		default:
			req.Statuses = append(req.Statuses, sagaStatuses[i])
		}
	}
	if s.step != "" && !slices.Contains(req.Statuses, journal.Stuck) {
		return req, errors.New("--step needs --status stuck: other sagas are stuck on no step")
	}
	return req, nil
}

func (s *sagaList) checkWindow() error {
	switch {
	case s.since < 0 || s.since > mostSince:
		return fmt.Errorf("--since %v is not between 0 and ten years", s.since)
	case s.until < 0 || s.until > mostSince:
		return fmt.Errorf("--until %v is not between 0 and ten years", s.until)
	case s.since != 0 && s.since <= s.until:
		return fmt.Errorf("--since %v must be longer than --until %v: the list is of the time between them", s.since, s.until)
	}
	return nil
}

func newSagaList(a *app) *cobra.Command {
	var l sagaList
	cmd := &cobra.Command{
		Use: "list", Short: "List sagas of any status, the youngest first; by default those that are stuck", Args: takes(0, 0),
		Long: `List sagas, the youngest first. Without flags these are the stuck sagas.

Sagas that are running, compensating or stuck are listed whatever their age and number. A list with finished sagas is of
the last hour, or of the time between --since and --until. It needs the index of migrate up --component reader.

The rights of fanonce_observer are enough. Only --step and the column STUCK ON need those of fanonce_runtime.`,
		Example: "  fanonce saga list --name checkout --step shipping.book\n" +
			"  fanonce saga list --status completed,compensated --since 2h --until 1h --limit 100 --json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := l.request(time.Now()); err != nil { // before anything is sent
				return err
			}
			r, err := a.sagaReader(cmd.Context())
			if err != nil {
				return err
			}
			now, err := a.serverTime(cmd.Context(), a.opened)
			if err != nil {
				return err
			}
			req, err := l.request(now)
			if err != nil {
				return err
			}
			records, err := r.Browse(cmd.Context(), req)
			if err != nil {
				return tooSlow(err)
			}
			return a.printSagas(records, l.limit)
		},
	}
	l.flags(cmd)
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
	return a.printPage(out, t, out.Next)
}
