package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/server/store"
)

// readTime is the time of --timeout, but not more than a Reader accepts.
func (a *app) readTime() time.Duration { return min(a.timeout, time.Hour) }

// tooSlow says how a list can end in time.
func tooSlow(err error) error {
	if errors.Is(err, store.ErrTooSlow) || errors.Is(err, journal.ErrTooSlow) {
		return fmt.Errorf("%w: look at a shorter time with --since, or give it a longer --timeout", err)
	}
	return err
}

// stateAny lists keys of all states.
const stateAny = "any"

var keyStates = map[string]store.State{
	"in-progress": store.StateInProgress, "completed": store.StateCompleted, "released": store.StateReleased,
	"unknown": store.StateUnknown, "quarantined": store.StateQuarantined, "cancelled": store.StateCancelled,
}

func keyStateNames() []string {
	names := []string{stateAny, "dead-letter"}
	for name := range keyStates {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

const (
	defaultSince = time.Hour
	mostSince    = 10 * 365 * 24 * time.Hour
)

// A keyList is the flags of keys list.
type keyList struct {
	keyFilter
	page

	since time.Duration
}

// browses reports whether the list is of a time, not of the keys that need a person.
func (k *keyList) browses() bool {
	return k.since != 0 || k.state != "" && k.state != "dead-letter" && !slices.Contains(stuckStates, k.state)
}

// check refuses flags that do not go together.
func (k *keyList) check() error {
	switch {
	case k.state != "" && !slices.Contains(keyStateNames(), k.state):
		return fmt.Errorf("--state %q is none of %s", k.state, strings.Join(keyStateNames(), ", "))
	case k.since < 0 || k.since > mostSince:
		return fmt.Errorf("--since %v is not between 0 and ten years", k.since)
	case k.since != 0 && k.state == "dead-letter":
		return errors.New("--since is not for dead letters: they are listed whatever their age")
	}
	return k.page.check()
}

// read returns the keys of a page.
func (k *keyList) read(ctx context.Context, keys *keyring, after store.Cursor) ([]store.Record, error) {
	if !k.browses() {
		req, err := k.request(k.limit, after)
		if err != nil {
			return nil, err
		}
		return keys.List(ctx, req)
	}
	if k.since == 0 {
		k.since = defaultSince
	}
	now, err := keys.now(ctx)
	if err != nil {
		return nil, err
	}
	req := store.BrowseRequest{From: now.Add(-k.since), Route: k.route, Before: after, Limit: k.limit}
	switch state, ok := keyStates[k.state]; {
	case ok:
		req.States = []store.State{state}
	case k.state == "":
		req.States = []store.State{store.StateUnknown, store.StateQuarantined}
	}
	return keys.Browse(ctx, req)
}

func newKeysList(a *app) *cobra.Command {
	var l keyList
	cmd := &cobra.Command{
		Use: "list", Short: "List keys that need a person, the oldest first; or those of a time", Args: takes(0, 0),
		Long: `List keys that need a person, the oldest first: unknown and quarantined ones, or dead letters. The list reads the
notes of such keys, and no others, however large the table is.

With another --state, or with --since, list the keys that were created in that time, the youngest first. That needs the
indexes of migrate up --component reader.`,
		Example: "  fanonce keys list --state unknown --limit 100 --json\n  fanonce keys list --state completed --since 15m",
		RunE: func(cmd *cobra.Command, _ []string) error {
			at, id, err := parseCursor(l.after)
			if err := errors.Join(err, l.check()); err != nil {
				return err
			}
			keys, err := a.keyring(cmd.Context())
			if err != nil {
				return err
			}
			records, err := l.read(cmd.Context(), keys, store.Cursor{CreatedAt: at, ID: id})
			if err != nil {
				return tooSlow(err)
			}
			return a.printKeys(records, l.limit)
		},
	}
	cmd.Flags().StringVar(&l.state, "state", "", strings.Join(keyStateNames(), ", ")+"; default: unknown and quarantined")
	cmd.Flags().StringVar(&l.route, "route", "", "of this route, \"namespace:name\" for one of a namespace")
	cmd.Flags().DurationVar(&l.since, "since", 0, "created at most so long ago; default for other states: 1h")
	_ = cmd.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(keyStateNames(), cobra.ShellCompDirectiveNoFileComp))
	l.page.flags(cmd)
	return cmd
}

func newKeysChildren(a *app) *cobra.Command {
	var p page
	cmd := &cobra.Command{
		Use: "children ID", Short: "List the keys of this database whose parent is a key", Args: takes(1, 1),
		Long: `List the keys of this database that were called on behalf of the key ID, the oldest first. ID may be a key of another
service: callers that use the SDK send it along. The list needs the indexes of migrate up --component reader.`,
		Example: "  fanonce keys children 6f1ed002-ab55-8a2c-9a51-0c6d5e4f3a2b",
		RunE: func(cmd *cobra.Command, args []string) error {
			named, err := parseIDs(args)
			at, id, bad := parseCursor(p.after)
			if err := errors.Join(err, bad, p.check()); err != nil {
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
			req := store.ListRequest{Parent: ids[0], Limit: p.limit, After: store.Cursor{CreatedAt: at, ID: id}}
			records, err := keys.List(cmd.Context(), req)
			if err != nil {
				return tooSlow(err)
			}
			return a.printKeys(records, p.limit)
		},
	}
	p.flags(cmd)
	return cmd
}
