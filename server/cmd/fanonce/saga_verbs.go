package main

import (
	"context"
	"encoding/json"
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
		isStuck,
		func(o *saga.Operator, _ string) sagaMove { return o.Retry }, "", false, false,
	},
	{
		"retry-now", "Make sagas retry their waiting calls at once", "their waiting calls are sent within a lease.",
		func(r journal.Record) bool { return r.Status.Active() },
		func(o *saga.Operator, _ string) sagaMove { return o.RetryNow },
		`Make sagas retry their waiting calls instead of waiting for the end of the backoff. It takes effect within a lease of
the engine, 15 s by default: a saga that sleeps is taken by the next engine that looks, and an engine that has the wait
in its memory reads the saga once per lease.`, false, false,
	},
	{
		"abandon", "End sagas where they stand: nothing more is done and nothing undone", "nothing more is done and nothing undone.",
		func(r journal.Record) bool { return !r.Status.Final() },
		func(o *saga.Operator, _ string) sagaMove { return o.Abandon }, "", false, true,
	},
	{
		"cancel", "Undo what sagas did, if they are not past their pivot", "what they did is undone.",
		func(r journal.Record) bool { return !r.Status.Final() && r.FailedAt.IsZero() && !r.Cancel },
		func(o *saga.Operator, _ string) sagaMove { return o.Cancel },
		`Undo what sagas did. A saga past its pivot, or one that goes back already, is refused. Calls that are running go on:
the next owner waits for them, or finds out what they did, and undoes it.`, false, true,
	},
	{
		"force-rejected", "Say that the call of a step did not happen and will not", "the step counts as rejected, on your word.",
		isStuck, forceStep((*saga.Operator).ForceRejected),
		`Say that the call of a step of stuck sagas did not happen and will not: you have found out that the callee never took
it, or does not have its effect. You guarantee that no late copy of the call takes effect. A saga that went forward goes
back, and undoes its other steps.`, true, true,
	},
	{
		"force-undone", "Say that nothing is left of a step that cannot be undone", "the step counts as undone, on your word.",
		isStuck, forceStep((*saga.Operator).ForceUndone),
		`Say that nothing is left of a step of stuck sagas that go back: somebody undid it by hand, or accepts what is left.
The saga goes on.`, true, true,
	},
}

var unfinished = map[string]journal.Status{"stuck": journal.Stuck, "running": journal.Running, "compensating": journal.Compensating}

// A sagaFilter says which sagas a verb is for. A verb can only move unfinished sagas.
type sagaFilter struct {
	statuses []string
	name     string
	step     string // of a verb about one step
	other    int    // only sagas of another version than this one; 0: of any
}

func (s *sagaFilter) flags(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&s.statuses, "status", []string{"stuck"}, "stuck, running, compensating: one or more")
	cmd.Flags().StringVar(&s.name, "name", "", "of this definition")
	_ = cmd.RegisterFlagCompletionFunc("status", cobra.FixedCompletions([]string{"stuck", "running", "compensating"}, cobra.ShellCompDirectiveNoFileComp))
}

func (s *sagaFilter) request(limit int, before journal.Cursor) (journal.BrowseRequest, error) {
	req := journal.BrowseRequest{Name: s.name, Limit: limit, Before: before}
	for _, name := range s.statuses {
		status, ok := unfinished[name]
		if !ok {
			return req, fmt.Errorf("--status %q is none of stuck, running, compensating: finished sagas cannot be moved", name)
		}
		req.Statuses = append(req.Statuses, status)
	}
	if len(req.Statuses) == 0 {
		return req, errors.New("--status is empty")
	}
	return req, nil
}

func isStuck(r journal.Record) bool { return r.Status == journal.Stuck }

type forceMove func(o *saga.Operator, ctx context.Context, id journal.ID, step string, by journal.Audit) (journal.Record, error)

// forceStep makes a move of a verb about one step.
func forceStep(force forceMove) func(*saga.Operator, string) sagaMove {
	return func(o *saga.Operator, step string) sagaMove {
		return func(ctx context.Context, id journal.ID, by journal.Audit) (journal.Record, error) {
			return force(o, ctx, id, step, by)
		}
	}
}

// A sagaVerb is a command that moves sagas.
type sagaVerb struct {
	name, short, consequence string
	allowed                  func(journal.Record) bool // as the saga stands
	move                     func(o *saga.Operator, step string) sagaMove
	long                     string
	step                     bool // it is about one step
	dangerous                bool // it cannot be taken back
}

