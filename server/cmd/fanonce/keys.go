package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fanonce/fanonce/server/store"
)

func newKeys(a *app) *cobra.Command {
	keys := group(&cobra.Command{
		Use: "keys", Short: "List, show and settle keys that need a person",
		Long: `List, show and settle keys that need a person. Keys are known by their IDs, as logs and problems have them; key id
makes one. The first four digits or more of an ID are enough, where no other ID begins with them. Neither a key's text
nor a body nor an answer is shown.

The keys of a service that uses Redis are at redis://HOST:PORT/NUMBER?prefix=NAME&replicas=N, as --database or
DATABASE_URL. Prefix and replicas are those of the service's redisstore.Config. There the beginning of an ID is looked
up among the keys that need a person.`,
	})
	keys.AddCommand(newKeysList(a), newKeysChildren(a), newKeysShow(a), newKeysResolve(a), newKeysForget(a), newKeysAudit(a))
	return keys
}

// keyRow is one key in JSON.
type keyRow struct {
	ID               string `json:"id"`
	State            string `json:"state"`
	Effect           string `json:"effect"`
	Route            string `json:"route,omitempty"`
	Fence            int64  `json:"fence"`
	RecoveryAttempts int    `json:"recovery_attempts"`
	MaybeRan         bool   `json:"maybe_ran"`
	Parent           string `json:"parent,omitempty"`
	Status           int    `json:"status,omitempty"`
	CreatedAt        string `json:"created_at"`
	LeaseUntil       string `json:"lease_until,omitempty"`
	ExpiresAt        string `json:"expires_at"`
	ReplayUntil      string `json:"replay_until,omitempty"`
	AgeSeconds       int64  `json:"age_seconds"`
}

func rowOf(r *store.Record) keyRow {
	row := keyRow{
		ID: r.ID.String(), State: r.State.String(), Effect: r.Effect.String(), Route: r.Route, Fence: r.Fence,
		RecoveryAttempts: r.RecoveryAttempts, MaybeRan: r.MaybeRan, Status: r.Answer.Status, CreatedAt: stamp(r.CreatedAt),
		LeaseUntil: stamp(r.LeaseUntil), ExpiresAt: stamp(r.ExpiresAt), ReplayUntil: stamp(r.ReplayUntil),
		AgeSeconds: int64(r.Now.Sub(r.CreatedAt) / time.Second),
	}
	if r.Parent != (store.ID{}) {
		row.Parent = r.Parent.String()
	}
	return row
}

// A keyFilter says which keys that need a person are meant.
type keyFilter struct{ state, route string }

var stuckStates = []string{"unknown", "quarantined", "dead-letter"}

func (k *keyFilter) flags(cmd *cobra.Command, a *app) {
	cmd.Flags().StringVar(&k.state, "state", "", "unknown, quarantined or dead-letter; default: unknown and quarantined")
	cmd.Flags().StringVar(&k.route, "route", "", "of this route, \"namespace:name\" for one of a namespace")
	_ = cmd.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(stuckStates, cobra.ShellCompDirectiveNoFileComp))
}

// request lists by the notes of keys that need a person: it reads no other keys.
func (k *keyFilter) request(limit int, after store.Cursor) (store.ListRequest, error) {
	req := store.ListRequest{Route: k.route, Limit: limit, After: after, DeadLetters: k.state == "dead-letter"}
	switch {
	case k.state == "":
		req.States = []store.State{store.StateUnknown, store.StateQuarantined}
	case !slices.Contains(stuckStates, k.state):
		return req, fmt.Errorf("--state %q is none of %s", k.state, strings.Join(stuckStates, ", "))
	case !req.DeadLetters:
		req.States = []store.State{keyStates[k.state]}
	}
	return req, nil
}

// keysListOut is the JSON of keys list.
type keysListOut struct {
	Keys []keyRow `json:"keys"`
	Next string   `json:"next,omitempty"` // for --after; absent at the end
}

func (a *app) printKeys(records []store.Record, limit int) error {
	out := keysListOut{Keys: []keyRow{}}
	t := newTable(a.stdout, "ID", "STATE", "EFFECT", "ROUTE", "FENCE", "AGE")
	for i := range records {
		r := &records[i]
		out.Keys = append(out.Keys, rowOf(r))
		t.row(r.ID, r.State, r.Effect, r.Route, r.Fence, ago(r.Now.Sub(r.CreatedAt)))
	}
	if n := len(records); n == limit {
		out.Next = cursorText(records[n-1].CreatedAt, records[n-1].ID.String())
	}
	return a.printPage(out, t, out.Next)
}

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

// An auditReader reads a log, of at most one ID.
type auditReader func(ctx context.Context, ids []idArg, actor string, limit int) ([]auditRow, error)

// newAudit makes the command audit of keys or of sagas.
func newAudit(a *app, cmd *cobra.Command, read auditReader) *cobra.Command {
	var p page
	var actor string
	cmd.Use, cmd.Args = "audit [ID]", takes(0, 1)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ids, err := parseIDs(args)
		if err := errors.Join(err, p.check()); err != nil {
			return err
		}
		rows, err := read(cmd.Context(), ids, actor, p.limit)
		if err != nil {
			return tooSlow(err)
		}
		return a.printAudit(rows)
	}
	cmd.Flags().IntVar(&p.limit, "limit", 50, "how many at most, up to 1000")
	cmd.Flags().StringVar(&actor, "actor", "", "by this actor")
	return cmd
}

func newKeysAudit(a *app) *cobra.Command {
	return newAudit(a, &cobra.Command{Short: "Show who changed keys, the youngest change first", Example: "  fanonce keys audit --limit 20"},
		func(ctx context.Context, args []idArg, actor string, limit int) ([]auditRow, error) {
			keys, err := a.keyring(ctx)
			if err != nil {
				return nil, err
			}
			ids, err := complete(ctx, args, "key", keys.ids)
			if err != nil {
				return nil, err
			}
			entries, err := keys.AuditPage(ctx, store.AuditRequest{ID: append(ids, store.ID{})[0], Actor: actor, Limit: limit})
			return auditOf(entries), err
		})
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
			named, err := parseIDs(args)
			if err != nil {
				return err
			}
			keys, err := a.keyring(cmd.Context())
			if err != nil {
				return err
			}
			ids, err := complete(cmd.Context(), named, "key", keys.ids)
			if err != nil {
				return err
			}
			r, err := keys.Show(cmd.Context(), ids[0])
			if errors.Is(err, store.ErrNotFound) {
				return no("no key has the ID %s", ids[0])
			}
			if err != nil {
				return err
			}
			entries, err := keys.AuditPage(cmd.Context(), store.AuditRequest{ID: ids[0], Limit: 20})
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
		{"may have run", r.MaybeRan}, {"status", orNone(r.Answer.Status)}, {"age", ago(r.Now.Sub(r.CreatedAt))}, {"created", out.Key.CreatedAt},
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
