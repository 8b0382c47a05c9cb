package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/store"
)

// auditRow is one line of an audit log in JSON.
type auditRow struct {
	At     string `json:"at"`
	ID     string `json:"id"`
	Verb   string `json:"verb"`
	Step   string `json:"step,omitempty"` // of a saga
	Actor  string `json:"actor"`
	Reason string `json:"reason"`
	From   string `json:"from"`
	To     string `json:"to"` // "": forgotten
	Fence  int64  `json:"fence"`
}

type auditOut struct {
	Audit []auditRow `json:"audit"`
}

func (a *app) printAudit(rows []auditRow) error {
	if a.json {
		return writeJSON(a.stdout, auditOut{rows})
	}
	t := newTable(a.stdout, "AT", "ID", "VERB", "FROM", "TO", "ACTOR", "REASON")
	for _, r := range rows {
		t.row(r.At, r.ID, strings.TrimSpace(r.Verb+" "+r.Step), r.From, r.To, r.Actor, r.Reason)
	}
	return t.flush()
}

func auditOf(entries []store.AuditEntry) []auditRow {
	rows := make([]auditRow, len(entries))
	for i, e := range entries {
		rows[i] = auditRow{stamp(e.At), e.ID.String(), string(e.Verb), "", e.Actor, e.Reason, e.From.String(), "", e.Fence}
		if e.To != 0 {
			rows[i].To = e.To.String()
		}
	}
	return rows
}

func newKeysAudit(a *app) *cobra.Command {
	var p page
	cmd := &cobra.Command{
		Use: "audit [ID]", Short: "Show who changed keys, the youngest change first", Args: takes(0, 1),
		Example: "  fanonce keys audit --limit 20",
		RunE: func(cmd *cobra.Command, args []string) error {
			ids, err := parseIDs(args)
			if err := errors.Join(err, p.check()); err != nil {
				return err
			}
			guard, s, err := a.guard(cmd.Context())
			if err != nil {
				return err
			}
			defer s.Close()
			ctx, cancel := a.bounded(cmd.Context())
			defer cancel()
			entries, err := guard.AuditLog(ctx, first(ids), p.limit)
			if err != nil {
				return err
			}
			return a.printAudit(auditOf(entries))
		},
	}
	cmd.Flags().IntVar(&p.limit, "limit", 50, "how many at most, up to 1000")
	return cmd
}

func first(ids []store.ID) (id store.ID) {
	if len(ids) > 0 {
		id = ids[0]
	}
	return id
}

func parseIDs(args []string) ([]store.ID, error) {
	ids := make([]store.ID, len(args))
	for i, arg := range args {
		id, err := store.ParseID(arg)
		if err != nil {
			return nil, fmt.Errorf("%q is no ID: want the form of a UUID, as lists and logs have it", arg)
		}
		ids[i] = id
	}
	return ids, nil
}

// keyShowOut is the JSON of keys show.
type keyShowOut struct {
	Key   keyRow     `json:"key"`
	Audit []auditRow `json:"audit"` // the youngest 20
}

func newKeysShow(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "show ID", Short: "Show one key: its state, its owner's lease, its times and its audit log", Args: takes(1, 1),
		Example: "  fanonce keys show 6f1ed002-ab55-8a2c-9a51-0c6d5e4f3a2b",
		RunE: func(cmd *cobra.Command, args []string) error {
			ids, err := parseIDs(args)
			if err != nil {
				return err
			}
			guard, s, err := a.guard(cmd.Context())
			if err != nil {
				return err
			}
			defer s.Close()
			ctx, cancel := a.bounded(cmd.Context())
			defer cancel()
			r, err := s.Read(ctx, ids[0])
			if errors.Is(err, store.ErrNotFound) {
				return no("no key has the ID %s", ids[0])
			}
			if err != nil {
				return err
			}
			entries, err := guard.AuditLog(ctx, ids[0], 20)
			if err != nil {
				return err
			}
			return a.printShown(keyShowOut{rowOf(&r), auditOf(entries)}, &r)
		},
	}
}

func (a *app) printShown(out keyShowOut, r *store.Record) error {
	if a.json {
		return writeJSON(a.stdout, out)
	}
	t := newTable(a.stdout, "ID", out.Key.ID)
	for _, row := range [][2]any{
		{"state", r.State}, {"effect", r.Effect}, {"route", r.Route}, {"fence", r.Fence}, {"recovery attempts", r.RecoveryAttempts},
		{"may have run", r.MaybeRan}, {"status", r.Answer.Status}, {"age", ago(r.Now.Sub(r.CreatedAt))}, {"created", out.Key.CreatedAt},
		{"lease until", out.Key.LeaseUntil}, {"replays until", out.Key.ReplayUntil}, {"expires", out.Key.ExpiresAt}, {"parent", out.Key.Parent},
	} {
		t.row(row[0], row[1])
	}
	if err := t.flush(); err != nil || len(out.Audit) == 0 {
		return err
	}
	_, _ = fmt.Fprintln(a.stdout)
	return a.printAudit(out.Audit)
}

