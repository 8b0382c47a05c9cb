package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/fanonce/fanonce/server"
)

// sweepBatch is how many rows one commit of a sweep deletes.
const sweepBatch = 1000

// sweepRow is one component in the JSON of sweep.
type sweepRow struct {
	Component string `json:"component"`
	Deleted   int64  `json:"deleted"`           // so far, if it was interrupted
	Expired   int64  `json:"expired,omitempty"` // of --dry-run, counted up to 10000
}

type sweepOut struct {
	Components []sweepRow `json:"components"`
	DryRun     bool       `json:"dry_run"`
}

func newSweep(a *app) *cobra.Command {
	var names []string
	var dryRun bool
	cmd := &cobra.Command{
		Use: "sweep", Short: "Delete keys and sagas that are past their time, in batches", Args: takes(0, 0),
		Long: `Delete keys and sagas that are past their time, in batches of 1000, until none is left. Services do that by themselves
(RunSweeper); this is for a job, or after a time without a sweep. Each batch is one commit: an interrupt ends the
sweep after a batch. Keys that need a person stay. A key becomes unknown if its process died in an Opaque run, and nobody
asked for it since.`,
		Example: "  fanonce sweep --dry-run",
		RunE: func(cmd *cobra.Command, _ []string) error {
			picked, err := pickComponents(names)
			if err != nil {
				return err
			}
			return a.sweep(cmd.Context(), picked, dryRun)
		},
	}
	cmd.Flags().StringSliceVar(&names, "component", nil, "keys, sagas: one or more; default: those whose tables are there")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "count what would be deleted, up to 10000, and change nothing")
	return cmd
}

func (a *app) sweep(ctx context.Context, picked []component, dryRun bool) error {
	pool, err := a.pool(ctx)
	if err != nil {
		return err
	}
	if len(picked) == 0 {
		if picked, err = a.present(ctx, pool); err != nil {
			return err
		}
	}
	out := sweepOut{Components: []sweepRow{}, DryRun: dryRun}
	var failed error
	for _, c := range picked {
		if _, ok := expired[c.name]; !ok || failed != nil || ctx.Err() != nil {
			continue
		}
		row := sweepRow{Component: c.name}
		if dryRun {
			one, cancel := a.bound(ctx)
			row.Expired, failed = a.countExpired(one, pool, c.name, 0)
			cancel()
		} else {
			row.Deleted, failed = a.sweepOne(ctx, c.name)
		}
		out.Components = append(out.Components, row)
	}
	if err := a.printSweep(&out); err != nil {
		return err
	}
	if failed == nil && ctx.Err() != nil {
		failed = errors.New("interrupted: what the table counts is deleted, and nothing is half done")
	}
	return failed
}

func (a *app) sweepOne(ctx context.Context, name string) (deleted int64, err error) {
	batch, end, err := a.sweeper(ctx, name)
	if err != nil {
		return 0, err
	}
	defer end()
	line := a.progress("sweep of "+name, 0)
	defer line.end()
	for ctx.Err() == nil {
		var n int
		// An interrupt must not hide what the last batch did.
		err := a.runWhole(ctx, func(ctx context.Context) (err error) {
			n, err = batch(ctx, sweepBatch)
			return err
		})
		deleted += int64(n)
		if err != nil {
			return deleted, fmt.Errorf("sweep of %s, after %d: %w", name, deleted, err)
		}
		if n < sweepBatch {
			break
		}
		line.set(deleted)
	}
	return deleted, nil
}

// sweeper returns the sweep of a component.
func (a *app) sweeper(ctx context.Context, name string) (func(context.Context, int) (int, error), func(), error) {
	if name == "keys" {
		keys, err := a.keyring(ctx)
		if err != nil {
			return nil, nil, err
		}
		s, end, err := keys.newStore()
		if err != nil {
			return nil, nil, err
		}
		guard, err := server.NewGuard(s, server.Unscoped, server.Config{})
		if err != nil {
			end()
			return nil, nil, err
		}
		return func(ctx context.Context, limit int) (int, error) {
			n, err := s.Sweep(ctx, limit)
			if err == nil && n < limit {
				_, err = guard.Reconcile(ctx) // no route of it asks anybody
			}
			return n, err
		}, end, nil
	}
	o, j, err := a.operator(ctx)
	if err != nil {
		return nil, nil, err
	}
	return o.Sweep, j.Close, nil
}

func (a *app) printSweep(out *sweepOut) error {
	if a.json {
		return writeJSON(a.stdout, out)
	}
	if out.DryRun {
		t := newTable(a.stdout, "COMPONENT", "WOULD DELETE")
		for _, r := range out.Components {
			t.row(r.Component, formatCount(r.Expired))
		}
		return t.flush()
	}
	t := newTable(a.stdout, "COMPONENT", "DELETED")
	for _, r := range out.Components {
		t.row(r.Component, r.Deleted)
	}
	return t.flush()
}
