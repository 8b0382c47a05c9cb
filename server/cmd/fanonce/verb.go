package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fanonce/fanonce/server/store"
)

// A verb is a change in a person's name: the flags that all such changes share.
type verb struct {
	actor, reason string
	yes, dryRun   bool
	all           bool
	most          int
}

const defaultMost = 10_000

func (v *verb) flags(cmd *cobra.Command, a *app) {
	f := cmd.Flags()
	f.StringVar(&v.reason, "reason", "", "why, for the audit log; required; holds no key and no body")
	f.StringVar(&v.actor, "actor", "", "who, for the audit log; default $USER@HOST")
	f.BoolVar(&v.yes, "yes", false, "do not ask")
	f.BoolVar(&v.dryRun, "dry-run", false, "say what would be done, and change nothing")
	f.BoolVar(&v.all, "all", false, "all that match, instead of the ones that are named")
	f.IntVar(&v.most, "most", defaultMost, "with --all, at most so many")
	if user, ok := a.environ("USER"); ok && v.actor == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "localhost"
		}
		v.actor = user + "@" + host
	}
}

// check refuses a verb that cannot be carried out, before anything is sent.
func (v *verb) check(args []string) error {
	switch {
	case v.all && len(args) > 0:
		return errors.New("name IDs or give --all, not both")
	case !v.all && len(args) == 0:
		return errors.New("name one ID or more, or give --all")
	case v.most < 1:
		return fmt.Errorf("--most %d is not positive", v.most)
	case v.dryRun:
		return nil
	case strings.TrimSpace(v.reason) == "" || len(v.reason) > store.MaxReasonBytes:
		return fmt.Errorf("--reason has %d bytes, must have 1 to %d: it goes to the audit log", len(v.reason), store.MaxReasonBytes)
	case strings.TrimSpace(v.actor) == "" || len(v.actor) > store.MaxActorBytes:
		return fmt.Errorf("--actor has %d bytes, must have 1 to %d: it goes to the audit log", len(v.actor), store.MaxActorBytes)
	}
	return nil
}

// verbOut is the JSON of a verb.
type verbOut struct {
	Verb    string   `json:"verb"`
	DryRun  bool     `json:"dry_run"`
	Actor   string   `json:"actor"`
	Matched int      `json:"matched"`
	Done    int      `json:"done"`
	Refused []string `json:"refused"` // IDs that moved on, are gone, or do not allow the verb
}

// apply carries a verb out, for one target after the other. Each is one transaction. An interrupt lets the running one end,
// and begins no other.
func apply[T any](ctx context.Context, a *app, v *verb, name, question string, targets []T,
	id func(T) string, do func(context.Context, T) error,
) error {
	out := verbOut{Verb: name, DryRun: v.dryRun, Actor: v.actor, Matched: len(targets), Refused: []string{}}
	if len(targets) > 0 && !v.dryRun {
		if err := a.confirm(v.yes, fmt.Sprintf("%s %d: %s As %s.", name, len(targets), question, v.actor)); err != nil {
			return err
		}
	}
	line := a.progress()
	var failed error
	for _, t := range targets {
		if v.dryRun || ctx.Err() != nil {
			break
		}
		line.say("%s: %d of %d", name, out.Done, len(targets))
		// An interrupt must not leave a change of unknown fate.
		err := a.whole(ctx, func(ctx context.Context) error { return do(ctx, t) })
		switch {
		case err == nil:
			out.Done++
		case errors.Is(err, errNo):
			out.Refused = append(out.Refused, id(t)+": "+oneLine(err.Error()))
		default:
			failed = fmt.Errorf("%s of %s: %w", name, id(t), err)
		}
		if failed != nil {
			break
		}
	}
	line.end()
	if err := a.printVerb(&out); err != nil {
		return err
	}
	switch {
	case failed != nil:
		return failed
	case ctx.Err() != nil:
		return fmt.Errorf("interrupted: %s is done for %d of %d", name, out.Done, out.Matched)
	case len(out.Refused) > 0:
		return no("%d of %d were refused", len(out.Refused), out.Matched)
	}
	return nil
}

// whole gives one change its time, also after an interrupt.
func (a *app) whole(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := a.bounded(context.WithoutCancel(ctx))
	defer cancel()
	return do(ctx)
}

func (a *app) printVerb(out *verbOut) error {
	if a.json {
		return writeJSON(a.stdout, out)
	}
	for _, refused := range out.Refused {
		if _, err := fmt.Fprintln(a.stdout, "refused "+printable(refused)); err != nil {
			return err
		}
	}
	if out.DryRun {
		_, err := fmt.Fprintf(a.stdout, "would %s %d; nothing was changed\n", out.Verb, out.Matched)
		return err
	}
	_, err := fmt.Fprintf(a.stdout, "%s: done for %d of %d, as %s\n", out.Verb, out.Done, out.Matched, printable(out.Actor))
	return err
}

// page is the flags of a list.
type page struct {
	limit int
	after string
}

const maxPage = 1000

func (p *page) flags(cmd *cobra.Command) {
	cmd.Flags().IntVar(&p.limit, "limit", 50, "how many at most, up to 1000")
	cmd.Flags().StringVar(&p.after, "after", "", "where the previous page ended, as it says")
}

func (p *page) check() error {
	if p.limit < 1 || p.limit > maxPage {
		return fmt.Errorf("--limit %d is not between 1 and %d", p.limit, maxPage)
	}
	return nil
}

// more says how to get the next page, on stderr: stdout is the table.
func (a *app) more(next string) {
	if next != "" && !a.json {
		_, _ = fmt.Fprintln(a.stderr, "more: --after "+next)
	}
}
