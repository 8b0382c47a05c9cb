package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/store"
)

// A keyVerb is a command that changes keys.
type keyVerb struct {
	verb
	keyFilter
	fence int64
}

// check refuses a verb that cannot be carried out, before anything is sent.
func (k *keyVerb) check(args []string) ([]idArg, error) {
	ids, err := parseIDs(args)
	if err == nil {
		err = k.verb.check(args)
	}
	if err == nil && k.fence != 0 && len(ids) != 1 {
		err = errors.New("--fence is the fence of one key: name one ID")
	}
	if err == nil {
		_, err = k.request(1, store.Cursor{})
	}
	return ids, err
}

// decidedOn is the fence of the record that the decision was made for.
func (k *keyVerb) decidedOn(r store.Record) int64 {
	if k.fence != 0 {
		return k.fence
	}
	return r.Fence
}

// A keyAction is the part of a verb that differs from other verbs on keys.
type keyAction struct {
	name, consequence string
	allowed           func(store.Record) bool // in the state of the record
	do                func(ctx context.Context, g *server.Guard, id store.ID, fence int64, by store.Audit) error
}

func (k *keyVerb) run(cmd *cobra.Command, a *app, args []string, x keyAction) error {
	named, err := k.check(args)
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
	s, end, err := keys.newStore()
	if err != nil {
		return err
	}
	defer end()
	over := s
	if k.dryRun {
		over = unwrittenStore{s}
	}
	guard, err := a.newGuard(over)
	if err != nil {
		return err
	}
	by := store.Audit{Actor: k.actor, Reason: k.reason}
	return action[store.Record]{
		name: x.name, consequence: x.consequence, noun: "key", dangerous: true,
		id:   func(r store.Record) string { return r.ID.String() },
		read: s.Read,
		list: func(ctx context.Context, limit int, after *store.Record) ([]store.Record, error) {
			var at store.Cursor
			if after != nil {
				at = store.Cursor{CreatedAt: after.CreatedAt, ID: after.ID}
			}
			req, err := k.request(limit, at)
			if err != nil {
				return nil, err
			}
			return s.Reader().List(ctx, req)
		},
		refuses: func(r store.Record) string {
			if k.decidedOn(r) == r.Fence && x.allowed(r) {
				return ""
			}
			return (&server.MovedOnError{ID: r.ID, State: r.State, Fence: r.Fence}).Error()
		},
		do: func(ctx context.Context, r store.Record) (change, error) {
			if err := x.do(ctx, guard, r.ID, k.decidedOn(r), by); err != nil {
				return change{}, toRefusal(err)
			}
			return changeOf(ctx, s, r), nil
		},
	}.apply(cmd.Context(), a, &k.verb, ids)
}

// changeOf reads what became of a key. A key that cannot be read was changed all the same.
func changeOf(ctx context.Context, s store.Store, before store.Record) change {
	c := change{ID: before.ID.String(), From: before.State.String()}
	switch now, err := s.Read(ctx, before.ID); {
	case errors.Is(err, store.ErrNotFound):
		c.To = "forgotten"
	case err == nil:
		c.To, c.Fence = now.State.String(), now.Fence
	}
	return c
}

// isDead reports whether the owner's lease of a key in progress is over.
func isDead(r store.Record) bool {
	return r.State == store.StateInProgress && !r.LeaseUntil.After(r.Now)
}

func needsDecision(r store.Record) bool {
	return r.State == store.StateUnknown || r.State == store.StateQuarantined || isDead(r)
}

func hasNoOwner(r store.Record) bool { return r.State != store.StateInProgress || isDead(r) }

// toRefusal turns the refusal of one key into the answer "no".
func toRefusal(err error) error {
	var moved *server.MovedOnError
	if errors.As(err, &moved) || errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrArgument) {
		return no("%v", err)
	}
	return err
}

const asHappened = "happened"

var decisions = []string{"never-happened", "run-again", "abandoned", asHappened}

var resolutions = map[string]server.Resolution{
	"never-happened": server.NeverHappened(), "run-again": server.RunAgain(), "abandoned": server.Abandoned(),
}

// consequences are what follows from a decision for each key.
var consequences = map[string]string{
	"never-happened": "their next call runs again.", "run-again": "their next call runs again.",
	"abandoned": "they never run again, although their effect may have happened.",
	asHappened:  "its retries get that answer, in plain text, and it never runs again.",
}

// checkDecision refuses a decision that is none, or that lacks what it needs.
func checkDecision(as string, v *keyVerb, h *happening, args []string) error {
	switch {
	case !slices.Contains(decisions, as):
		return fmt.Errorf("--as %q is none of %s", as, strings.Join(decisions, ", "))
	case as != asHappened && h.given():
		return errors.New("--status, --body-file, --content-type, --plain and --retention need --as happened")
	case as != asHappened:
		return nil
	case v.all || len(args) > 1:
		return errors.New("--as happened settles one key: name one ID")
	}
	return h.check()
}

