package sagatest

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/saga/journal"
)

const (
	long  = time.Minute           // a lease that outlives every rule
	brief = 20 * time.Millisecond // a lease that a rule waits out
	keep  = time.Hour
	gone  = time.Microsecond // a time that is over before the next call
	// defaultPatience bounds every wait for an event that must happen. It is generous: only
	// broken journals use it up.
	defaultPatience = 15 * time.Second
)

// check gives a rule a journal and short forms of the journal's methods. These fail the rule on an
// unexpected error.
type check struct {
	testing.TB
	journal  journal.Journal
	reader   journal.Reader // nil but in the rules of readers
	patience time.Duration  // zero: defaultPatience
}

func newEngine() (id journal.EngineID) {
	_, _ = rand.Read(id[:])
	return id
}

// planOf returns the hash of the rules' plans.
func planOf(name string) journal.PlanHash { return sha256.Sum256([]byte(name)) }

// request returns a start of a new saga by engine.
func request(engine journal.EngineID) journal.StartRequest {
	key := childkey.MustNew()
	input := []byte(`{"of":"` + key.String() + `"}`)
	return journal.StartRequest{
		ID: journal.IDOf("tenant", "checkout", key), Scope: "tenant", Key: key, Name: "checkout", Version: 3, Plan: planOf("checkout"),
		InputHash: sha256.Sum256(input), Input: input, Engine: engine,
	}
}

func owner(r journal.Record) journal.Owner {
	return journal.Owner{ID: r.ID, Engine: r.Engine, Fence: r.Fence}
}

// must fails the rule if err is not nil.
func (c *check) must(what string, err error) {
	c.Helper()
	if err != nil {
		c.Fatalf("%s: error = %v, want none", what, err)
	}
}

// wantErr fails the rule if err is not want.
func (c *check) wantErr(what string, err, want error) {
	c.Helper()
	if !errors.Is(err, want) {
		c.Fatalf("%s: error = %v, want %v", what, err, want)
	}
}

// want fails the rule if got is not want.
func want[T comparable](c *check, what string, got, want T) {
	c.Helper()
	if got != want {
		c.Fatalf("%s = %v, want %v", what, got, want)
	}
}

// heartbeat gives a new engine a lease.
func (c *check) heartbeat(lease time.Duration) journal.EngineID {
	c.Helper()
	engine := newEngine()
	c.must("Heartbeat", c.journal.Heartbeat(c.Context(), engine, lease))
	return engine
}

// start starts a new saga.
func (c *check) start(engine journal.EngineID) journal.Record {
	c.Helper()
	r, created, err := c.journal.Start(c.Context(), request(engine))
	c.must("Start", err)
	want(c, "Start of a new saga: created", created, true)
	return r
}

// startOwned starts a saga of an engine with a long lease.
func (c *check) startOwned() journal.Record {
	c.Helper()
	return c.start(c.heartbeat(long))
}

// startUnowned starts a saga whose engine left.
func (c *check) startUnowned() journal.Record {
	c.Helper()
	r := c.startOwned()
	c.must("Leave", c.journal.Leave(c.Context(), r.Engine))
	return r
}

func (c *check) read(id journal.ID) journal.Record {
	c.Helper()
	r, err := c.journal.Read(c.Context(), id)
	c.must("Read", err)
	return r
}

// append writes w as the next revision of r, and returns the saga then.
func (c *check) append(r journal.Record, w journal.Write) journal.Record {
	c.Helper()
	w.Revision, w.Entries = r.Revision-r.Wakes+1, slices.Clone(w.Entries) // the journal's to change
	c.must("Append", c.journal.Append(c.Context(), owner(r), w))
	return c.read(r.ID)
}

func (c *check) claim(engine journal.EngineID, limit int) []journal.Record {
	c.Helper()
	claimed, err := c.journal.Claim(c.Context(), journal.ClaimRequest{Engine: engine, Plans: []journal.PlanHash{planOf("checkout")}, Limit: limit})
	c.must("Claim", err)
	return claimed
}

func (c *check) change(r journal.Record, change journal.Change) journal.Record {
	c.Helper()
	change.ID, change.Revision, change.By = r.ID, r.Revision, someone
	got, won, err := c.journal.Change(c.Context(), change)
	c.must("Change", err)
	want(c, "Change at the saga's revision: won", won, true)
	return got
}

var someone = journal.Audit{Verb: journal.VerbRetry, Step: "a.b", Actor: "ann", Reason: "because"}

// eventually waits until done returns true.
func (c *check) eventually(what string, done func() bool) {
	c.Helper()
	patience := c.patience
	if patience == 0 {
		patience = defaultPatience
	}
	for end := time.Now().Add(patience); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			c.Fatalf("%s did not happen within %v", what, patience)
		}
	}
}

// wantUnchanged fails the rule if the saga is not as it was.
func (c *check) wantUnchanged(was journal.Record) {
	c.Helper()
	c.wantSame("the saga", c.read(was.ID), was)
}

// wantSame fails the rule if got is not want. It does not compare Now. Times may lose digits that
// databases do not store.
func (c *check) wantSame(what string, got, want journal.Record) {
	c.Helper()
	if diff := difference("", reflect.ValueOf(got), reflect.ValueOf(want)); diff != "" {
		c.Fatalf("%s: %s", what, diff)
	}
}

// wantDuring fails the rule if at is not between the journal's times of before and after, plus or
// minus a second.
func (c *check) wantDuring(what string, at time.Time, before, after journal.Record) {
	c.Helper()
	if at.Before(before.Now.Add(-time.Second)) || at.After(after.Now.Add(time.Second)) {
		c.Fatalf("%s = %v, want the journal's time, %v to %v", what, at, before.Now, after.Now)
	}
}

// runTogether runs fn n times at once.
func runTogether(n int, fn func(i int)) {
	var wg sync.WaitGroup
	begin := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-begin
			fn(i)
		})
	}
	close(begin)
	wg.Wait()
}

// difference names the first field in which got is not want, or returns "". A nil slice and an
// empty one differ: a missing result is not an empty result.
func difference(path string, got, want reflect.Value) string {
	if t, ok := got.Interface().(time.Time); ok {
		u, _ := want.Interface().(time.Time)
		if path == ".Now" || t.IsZero() == u.IsZero() && t.Sub(u).Abs() < time.Microsecond {
			return ""
		}
		return fmt.Sprintf("%s = %v, want %v", path, t, u)
	}
	switch {
	case got.Kind() == reflect.Slice && got.Type().Elem() == reflect.TypeFor[journal.Entry]():
		if got.Len() != want.Len() {
			return fmt.Sprintf("%s has %d entries, want %d", path, got.Len(), want.Len())
		}
		for i := range got.Len() {
			if diff := difference(fmt.Sprintf("%s[%d]", path, i), got.Index(i), want.Index(i)); diff != "" {
				return diff
			}
		}
	case got.Kind() == reflect.Struct && got.Type() != reflect.TypeFor[childkey.Key]():
		for i := range got.NumField() {
			at := path
			if field := got.Type().Field(i); !field.Anonymous {
				at += "." + field.Name
			}
			if diff := difference(at, got.Field(i), want.Field(i)); diff != "" {
				return diff
			}
		}
	case !reflect.DeepEqual(got.Interface(), want.Interface()):
		return fmt.Sprintf("%s = %.60v, want %.60v", path, got.Interface(), want.Interface())
	}
	return ""
}

// doneContext returns a ctx that is done already.
func (c *check) doneContext() context.Context {
	ctx, cancel := context.WithCancel(c.Context())
	cancel()
	return ctx
}
