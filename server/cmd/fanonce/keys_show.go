package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

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
	var actor string
	cmd := &cobra.Command{
		Use: "audit [ID]", Short: "Show who changed keys, the youngest change first", Args: takes(0, 1),
		ValidArgsFunction: a.completes(suggestKeys, 1),
		Example:           "  fanonce keys audit --limit 20",
		RunE: func(cmd *cobra.Command, args []string) error {
			ids, err := parseIDs(args)
			if err := errors.Join(err, p.check()); err != nil {
				return err
			}
			r, err := a.keyReader(cmd.Context())
			if err != nil {
				return err
			}
			entries, err := r.AuditPage(cmd.Context(), store.AuditRequest{ID: first(ids), Actor: actor, Limit: p.limit})
			if err != nil {
				return err
			}
			return a.printAudit(auditOf(entries))
		},
	}
	cmd.Flags().IntVar(&p.limit, "limit", 50, "how many at most, up to 1000")
	cmd.Flags().StringVar(&actor, "actor", "", "by this actor")
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
		ValidArgsFunction: a.completes(suggestKeys, 1),
		Example:           "  fanonce keys show 6f1ed002-ab55-8a2c-9a51-0c6d5e4f3a2b",
		RunE: func(cmd *cobra.Command, args []string) error {
			ids, err := parseIDs(args)
			if err != nil {
				return err
			}
			reader, err := a.keyReader(cmd.Context())
			if err != nil {
				return err
			}
			r, err := reader.Show(cmd.Context(), ids[0])
			if errors.Is(err, store.ErrNotFound) {
				return no("no key has the ID %s", ids[0])
			}
			if err != nil {
				return err
			}
			entries, err := reader.AuditPage(cmd.Context(), store.AuditRequest{ID: ids[0], Limit: 20})
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