func newKeysResolve(a *app) *cobra.Command {
	v, h := &keyVerb{}, &happening{}
	var as string
	cmd := &cobra.Command{
		Use: "resolve ID...", Short: "Decide about unknown and quarantined keys",
		Long: `Decide about unknown and quarantined keys, or about one whose owner is dead.

  --as never-happened  no run had an effect: the next call runs, and an undo is told never-ran
  --as run-again       another run does no harm, whatever happened before: the next call runs
  --as abandoned       the key must never run again: retries get key-cancelled

  --as happened        the effect happened once: retries get the answer of --status and --body-file, for --retention

--as happened is for one key, of any effect class. --retention should be the Retention of the service's guard. --plain is
required. By it you state that the service's guards have no Codec, or one with OpenPlain: this program cannot
seal an answer. Under any other guard the retries would get record-unreadable. A key whose memo is sealed is refused. For a service that seals answers, use "It happened" in a
console that the service mounts, or Guard.Resolve with Happened in its own program.

A key that has changed since it was read, or that is not at --fence, is refused and not changed.`,
		Example: "  fanonce keys resolve --as run-again --reason 'bank confirms: no charge' 6f1ed002-ab55-8a2c-9a51-0c6d5e4f3a2b\n" +
			"  fanonce keys resolve --as run-again --all --state quarantined --route charge --reason 'bug 12 is fixed' --dry-run\n" +
			"  fanonce keys resolve --as happened --plain --status 201 --body-file receipt.json --reason 'bank has it' 6f1ed002-ab55-8a2c-9a51-0c6d5e4f3a2b",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkDecision(as, v, h, args); err != nil {
				return err
			}
			r, consequence := resolutions[as], consequences[as]
			if as == asHappened {
				a.retention = h.retention
				var err error
				if r, err = h.resolution(a); err != nil {
					return err
				}
			}
			return v.run(cmd, a, args, keyAction{"resolve", consequence, needsDecision,
				func(ctx context.Context, g *server.Guard, id store.ID, fence int64, by store.Audit) error {
					return g.Resolve(ctx, id, fence, r, by)
				}})
		},
	}
	v.verb.flags(cmd, a)
	v.keyFilter.flags(cmd, a)
	h.flags(cmd)
	cmd.Flags().StringVar(&as, "as", "", "the decision: never-happened, run-again, abandoned or happened; required")
	cmd.Flags().Int64Var(&v.fence, "fence", 0, "the fence of the record that the decision was made for; default: as it is now")
	_ = cmd.RegisterFlagCompletionFunc("as", cobra.FixedCompletions(decisions, cobra.ShellCompDirectiveNoFileComp))
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
			return v.run(cmd, a, args, keyAction{"forget", "their next call runs, also if the effect has happened.", hasNoOwner,
				func(ctx context.Context, g *server.Guard, id store.ID, fence int64, by store.Audit) error {
					return g.Forget(ctx, id, fence, by)
				}})
		},
	}
	v.verb.flags(cmd, a)
	v.keyFilter.flags(cmd, a)
	cmd.Flags().Int64Var(&v.fence, "fence", 0, "the fence of the record that the decision was made for; default: as it is now")
	return cmd
}

// maxAnswerBytes is the longest body of an answer that this program stores.
const maxAnswerBytes = 1 << 20

// A happening is the flags of keys resolve --as happened.
type happening struct {
	status                int
	bodyFile, contentType string
	plain                 bool
	retention             time.Duration
}

func (h *happening) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.IntVar(&h.status, "status", 0, "with --as happened: status of the answer, 200 to 999; required")
	f.StringVar(&h.bodyFile, "body-file", "", "with --as happened: file with the body of the answer; - is stdin; default: no body")
	f.StringVar(&h.contentType, "content-type", "", "with --as happened: default application/json for a body in JSON, else text/plain")
	f.BoolVar(&h.plain, "plain", false, "with --as happened: the service's guards read answers in plain text; required")
	f.DurationVar(&h.retention, "retention", 0, "with --as happened: how long retries get the answer; default 24h, as a guard's Retention")
}

// checkRetention refuses a time that no guard's Retention can be.
func checkRetention(d time.Duration) error {
	if d != 0 && (d < server.DefaultLease || d > server.MaxRetention) {
		return fmt.Errorf("--retention %v is not between %v and %v", d, server.DefaultLease, server.MaxRetention)
	}
	return nil
}

// given reports whether one of the flags is used.
func (h *happening) given() bool { return *h != happening{} }

// check refuses an answer that no guard can store.
func (h *happening) check() error {
	switch {
	case !h.plain:
		return errors.New("--as happened needs --plain: this program does not seal the answer, " +
			"so a service whose guards have a Codec could not read it; see --help")
	case h.status < 200 || h.status > 999:
		return fmt.Errorf("--status %d is not between 200 and 999: it is the status that retries get", h.status)
	case h.contentType != "" && h.bodyFile == "":
		return errors.New("--content-type needs --body-file")
	case h.bodyFile != "" && (h.status == http.StatusNoContent || h.status == http.StatusNotModified):
		return fmt.Errorf("--body-file: an answer with the status %d has no body", h.status)
	}
	return checkRetention(h.retention)
}

// resolution reads the body.
func (h *happening) resolution(a *app) (server.Resolution, error) {
	r := server.Response{Status: h.status}
	if h.bodyFile == "" {
		return server.Happened(r), nil
	}
	file := a.stdin
	if h.bodyFile != "-" {
		var err error
		if file, err = os.Open(h.bodyFile); err != nil {
			return server.Resolution{}, fmt.Errorf("--body-file: %w", err)
		}
		defer file.Close()
	} else {
		a.tookLine = true
	}
	body, err := io.ReadAll(io.LimitReader(file, maxAnswerBytes+1))
	switch {
	case err != nil:
		return server.Resolution{}, fmt.Errorf("--body-file: %w", err)
	case len(body) > maxAnswerBytes:
		return server.Resolution{}, errors.New("--body-file has more than " + strconv.Itoa(maxAnswerBytes) + " bytes")
	}
	r.Body, r.Header = body, http.Header{"Content-Type": {h.typeOf(body)}}
	return server.Happened(r), nil
}

func (h *happening) typeOf(body []byte) string {
	switch {
	case h.contentType != "":
		return h.contentType
	case json.Valid(body):
		return "application/json"
	default:
		return "text/plain; charset=utf-8"
	}
}
