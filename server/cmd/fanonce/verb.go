package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/server/store"
)

// A verb is a change in a person's name: the flags that all such changes share.
type verb struct {
	actor, reason string
	yes, dryRun   bool
	all           bool
	most, count   int
}

const defaultMost = 10_000

func (v *verb) flags(cmd *cobra.Command, a *app) {
	f := cmd.Flags()
	f.StringVar(&v.reason, "reason", "", "why, for the audit log; required; holds no key and no body")
	f.StringVar(&v.actor, "actor", "", "who, for the audit log; default $USER@HOST")
	f.BoolVar(&v.yes, "yes", false, "do not ask")
	f.BoolVar(&v.dryRun, "dry-run", false, "say what would be done and what refused, and change nothing")
	f.BoolVar(&v.all, "all", false, "all that match, instead of the ones that are named")
	f.IntVar(&v.most, "most", defaultMost, "with --all, at most so many")
	f.IntVar(&v.count, "count", 0, "with --all: how many match, as --dry-run says; another number changes nothing")
	v.actor = a.whoami()
}

// whoami is $USER@HOST; "" without $USER.
func (a *app) whoami() string {
	user, ok := a.environ("USER")
	if !ok {
		return ""
	}
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	return user + "@" + host
}

// check refuses a verb that cannot be carried out, before anything is sent.
func (v *verb) check(args []string) error {
	switch {
	case v.all && len(args) > 0:
		return errors.New("name IDs or give --all, not both")
	case !v.all && len(args) == 0:
		return errors.New("name one ID or more, or give --all")
	case v.count < 0 || v.count > 0 && !v.all:
		return fmt.Errorf("--count %d needs --all, and must not be negative", v.count)
	case v.most < 1:
		return fmt.Errorf("--most %d is not positive", v.most)
	case strings.TrimSpace(v.reason) == "" || len(v.reason) > store.MaxReasonBytes || !utf8.ValidString(v.reason):
		return fmt.Errorf("--reason has %d bytes, must be text of 1 to %d: it goes to the audit log", len(v.reason), store.MaxReasonBytes)
	}
	return checkActor(v.actor)
}

// verbOut is the JSON of a verb.
type verbOut struct {
	Verb    string   `json:"verb"`
	DryRun  bool     `json:"dry_run"`
	Actor   string   `json:"actor"`
	Matched int      `json:"matched"`
	Done    int      `json:"done"`
	Refused []string `json:"refused"` // IDs that moved on, are gone, or do not allow the verb; of --dry-run: that do not now
	Changed []change `json:"changed"`
}

// A change is what a verb made of one target.
type change struct {
	ID    string `json:"id"`
	From  string `json:"from"`
	To    string `json:"to"` // "forgotten": it is gone; "": it was changed, and could not be read afterwards
	Fence int64  `json:"fence,omitempty"`
}

func (c change) String() string {
	if c.To == "" {
		return fmt.Sprintf("%s: was %s, and was changed; it cannot be read now", c.ID, c.From)
	}
	if c.From == c.To { // a saga goes on, or goes back at its next step
		return fmt.Sprintf("%s: is %s", c.ID, c.To)
	}
	return fmt.Sprintf("%s: was %s, is %s", c.ID, c.From, c.To)
}

// An action is a verb for targets of one kind.
type action[T any] struct {
	name        string
	consequence string // what the person confirms
	noun        string // of one target
	dangerous   bool   // a person who does it to all that match says how many these are
	id          func(T) string
	read        func(context.Context, store.ID) (T, error)
	// list returns the targets after one, or the first ones; nil: there is none before.
	list    func(ctx context.Context, limit int, after *T) ([]T, error)
	matches func(T) bool // a listed one is meant; nil: each is
	// refuses says why the verb would be refused for a target as it was read; "": only do can tell.
	refuses func(T) string
	do      func(context.Context, T) (change, error) // in a dry run it writes nothing
}

