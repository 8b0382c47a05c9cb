package server

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server/internal/engine"
	"github.com/fanonce/fanonce/server/internal/record"
	"github.com/fanonce/fanonce/server/store"
)

// A call is one call of the engine. It has the route of its request; nil for a task.
type call struct {
	engine.Call
	route *Route
}

type outcome = engine.Outcome

// resultOf is the result of a handler that answered with status, before its answer is
// encoded.
func resultOf(status int) engine.Result {
	return engine.Result{Answer: store.Answer{Status: status}, Disposition: classify(status)}
}

// classify says what the guard does with an answer of this status. [Effect] has the table.
func classify(status int) engine.Disposition {
	switch {
	case neverStored(status):
		return engine.Release
	case status >= http.StatusInternalServerError:
		return engine.Fail
	default:
		return engine.Store
	}
}

// neverStored reports whether status describes only this attempt, such as its
// caller, its time or its rate, and not the request.
func neverStored(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusProxyAuthRequired, http.StatusRequestTimeout,
		http.StatusMisdirectedRequest, http.StatusLocked, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	default:
		return false
	}
}

// A Task declares how [Guard.Do] and [Do] guard a function, as a [Route] does for a
// handler.
type Task struct {
	// Name names the function's work. It must not change while keys live: a key that was used for one task is refused
	// for another. It is UTF-8 without NUL, 1 to [MaxNameBytes] bytes. Required.
	Name string
	// Scope is the scope of the key: tenant and principal, as a [ScopeFunc]
	// returns it. Required.
	Scope string
	// Namespace separates the task's keys from the keys of the guard's routes and of other namespaces, as
	// [Config.Namespace] does. The guard's namespace comes before it. It must not change while keys live. It is
	// "inbox/" and a name as [childkey.CheckName] asks. Under a guard with a namespace it may also be such a name
	// alone, but not begin with "saga/". Zero means the guard's own.
	Namespace string
	// Effect is where the function's effects go. Required.
	Effect Effect
	// Wait is how long a duplicate waits for the first run, as on a route: Do
	// blocks at most for that time, and then returns in-progress. Zero means
	// [Config.Wait]; negative means not at all.
	Wait time.Duration
	// Prefer has the lines of the caller's Prefer header, or of its metadata. Their wait=N replaces Wait, and is at most
	// [DefaultWaitCap], or Config.Wait if that is longer. Nil means that the caller has no wish.
	Prefer []string
	// Cancels is the forward key of an undo, as the forward call had it, for
	// [Barrier] and [ForwardKey]. Zero if the task undoes nothing.
	Cancels childkey.Key
	// FirstSent is the time of the first request, from a durable record. Zero
	// means that it is not known.
	FirstSent time.Time
	// KeyOptional lets a Transactional task run for the zero key, as [Route].KeyOptional does: in a transaction, without a
	// record, each time anew. Cancels then counts for nothing. Other classes need a key, because without one there is
	// nothing that Do could add to a call of the function.
	KeyOptional bool
}

// CheckTask returns nil if [Guard.Do] accepts t, whatever the key and the input. Otherwise
// it returns what Do would return. It is for constructors of adapters.
func (g *Guard) CheckTask(t Task) error {
	switch {
	case t.Name == "":
		return reject("Task.Name", `""`, "is required")
	case !isScope(t.Scope):
		return refusal(wire.ScopeMissing, errBadScope)
	case wire.CheckFirstSent(t.FirstSent) != nil:
		return refusal(wire.FirstSentInvalid, wire.CheckFirstSent(t.FirstSent))
	case time.Until(t.FirstSent) > g.cfg.Skew:
		return refusal(wire.FirstSentInvalid, errFuture)
	}
	if err := checkName("Task.Name", t.Name); err != nil {
		return err
	}
	if err := g.checkTaskNamespace(t.Namespace); err != nil {
		return err
	}
	if t.KeyOptional && t.Effect != Transactional {
		return reject("Task.KeyOptional", true, "only a Transactional task runs without a key: call the function of another one directly")
	}
	return g.checkRoute(Route{Effect: t.Effect, Wait: t.Wait})
}