func newSagaVerb(a *app, x sagaVerb) *cobra.Command {
	v, f := &verb{}, &sagaFilter{}
	command := "  fanonce saga " + x.name
	if x.step {
		command += " --step shipping.book"
	}
	cmd := &cobra.Command{
		Use: x.name + " ID...", Short: x.short, Long: x.long,
		Example: command + " --reason 'the carrier is back' 6f1ed002-ab55-8a2c-9a51-0c6d5e4f3a2b\n" +
			command + " --all --name checkout --reason 'the carrier is back' --dry-run",
		RunE: func(cmd *cobra.Command, args []string) error {
			ids, err := parseIDs(args)
			if err == nil {
				err = v.check(args)
			}
			if err == nil {
				_, err = f.request(1, journal.Cursor{})
			}
			if err == nil && x.step && f.step == "" {
				err = errors.New("--step is empty: name the step as saga show has it, such as shipping.book")
			}
			if err != nil {
				return err
			}
			return a.moveSagas(cmd.Context(), x, v, f, ids)
		},
	}
	v.flags(cmd, a)
	f.flags(cmd)
	if x.step {
		cmd.Flags().StringVar(&f.step, "step", "", "the step, as saga show has it; with --all only sagas that are stuck on it; required")
	}
	return cmd
}

func (a *app) moveSagas(ctx context.Context, x sagaVerb, v *verb, f *sagaFilter, named []idArg) error {
	o, j, err := a.operator(ctx)
	if err != nil {
		return err
	}
	defer j.Close()
	if v.dryRun {
		if o, err = saga.NewOperator(unwrittenJournal{j}); err != nil {
			return err
		}
	}
	ids, err := a.sagaIDs(ctx, named)
	if err != nil {
		return err
	}
	return action[journal.Record]{
		name: x.name, consequence: x.consequence, noun: "saga", dangerous: x.dangerous,
		id:   func(r journal.Record) string { return r.ID.String() },
		read: func(ctx context.Context, id store.ID) (journal.Record, error) { return o.Lookup(ctx, journal.ID(id)) },
		list: func(ctx context.Context, limit int, after *journal.Record) ([]journal.Record, error) {
			var at journal.Cursor
			if after != nil {
				at = journal.Cursor{CreatedAt: after.CreatedAt, ID: after.ID}
			}
			req, err := f.request(limit, at)
			if err != nil {
				return nil, err
			}
			return o.Reader().Browse(ctx, req)
		},
		matches: func(r journal.Record) bool {
			return (f.other == 0 || f.other != r.Version) && (f.step == "" || r.StuckOn != nil && r.StuckOn.Step == f.step)
		},
		refuses: func(r journal.Record) string {
			if x.allowed(r) {
				return ""
			}
			return fmt.Sprintf("it is %s", r.Status)
		},
		do: func(ctx context.Context, r journal.Record) (change, error) {
			after, err := x.move(o, f.step)(ctx, r.ID, journal.Audit{Actor: v.actor, Reason: v.reason, Revision: r.Revision})
			return change{ID: r.ID.String(), From: r.Status.String(), To: after.Status.String(), Fence: after.Fence}, refusedSaga(err)
		},
	}.apply(ctx, a, v, ids)
}

// newSagaMigrate is the verb that moves sagas to another version.
func newSagaMigrate(a *app) *cobra.Command {
	v, f := &verb{}, &sagaFilter{}
	var to int
	var sameTypes bool
	cmd := &cobra.Command{
		Use: "migrate ID...", Short: "Move sagas to another version of their definition",
		Long: `Move sagas to another version of their definition, which an engine must have opened with. What has begun must be the same in
both versions: its calls, undos, marks and the pivot, and nothing before it may be unfinished. A refusal names each reason.
A saga that goes back is refused; a stuck one stays stuck.

This program has neither types nor functions. So it cannot check that the other version reads the stored input and outputs
and makes the same calls of them, nor its times. With --same-types you say so. Operator.MigrateAll in a program of the service
checks it. A saga whose values the other version cannot read is deferred or stuck, and can be moved back.`,
		Example: "  fanonce saga migrate --to 2 --all --name checkout --reason 'version 1 goes' --dry-run\n" +
			"  fanonce saga migrate --to 2 --same-types --reason 'version 1 goes' 6f1ed002-ab55-8a2c-9a51-0c6d5e4f3a2b",
		RunE: func(cmd *cobra.Command, args []string) error {
			ids, err := parseIDs(args)
			if err == nil {
				err = v.check(args)
			}
			if err == nil {
				_, err = f.request(1, journal.Cursor{})
			}
			switch {
			case err != nil:
				return err
			case to < 1:
				return fmt.Errorf("--to %d is no version: give the one that the sagas are to have", to)
			case v.all && f.name == "":
				return errors.New("--all needs --name: a version is one of a definition")
			case !v.dryRun && !sameTypes:
				return errors.New("add --same-types if the types and functions of both versions agree: this program cannot check it")
			}
			f.other = to
			return a.moveSagas(cmd.Context(), sagaVerb{
				name: "migrate", consequence: fmt.Sprintf("they go on by version %d.", to),
				allowed: func(journal.Record) bool { return true },
				move:    func(o *saga.Operator, _ string) sagaMove { return migrateTo(o, to) },
			}, v, f, ids)
		},
	}
	v.flags(cmd, a)
	f.flags(cmd)
	_ = cmd.Flags().Set("status", "running,stuck")
	cmd.Flags().Lookup("status").DefValue = "[running,stuck]"
	cmd.Flags().IntVar(&to, "to", 0, "the version that the sagas get; required")
	cmd.Flags().BoolVar(&sameTypes, "same-types", false, "say that stored values are those of the other version, too; required but with --dry-run")
	return cmd
}

