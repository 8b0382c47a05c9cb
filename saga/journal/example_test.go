package journal_test

import (
	"context"
	"fmt"
	"log"
	"testing"
	"time"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/saga/memjournal"
	"github.com/fanonce/fanonce/saga/sagatest"
)

// Traced shows the calls of an engine. An author of a journal writes all methods of
// [journal.Journal]; this one leaves the work to another journal, and the methods that are not
// here as well: Claim, Read, List, Sweep and Stats, and for people Change and Reader.
type Traced struct {
	journal.Journal
	trace func(format string, args ...any)
}

var _ journal.Journal = Traced{}

func (t Traced) Plan(ctx context.Context, plan journal.PlanRecord) (journal.PlanRecord, error) {
	t.trace("Plan of %s, version %d", plan.Name, plan.Version)
	return t.Journal.Plan(ctx, plan)
}

func (t Traced) Heartbeat(ctx context.Context, engine journal.EngineID, lease time.Duration) error {
	t.trace("Heartbeat: a lease of %v", lease)
	return t.Journal.Heartbeat(ctx, engine, lease)
}

func (t Traced) Start(ctx context.Context, req journal.StartRequest) (journal.Record, bool, error) {
	t.trace("Start with the input %s", req.Input)
	return t.Journal.Start(ctx, req)
}

func (t Traced) Append(ctx context.Context, o journal.Owner, w journal.Write) error {
	for _, e := range w.Entries {
		t.trace("Append of revision %d: %s %v %s", w.Revision, e.Step, e.Outcome, e.Result)
	}
	if w.Status != 0 {
		t.trace("Append of revision %d: the saga is %v", w.Revision, w.Status)
	}
	return t.Journal.Append(ctx, o, w)
}

func (t Traced) Leave(ctx context.Context, engine journal.EngineID) error {
	t.trace("Leave")
	return t.Journal.Leave(ctx, engine)
}

// A journal's own test is one line: func TestJournal(t *testing.T) { conformance(t) }. Each rule of
// the suite asks for an empty journal.
func conformance(t *testing.T) {
	sagatest.TestJournal(t, func(tb testing.TB) journal.Journal {
		return Traced{memjournal.New(), func(format string, args ...any) { tb.Logf(format, args...) }}
	})
}

// The calls that an engine makes for one saga.
func Example() {
	greet := saga.MustDefine("greet", 1, func(b *saga.Builder[string, string]) {
		done := saga.StepFunc(b, "local.greet", b.Input(), func(_ context.Context, call saga.Call[string]) (string, error) {
			return "hello, " + call.Input, nil
		}).ReadOnly()
		saga.Return(b, done.Output())
	})
	ctx := context.Background()
	j := Traced{memjournal.New(), func(format string, args ...any) { fmt.Printf(format+"\n", args...) }}
	engine, err := saga.Open(ctx, j, saga.Config{Definitions: []saga.AnyDefinition{greet}})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := greet.Run(ctx, engine, childkey.MustParse("k-1"), "world"); err != nil {
		log.Fatal(err)
	}
	if err := engine.Close(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// Plan of greet, version 1
	// Heartbeat: a lease of 15s
	// Start with the input "world"
	// Append of revision 2: local.greet Completed "hello, world"
	// Append of revision 2: the saga is completed
	// Leave
}
