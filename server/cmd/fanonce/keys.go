package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/store"
)

func newKeys(a *app) *cobra.Command {
	keys := group(&cobra.Command{
		Use: "keys", Short: "List, show and settle keys that need a person",
		Long: `List, show and settle keys that need a person. Keys are known by their IDs, as logs and problems have them; key id
makes one. Neither a key's text nor a body nor an answer is shown.`,
	})
	keys.AddCommand(newKeysList(a), newKeysChildren(a), newKeysShow(a), newKeysResolve(a), newKeysForget(a), newKeysAudit(a))
	return keys
}

// guard opens the store behind a guard of no namespace: IDs are those of any.
func (a *app) guard(ctx context.Context) (*server.Guard, *pgstore.Store, error) {
	pool, err := a.pool(ctx)
	if err != nil {
		return nil, nil, err
	}
	if err := a.ready(ctx, "keys"); err != nil {
		return nil, nil, err
	}
	s, err := pgstore.New(pool, pgstore.Config{Schema: a.schema})
	if err != nil {
		return nil, nil, err
	}
	g, err := server.NewGuard(s, server.Unscoped, server.Config{StoreTimeout: a.timeout, Retention: a.retention})
	return g, s, err
}

// ready returns an error where the tables of a component are not usable.
func (a *app) ready(ctx context.Context, name string) error {
	for _, c := range components {
		if c.name != name {
			continue
		}
		v, err := a.version(ctx, a.opened, &c)
		if err == nil && !v.usable() {
			err = fmt.Errorf("the tables of %s are %s: see fanonce doctor", name, v.state())
		}
		return err
	}
	return nil
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

func (f *keyFilter) flags(cmd *cobra.Command, a *app) {
	cmd.Flags().StringVar(&f.state, "state", "", "unknown, quarantined or dead-letter; default: unknown and quarantined")
	cmd.Flags().StringVar(&f.route, "route", "", "of this route, \"namespace:name\" for one of a namespace")
	a.completesFlag(cmd, "route", suggestRoutes)
	_ = cmd.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(stuckStates, cobra.ShellCompDirectiveNoFileComp))
}

// request lists by the notes of keys that need a person: it reads no other keys.
func (f *keyFilter) request(limit int, after store.Cursor) (store.ListRequest, error) {
	req := store.ListRequest{Route: f.route, Limit: limit, After: after}
	switch f.state {
	case "":
		req.States = []store.State{store.StateUnknown, store.StateQuarantined}
	case "unknown":
		req.States = []store.State{store.StateUnknown}
	case "quarantined":
		req.States = []store.State{store.StateQuarantined}
	case "dead-letter":
		req.DeadLetters = true
	default:
		return req, fmt.Errorf("--state %q is none of %s", f.state, strings.Join(stuckStates, ", "))
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