// migrateTo returns the move to that version, by the plans that the journal keeps.
func migrateTo(o *saga.Operator, version int) sagaMove {
	plans := make(map[string]saga.AnyDefinition) // by the name of the definition
	return func(ctx context.Context, id journal.ID, by journal.Audit) (journal.Record, error) {
		r, err := o.Lookup(ctx, id)
		if err != nil {
			return r, err
		}
		to := plans[r.Name]
		if to == nil {
			stored, err := o.Reader().Plan(ctx, r.Name, version)
			if errors.Is(err, journal.ErrNotFound) {
				return r, fmt.Errorf("%w: no engine has opened with %s version %d yet", saga.ErrNoDefinition, r.Name, version)
			}
			if err == nil {
				to, err = saga.StoredPlan(stored)
			}
			if err != nil {
				return r, err
			}
			plans[r.Name] = to
		}
		by.Revision = 0 // an executed saga moves on by itself
		after, moved, err := o.Migrate(ctx, id, to, by)
		if err == nil && !moved {
			err = fmt.Errorf("%w: it has version %d already", saga.ErrConflict, version)
		}
		return after, err
	}
}

// newSagaSignal is the verb that sends a saga what it awaits.
func newSagaSignal(a *app) *cobra.Command {
	v := &verb{}
	cmd := &cobra.Command{
		Use: "signal ID NAME VALUE", Short: "Send a saga a value that it awaits", Args: takes(3, 3),
		Long: `Send a saga a value that it awaits, or will await: what should have sent it is lost. NAME is that of the step, as saga show
has it. VALUE is JSON. The first value that a saga is sent stays.

This program does not know the type of the value. If VALUE has a member that the type lacks, the saga is left to a newer build; if it is
no such value at all, the step has failed and the saga is undone, or stuck past its pivot.`,
		Example: `  fanonce saga signal --reason 'approved by phone' 6f1ed002-ab55-8a2c-9a51-0c6d5e4f3a2b order.approved '{"By":"ann"}'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			ids, err := parseIDs(args[:1])
			if err == nil {
				err = v.check(args[:1])
			}
			value := json.RawMessage(args[2])
			switch {
			case err != nil:
				return err
			case !json.Valid(value):
				return errors.New("VALUE is not JSON; a text has quotes of its own")
			}
			return a.moveSagas(cmd.Context(), sagaVerb{
				name: "signal", consequence: "it gets the value of " + args[1] + ", which cannot be taken back.",
				allowed: func(r journal.Record) bool { return !r.Status.Final() && r.FailedAt.IsZero() },
				move: func(o *saga.Operator, _ string) sagaMove {
					return func(ctx context.Context, id journal.ID, by journal.Audit) (journal.Record, error) {
						by.Revision = 0 // an executed saga moves on by itself
						return o.Signal(ctx, id, args[1], value, by)
					}
				},
			}, v, &sagaFilter{}, ids)
		},
	}
	v.flags(cmd, a)
	for _, name := range []string{"all", "most", "count"} {
		_ = cmd.Flags().MarkHidden(name) // it is for one saga
	}
	return cmd
}

// refusedSaga turns the refusal of one saga into the answer "no".
func refusedSaga(err error) error {
	for _, refusal := range []error{saga.ErrConflict, saga.ErrNoStep, saga.ErrNoDefinition, saga.ErrSignal, saga.ErrSignalReused, saga.ErrTooLate, journal.ErrNotFound, journal.ErrCorrupt} {
		if errors.Is(err, refusal) {
			return no("%s", strings.TrimPrefix(err.Error(), "saga: "))
		}
	}
	return err
}