func (g *Guard) checkTaskKey(t *Task, key childkey.Key) error {
	switch {
	case key.IsZero() && t.KeyOptional:
		return nil
	case key.IsZero():
		return refusal(wire.KeyMissing, fmt.Errorf("%w: the key is zero", ErrArgument))
	case g.cfg.KeyPolicy != nil && !strings.HasPrefix(t.Namespace, inboxPrefix) && g.cfg.KeyPolicy(key) != nil: // it is for callers' keys
		return refusal(wire.KeyInvalid, errKeyPolicy)
	case t.Cancels == key:
		return refusal(wire.KeyInvalid, errSelfUndo)
	}
	return nil
}

// checkTaskNamespace makes sure that no other guard over the store has the namespace. No guard's own namespace begins
// with inboxPrefix, and no name has a colon.
func (g *Guard) checkTaskNamespace(namespace string) error {
	if consumer, ofInbox := strings.CutPrefix(namespace, inboxPrefix); ofInbox {
		if err := childkey.CheckName(consumer); err != nil {
			return reject("Task.Namespace", fmt.Sprintf("%q", namespace), "after "+inboxPrefix+" it "+nameRule)
		}
		return nil
	}
	if namespace != "" && g.cfg.Namespace == "" {
		return reject("Task.Namespace", fmt.Sprintf("%q", namespace), "needs a Config.Namespace: else it could be another guard's")
	}
	return checkNamespace("Task.Namespace", namespace)
}

// namespaceOf returns the namespace of a task's keys.
func (g *Guard) namespaceOf(t *Task) string {
	switch {
	case t.Namespace == "":
		return g.cfg.Namespace
	case g.cfg.Namespace == "":
		return t.Namespace
	default:
		return g.cfg.Namespace + ":" + t.Namespace
	}
}

// taskCall makes c a call of t with key. input is in the form that is fingerprinted.
func (g *Guard) taskCall(ctx context.Context, c *call, t *Task, key childkey.Key, input []byte) error {
	if err := g.CheckTask(*t); err != nil {
		return err
	}
	if err := g.checkTaskKey(t, key); err != nil {
		return err
	}
	if int64(len(input)) > g.cfg.MaxRequestBytes {
		return refusal(wire.BodyTooLarge, fmt.Errorf("%w: the input has %d bytes, MaxRequestBytes is %d", ErrArgument, len(input), g.cfg.MaxRequestBytes))
	}
	c.Call = engine.Call{
		Route: engine.Route{Name: t.Name, Effect: t.Effect}, Key: key, Forward: t.Cancels, FirstSent: t.FirstSent, Bytes: int64(len(input)),
		Wait: g.taskWait(t), CountsAttempts: strings.HasPrefix(t.Namespace, inboxPrefix),
		Subject: record.Subject{
			Scope: t.Scope, Namespace: g.namespaceOf(t), Key: key.String(),
			Method: record.TaskMethod, Path: t.Name, MediaType: contract.ContentType, Cancels: t.Cancels.String(), Body: input,
		},
	}
	c.Inbound, _ = wire.FromContext(ctx) // the caller's limits also bound the calls made for it
	if key.IsZero() {
		c.Forward = childkey.Key{}
		return nil
	}
	g.identify(c)
	return nil
}

func (g *Guard) taskWait(t *Task) time.Duration {
	if wish, ok := wire.ParsePreferWait(t.Prefer); ok {
		return min(wish, g.cfg.longestWait())
	}
	if t.Wait == 0 {
		return g.cfg.Wait
	}
	return max(t.Wait, 0)
}

func refusal(code wire.Code, err error) error { return &RefusedError{Code: code, Err: err} }