// targets reads the keys that a verb is for: those that are named, or all that match.
func (a *app) targets(ctx context.Context, s reader, v *verb, f *keyFilter, ids []store.ID) ([]store.Record, error) {
	var out []store.Record
	for _, id := range ids {
		one, cancel := a.bounded(ctx)
		r, err := s.Read(one, id)
		cancel()
		if errors.Is(err, store.ErrNotFound) {
			return nil, no("no key has the ID %s", id)
		}
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	for at := (store.Cursor{}); v.all && len(out) < v.most; {
		req, err := f.request(min(maxPage, v.most-len(out)), at)
		if err != nil {
			return nil, err
		}
		one, cancel := a.bounded(ctx)
		records, err := s.List(one, req)
		cancel()
		if err != nil {
			return nil, err
		}
		out = append(out, records...)
		if len(records) < req.Limit {
			break
		}
		last := records[len(records)-1]
		at = store.Cursor{CreatedAt: last.CreatedAt, ID: last.ID}
	}
	return out, nil
}

// A reader reads records.
type reader interface {
	List(ctx context.Context, req store.ListRequest) ([]store.Record, error)
	Read(ctx context.Context, id store.ID) (store.Record, error)
}

// A keyVerb is a command that changes keys.
type keyVerb struct {
	verb
	keyFilter
	fence int64
}

func (v *keyVerb) run(cmd *cobra.Command, a *app, args []string, name, question string, do func(context.Context, *server.Guard, store.Record) error) error {
	ids, err := parseIDs(args)
	if err == nil {
		err = v.check(args)
	}
	if err == nil && v.fence != 0 && len(ids) != 1 {
		err = errors.New("--fence is of one key: name one ID")
	}
	if _, bad := v.request(1, store.Cursor{}); err == nil {
		err = bad
	}
	if err != nil {
		return err
	}
	guard, s, err := a.guard(cmd.Context())
	if err != nil {
		return err
	}
	defer s.Close()
	records, err := a.targets(cmd.Context(), s, &v.verb, &v.keyFilter, ids)
	if err != nil {
		return err
	}
	if v.fence != 0 {
		records[0].Fence = v.fence
	}
	return apply(cmd.Context(), a, &v.verb, name, question, records, func(r store.Record) string { return r.ID.String() },
		func(ctx context.Context, r store.Record) error { return refused(do(ctx, guard, r)) })
}

// refused makes a no of what the store says about one key.
func refused(err error) error {
	var moved *server.MovedOnError
	if errors.As(err, &moved) || errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrArgument) {
		return no("%v", err)
	}
	return err
}

var resolutions = map[string]server.Resolution{
	"never-happened": server.NeverHappened(), "run-again": server.RunAgain(), "abandoned": server.Abandoned(),
}

func newKeysResolve(a *app) *cobra.Command {
	v := &keyVerb{}
	var as string
	cmd := &cobra.Command{
		Use: "resolve ID...", Short: "Decide about unknown and quarantined keys",
		Long: `Decide about unknown and quarantined keys, or about one whose owner is dead.

  --as never-happened  no run had an effect: the next call runs, and an undo is told never-ran
  --as run-again       another run does no harm, whatever happened before: the next call runs
  --as abandoned       the key must never run again: retries get key-cancelled

"It happened, and this was the answer" is for the service's own program (Guard.Resolve with Happened): only the
service encodes and seals answers as it reads them.

A key that has changed since it was read, or that is not at --fence, is refused and not changed.`,
		Example: "  fanonce keys resolve --as run-again --reason 'bank confirms: no charge' 6f1ed002-ab55-8a2c-9a51-0c6d5e4f3a2b\n" +
			"  fanonce keys resolve --as run-again --all --state quarantined --route charge --reason 'bug 12 is fixed' --dry-run",
		RunE: func(cmd *cobra.Command, args []string) error {
			r, ok := resolutions[as]
			if !ok {
				return fmt.Errorf("--as %q is none of never-happened, run-again, abandoned", as)
			}
			question := "their next call runs again."
			if as == "abandoned" {
				question = "they never run again, although their effect may have happened."
			}
			return v.run(cmd, a, args, "resolve", question, func(ctx context.Context, g *server.Guard, rec store.Record) error {
				return g.Resolve(ctx, rec.ID, rec.Fence, r, store.Audit{Actor: v.actor, Reason: v.reason})
			})
		},
	}
	v.verb.flags(cmd, a)
	v.keyFilter.flags(cmd)
	cmd.Flags().StringVar(&as, "as", "", "the decision: never-happened, run-again or abandoned; required")
	cmd.Flags().Int64Var(&v.fence, "fence", 0, "the fence of the record that the decision was made for; default: as it is now")
	_ = cmd.RegisterFlagCompletionFunc("as", cobra.FixedCompletions([]string{"never-happened", "run-again", "abandoned"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func newKeysForget(a *app) *cobra.Command {
	v := &keyVerb{}
	cmd := &cobra.Command{
		Use: "forget ID...", Short: "Delete the records of keys: their next call runs, whatever happened before",
		Long: `Delete the records of keys, unless a live owner runs them. The next call with such a key runs, also if an earlier
one had its effect. It is for keys of tests, and for requests to erase what is stored.`,
		Example: "  fanonce keys forget --reason 'erasure request 4' 6f1ed002-ab55-8a2c-9a51-0c6d5e4f3a2b",
		RunE: func(cmd *cobra.Command, args []string) error {
			return v.run(cmd, a, args, "forget", "their next call runs, also if the effect has happened.",
				func(ctx context.Context, g *server.Guard, rec store.Record) error {
					return g.Forget(ctx, rec.ID, rec.Fence, store.Audit{Actor: v.actor, Reason: v.reason})
				})
		},
	}
	v.verb.flags(cmd, a)
	v.keyFilter.flags(cmd)
	cmd.Flags().Int64Var(&v.fence, "fence", 0, "the fence of the record that the decision was made for; default: as it is now")
	return cmd
}
