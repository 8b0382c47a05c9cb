package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/server/store"
)

type sagaMove func(context.Context, journal.ID, journal.Audit) (journal.Record, error)

var sagaVerbs = []sagaVerb{
	{
		"retry", "Set stuck sagas going again, in the direction that they had", "their calls are sent again, under the same keys.",
		func(r journal.Record) bool { return r.Status == journal.Stuck },
		func(o *saga.Operator) sagaMove { return o.Retry },
	},
	{
		"retry-now", "Make sagas retry their waiting calls at once", "their waiting calls are sent now.",
		func(r journal.Record) bool { return r.Status.Active() },
		func(o *saga.Operator) sagaMove { return o.RetryNow },
	},
	{
		"abandon", "End sagas where they stand: nothing more is done and nothing undone", "nothing more is done and nothing undone.",
		func(r journal.Record) bool { return !r.Status.Final() },
		func(o *saga.Operator) sagaMove { return o.Abandon },
	},
}

// A sagaVerb is a command that moves sagas.
type sagaVerb struct {
	name, short, consequence string
	allowed                  func(journal.Record) bool // as the saga stands
	move                     func(*saga.Operator) sagaMove
}

func newSagaVerb(a *app, x sagaVerb) *cobra.Command {
	v, f := &verb{}, &sagaFilter{}
	cmd := &cobra.Command{
		Use: x.name + " ID...", Short: x.short,
		Example: "  fanonce saga " + x.name + " --reason 'the carrier is back' 6f1ed002-ab55-8a2c-9a51-0c6d5e4f3a2b\n" +
			"  fanonce saga " + x.name + " --all --name checkout --reason 'the carrier is back' --dry-run",
		RunE: func(cmd *cobra.Command, args []string) error {
			ids, err := parseIDs(args)
			if err == nil {
				err = v.check(args)
			}
			if err == nil {
				_, err = f.request(1, journal.Cursor{})
			}
			if err != nil {
				return err
			}
			return a.moveSagas(cmd.Context(), x, v, f, ids)
		},
	}
	cmd.ValidArgsFunction = a.completes(suggestSagas, 0)
	v.flags(cmd, a)
	f.flags(cmd)
	return cmd
}

func (a *app) moveSagas(ctx context.Context, x sagaVerb, v *verb, f *sagaFilter, ids []store.ID) error {
	o, j, err := a.operator(ctx)
	if err != nil {
		return err
	}
	defer j.Close()
	records, err := a.sagas(ctx, o, v, f, ids)
	if err != nil {
		return err
	}
	return action[journal.Record]{
		name: x.name, consequence: x.consequence,
		id: func(r journal.Record) string { return r.ID.String() },
		refuses: func(r journal.Record) string {
			if x.allowed(r) {
				return ""
			}
			return fmt.Sprintf("it is %s", r.Status)
		},
		do: func(ctx context.Context, r journal.Record) error {
			_, err := x.move(o)(ctx, r.ID, journal.Audit{Actor: v.actor, Reason: v.reason, Revision: r.Revision})
			return refusedSaga(err)
		},
	}.apply(ctx, a, v, records)
}

// refusedSaga turns the refusal of one saga into the answer "no".
func refusedSaga(err error) error {
	if errors.Is(err, saga.ErrConflict) || errors.Is(err, journal.ErrNotFound) || errors.Is(err, journal.ErrCorrupt) {
		return no("%s", strings.TrimPrefix(err.Error(), "saga: "))
	}
	return err
}

// sagas reads the sagas that a verb is for.
func (a *app) sagas(ctx context.Context, o *saga.Operator, v *verb, f *sagaFilter, ids []store.ID) ([]journal.Record, error) {
	var out []journal.Record
	for _, id := range ids {
		one, cancel := a.bounded(ctx)
		r, err := o.Lookup(one, journal.ID(id))
		cancel()
		if errors.Is(err, journal.ErrNotFound) {
			return nil, no("no saga has the ID %s", journal.ID(id))
		}
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	for at := (journal.Cursor{}); v.all && len(out) < v.most; {
		req, err := f.request(min(maxPage, v.most-len(out)), at)
		if err != nil {
			return nil, err
		}
		one, cancel := a.bounded(ctx)
		records, err := o.List(one, req)
		cancel()
		if err != nil {
			return nil, err
		}
		out = append(out, records...)
		if len(records) < req.Limit {
			break
		}
		last := records[len(records)-1]
		at = journal.Cursor{CreatedAt: last.CreatedAt, ID: last.ID}
	}
	return out, nil
}
