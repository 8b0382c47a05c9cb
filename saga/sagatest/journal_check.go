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
	"github.com/fanonce/fanonce/saga"
)

const (
	long  = time.Minute           // a lease that outlives every law
	brief = 20 * time.Millisecond // a lease that a law waits out
	keep  = time.Hour
	gone  = time.Microsecond // a time that is over before the next call
	// defaultPatience bounds every wait for what must happen. It is generous:
	// only broken journals use it up.
	defaultPatience = 15 * time.Second
)

// check is what a law works with: a journal, and short forms of its methods
// that fail the law on an error that the law does not expect.
type check struct {
	testing.TB
	journal  saga.Journal
	patience time.Duration // zero: defaultPatience
}

func newEngine() (id saga.EngineID) {
	_, _ = rand.Read(id[:])
	return id
}

// planOf returns the hash of the laws' plans.
func planOf(name string) saga.PlanHash { return sha256.Sum256([]byte(name)) }

// request returns a start of a new saga by engine.
func request(engine saga.EngineID) saga.StartRequest {
	key := childkey.MustNew()
	input := []byte(`{"of":"` + key.String() + `"}`)
	return saga.StartRequest{
		ID: saga.IDOf("tenant", "checkout", key), Scope: "tenant", Key: key, Name: "checkout", Version: 3, Plan: planOf("checkout"),
		InputHash: sha256.Sum256(input), Input: input, Engine: engine,
	}
}

func owner(r saga.Record) saga.Owner { return saga.Owner{ID: r.ID, Engine: r.Engine, Fence: r.Fence} }

// must fails the law if err is not nil.
func (c *check) must(what string, err error) {
	c.Helper()
	if err != nil {
		c.Fatalf("%s: error = %v, want none", what, err)
	}
}

// wantErr fails the law if err is not want.
func (c *check) wantErr(what string, err, want error) {
	c.Helper()
	if !errors.Is(err, want) {
		c.Fatalf("%s: error = %v, want %v", what, err, want)
	}
}

// want fails the law if got is not want.
func want[T comparable](c *check, what string, got, want T) {
	c.Helper()
	if got != want {
		c.Fatalf("%s = %v, want %v", what, got, want)
	}
}

// beat gives a new engine a lease.
func (c *check) beat(lease time.Duration) saga.EngineID {
	c.Helper()
	engine := newEngine()
	c.must("Beat", c.journal.Beat(c.Context(), engine, lease))
	return engine
}

// start starts a new saga.
func (c *check) start(engine saga.EngineID) saga.Record {
	c.Helper()
	r, created, err := c.journal.Start(c.Context(), request(engine))
	c.must("Start", err)
	want(c, "Start of a new saga: created", created, true)
	return r
}

// started starts a saga of an engine with a long lease.
func (c *check) started() saga.Record {
	c.Helper()
	return c.start(c.beat(long))
}

// orphan starts a saga whose engine left.
func (c *check) orphan() saga.Record {
	c.Helper()
	r := c.started()
	c.must("Leave", c.journal.Leave(c.Context(), r.Engine))
	return r
}

func (c *check) read(id saga.ID) saga.Record {
	c.Helper()
	r, err := c.journal.Read(c.Context(), id)
	c.must("Read", err)
	return r
}

// append writes w as the next revision of r, and returns the saga then.
func (c *check) append(r saga.Record, w saga.Write) saga.Record {
	c.Helper()
	w.Revision, w.Entries = r.Revision+1, slices.Clone(w.Entries) // the journal's to change
	c.must("Append", c.journal.Append(c.Context(), owner(r), w))
	return c.read(r.ID)
}

func (c *check) claim(engine saga.EngineID, limit int) []saga.Record {
	c.Helper()
	claimed, err := c.journal.Claim(c.Context(), saga.ClaimRequest{Engine: engine, Plans: []saga.PlanHash{planOf("checkout")}, Limit: limit})
	c.must("Claim", err)
	return claimed
}

func (c *check) change(r saga.Record, change saga.Change) saga.Record {
	c.Helper()
	change.ID, change.Revision, change.By = r.ID, r.Revision, someone
	got, won, err := c.journal.Change(c.Context(), change)
	c.must("Change", err)
	want(c, "Change at the saga's revision: won", won, true)
	return got
}

var someone = saga.Audit{Verb: saga.VerbRetry, Step: "a.b", Actor: "ann", Reason: "because"}

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

// wantUnchanged fails the law if the saga is not as it was.
func (c *check) wantUnchanged(was saga.Record) {
	c.Helper()
	c.wantSame("the saga", c.read(was.ID), was)
}

// wantSame fails the law if got is not want. Now is no part of the comparison,
// and times may lose what is finer than databases keep.
func (c *check) wantSame(what string, got, want saga.Record) {
	c.Helper()
	if diff := difference("", reflect.ValueOf(got), reflect.ValueOf(want)); diff != "" {
		c.Fatalf("%s: %s", what, diff)
	}
}

// wantDuring fails the law if what came between before and after is not of the journal's
// time then, give or take a second.
func (c *check) wantDuring(what string, at time.Time, before, after saga.Record) {
	c.Helper()
	if at.Before(before.Now.Add(-time.Second)) || at.After(after.Now.Add(time.Second)) {
		c.Fatalf("%s = %v, want the journal's time, %v to %v", what, at, before.Now, after.Now)
	}
}

// together runs fn n times at once.
func together(n int, fn func(i int)) {
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

// difference names the first field in which got is not want, or returns "". It
// takes nil and empty slices for different: no result is not an empty one.
func difference(path string, got, want reflect.Value) string {
	if t, ok := got.Interface().(time.Time); ok {
		u, _ := want.Interface().(time.Time)
		if path == ".Now" || t.IsZero() == u.IsZero() && t.Sub(u).Abs() < time.Microsecond {
			return ""
		}
		return fmt.Sprintf("%s = %v, want %v", path, t, u)
	}
	switch {
	case got.Kind() == reflect.Slice && got.Type().Elem() == reflect.TypeFor[saga.Entry]():
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
			if diff := difference(path+"."+got.Type().Field(i).Name, got.Field(i), want.Field(i)); diff != "" {
				return diff
			}
		}
	case !reflect.DeepEqual(got.Interface(), want.Interface()):
		return fmt.Sprintf("%s = %.60v, want %.60v", path, got.Interface(), want.Interface())
	}
	return ""
}

// interrupted returns a ctx that is done already.
func (c *check) interrupted() context.Context {
	ctx, cancel := context.WithCancel(c.Context())
	cancel()
	return ctx
}