// targets reads the targets of a verb: those that are named, or all that match.
func (x action[T]) targets(ctx context.Context, a *app, v *verb, ids []store.ID) ([]T, error) {
	var out []T
	for _, id := range ids {
		one, cancel := a.bound(ctx)
		t, err := x.read(one, id)
		cancel()
		if errors.Is(err, store.ErrNotFound) || errors.Is(err, journal.ErrNotFound) {
			return nil, no("no %s has the ID %s", x.noun, id)
		}
		if err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	for after := (*T)(nil); v.all && len(out) < v.most; {
		limit := min(maxPage, v.most-len(out))
		one, cancel := a.bound(ctx)
		page, err := x.list(one, limit, after)
		cancel()
		if err != nil {
			return nil, err
		}
		for _, t := range page {
			if x.matches == nil || x.matches(t) {
				out = append(out, t)
			}
		}
		if len(page) < limit {
			break
		}
		after = &page[len(page)-1]
	}
	return out, nil
}

// apply carries a verb out, for one target after the other. Each is one transaction. An interrupt lets the running one end,
// and begins no other.
func (x action[T]) apply(ctx context.Context, a *app, v *verb, ids []store.ID) error {
	targets, err := x.targets(ctx, a, v, ids)
	if err != nil {
		return err
	}
	out := verbOut{Verb: x.name, DryRun: v.dryRun, Actor: v.actor, Matched: len(targets), Refused: []string{}, Changed: []change{}}
	if err := x.confirm(a, v, targets); err != nil {
		return err
	}
	var failed error
	if v.dryRun {
		failed = x.foresee(ctx, a, &out, targets)
	} else {
		failed = x.carryOut(ctx, a, &out, targets)
	}
	if err := a.printVerb(&out); err != nil {
		return err
	}
	switch {
	case failed != nil:
		return failed
	case ctx.Err() != nil:
		return fmt.Errorf("interrupted: %s is done for %d of %d", x.name, out.Done, out.Matched)
	case len(out.Refused) > 0 && v.dryRun:
		return no("%d of %d would be refused", len(out.Refused), out.Matched)
	case len(out.Refused) > 0:
		return no("%d of %d %s refused", len(out.Refused), out.Matched, plural(len(out.Refused), "was", "were"))
	}
	return nil
}

// confirm asks before the targets are changed. Whoever changes all that match in a way that cannot be taken back says how
// many these are: else a filter that is too wide goes unnoticed.
func (x action[T]) confirm(a *app, v *verb, targets []T) error {
	n := len(targets)
	question := fmt.Sprintf("%s %d %s: %s As %s.", x.name, n, plural(n, x.noun, x.noun+"s"), x.consequence, v.actor)
	switch {
	case v.count > 0 && v.count != n:
		return no("%s: --count is %d; nothing was changed", plural(n, "1 matches", fmt.Sprintf("%d match", n)), v.count)
	case n == 0 || v.dryRun || v.count == n:
		return nil
	case x.dangerous && v.all:
		return a.confirmCount(question, n)
	case n == 1:
		question = fmt.Sprintf("%s %s: %s As %s.", x.name, x.id(targets[0]), x.consequence, v.actor)
	}
	return a.confirm(v.yes, question)
}

// foresee says which targets would be refused as they are now. They may change until the verb is carried out. In a dry
// run do writes nothing.
func (x action[T]) foresee(ctx context.Context, a *app, out *verbOut, targets []T) error {
	for _, t := range targets {
		if ctx.Err() != nil {
			return nil
		}
		why := x.refuses(t)
		if why == "" {
			err := a.runWhole(ctx, func(ctx context.Context) error {
				_, err := x.do(ctx, t)
				return err
			})
			switch {
			case err == nil:
				continue
			case !isNo(err):
				return fmt.Errorf("%s of %s: %w", out.Verb, x.id(t), err)
			}
			why = oneLine(err.Error())
		}
		out.Refused = append(out.Refused, x.id(t)+": "+why)
	}
	return nil
}

// carryOut changes the targets until one fails or ctx ends. A target that is refused does not end it.
func (x action[T]) carryOut(ctx context.Context, a *app, out *verbOut, targets []T) error {
	line := a.progress(out.Verb, int64(len(targets)))
	defer line.end()
	for i, t := range targets {
		if ctx.Err() != nil {
			return nil
		}
		line.set(int64(i))
		// An interrupt must not leave a change of unknown fate.
		var made change
		err := a.runWhole(ctx, func(ctx context.Context) (err error) {
			made, err = x.do(ctx, t)
			return err
		})
		switch {
		case err == nil:
			out.Done++
			out.Changed = append(out.Changed, made)
		case isNo(err):
			out.Refused = append(out.Refused, x.id(t)+": "+oneLine(err.Error()))
		default:
			return fmt.Errorf("%s of %s: %w", out.Verb, x.id(t), err)
		}
	}
	return nil
}

// runWhole gives one change its time, also after an interrupt.
func (a *app) runWhole(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := a.bound(context.WithoutCancel(ctx))
	defer cancel()
	return do(ctx)
}

func (a *app) printVerb(out *verbOut) error {
	if a.json {
		return writeJSON(a.stdout, out)
	}
	for _, made := range out.Changed {
		if _, err := fmt.Fprintln(a.stdout, printable(made.String())); err != nil {
			return err
		}
	}
	for _, refused := range out.Refused {
		if _, err := fmt.Fprintln(a.stdout, "refused "+printable(refused)); err != nil {
			return err
		}
	}
	if out.DryRun {
		_, err := fmt.Fprintf(a.stdout, "would %s %d of %d; nothing was changed\n", out.Verb, out.Matched-len(out.Refused), out.Matched)
		return err
	}
	_, err := fmt.Fprintf(a.stdout, "%s: done for %d of %d, as %s\n", out.Verb, out.Done, out.Matched, printable(out.Actor))
	return err
}
