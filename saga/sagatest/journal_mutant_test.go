package sagatest

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/saga/memjournal"
)

// A mutant is a journal with a defect: each field that is set replaces a method.
type mutant struct {
	journal.Journal
	plan   func(ctx context.Context, p journal.PlanRecord) (journal.PlanRecord, error)
	beat   func(ctx context.Context, engine journal.EngineID, lease time.Duration) error
	leave  func(ctx context.Context, engine journal.EngineID) error
	start  func(ctx context.Context, req journal.StartRequest) (journal.Record, bool, error)
	append func(ctx context.Context, o journal.Owner, w journal.Write) error
	claim  func(ctx context.Context, req journal.ClaimRequest) ([]journal.Record, error)
	read   func(ctx context.Context, id journal.ID) (journal.Record, error)
	lines  func(ctx context.Context, ids []journal.ID) ([]journal.Record, error)
	sweep  func(ctx context.Context, limit int) (int, error)
	stats  func(ctx context.Context) (journal.Stats, error)
	list   func(ctx context.Context, req journal.ListRequest) ([]journal.Record, error)
	change func(ctx context.Context, c journal.Change) (journal.Record, bool, error)
	send   func(ctx context.Context, s journal.Signal, by journal.Audit) error
	end    func(ctx context.Context, o journal.Owner, name string) (journal.Signal, error)
	sent   func(ctx context.Context, ids []journal.ID) ([]journal.Signal, error)
	audit  func(ctx context.Context, req journal.AuditRequest) ([]journal.AuditEntry, error)
}

func (m *mutant) Plan(ctx context.Context, p journal.PlanRecord) (journal.PlanRecord, error) {
	if m.plan != nil {
		return m.plan(ctx, p)
	}
	return m.Journal.Plan(ctx, p)
}

func (m *mutant) Heartbeat(ctx context.Context, engine journal.EngineID, lease time.Duration) error {
	if m.beat != nil {
		return m.beat(ctx, engine, lease)
	}
	return m.Journal.Heartbeat(ctx, engine, lease)
}

func (m *mutant) Leave(ctx context.Context, engine journal.EngineID) error {
	if m.leave != nil {
		return m.leave(ctx, engine)
	}
	return m.Journal.Leave(ctx, engine)
}

func (m *mutant) Start(ctx context.Context, req journal.StartRequest) (journal.Record, bool, error) {
	if m.start != nil {
		return m.start(ctx, req)
	}
	return m.Journal.Start(ctx, req)
}

func (m *mutant) Append(ctx context.Context, o journal.Owner, w journal.Write) error {
	if m.append != nil {
		return m.append(ctx, o, w)
	}
	return m.Journal.Append(ctx, o, w)
}

func (m *mutant) Claim(ctx context.Context, req journal.ClaimRequest) ([]journal.Record, error) {
	if m.claim != nil {
		return m.claim(ctx, req)
	}
	return m.Journal.Claim(ctx, req)
}

func (m *mutant) Read(ctx context.Context, id journal.ID) (journal.Record, error) {
	if m.read != nil {
		return m.read(ctx, id)
	}
	return m.Journal.Read(ctx, id)
}

func (m *mutant) ReadOutlines(ctx context.Context, ids []journal.ID) ([]journal.Record, error) {
	if m.lines != nil {
		return m.lines(ctx, ids)
	}
	return m.Journal.ReadOutlines(ctx, ids)
}

func (m *mutant) Sweep(ctx context.Context, limit int) (int, error) {
	if m.sweep != nil {
		return m.sweep(ctx, limit)
	}
	return m.Journal.Sweep(ctx, limit)
}

func (m *mutant) Stats(ctx context.Context) (journal.Stats, error) {
	if m.stats != nil {
		return m.stats(ctx)
	}
	return m.Journal.Stats(ctx)
}

func (m *mutant) List(ctx context.Context, req journal.ListRequest) ([]journal.Record, error) {
	if m.list != nil {
		return m.list(ctx, req)
	}
	return m.Journal.List(ctx, req)
}

func (m *mutant) Change(ctx context.Context, c journal.Change) (journal.Record, bool, error) {
	if m.change != nil {
		return m.change(ctx, c)
	}
	return m.Journal.Change(ctx, c)
}

func (m *mutant) Send(ctx context.Context, s journal.Signal, by journal.Audit) error {
	if m.send != nil {
		return m.send(ctx, s, by)
	}
	return m.Journal.Send(ctx, s, by)
}

func (m *mutant) EndWait(ctx context.Context, o journal.Owner, name string) (journal.Signal, error) {
	if m.end != nil {
		return m.end(ctx, o, name)
	}
	return m.Journal.EndWait(ctx, o, name)
}

func (m *mutant) Signals(ctx context.Context, ids []journal.ID) ([]journal.Signal, error) {
	if m.sent != nil {
		return m.sent(ctx, ids)
	}
	return m.Journal.Signals(ctx, ids)
}

func (m *mutant) Reader() journal.Reader {
	return &readerMutant{Reader: m.Journal.Reader(), audit: m.audit}
}

// A recorder lets a test watch a rule fail.
type recorder struct {
	testing.TB
	mu     sync.Mutex
	failed bool
	lines  []string
}

// watch runs a rule on c with a recorder instead of c.TB, and returns the recorder.
func watch(r rule, c *check) *recorder {
	seen := &recorder{TB: c.TB}
	c.TB = seen
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.holds(c)
	}()
	<-done
	return seen
}

func (r *recorder) note(line string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = true
	r.lines = append(r.lines, line)
}

func (r *recorder) Failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

func (r *recorder) report() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.lines, "\n")
}

func (r *recorder) Helper()                           {}
func (r *recorder) Errorf(format string, args ...any) { r.note(fmt.Sprintf(format, args...)) }
func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

// TestRules_healthy is the control. The journals that mutants are made of break no rule. No rule
// spins or needs real time to pass.
func TestRules_healthy(t *testing.T) {
	t.Parallel()
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				if seen := watch(r, &check{TB: t, journal: &mutant{Journal: memjournal.New()}}); seen.Failed() {
					t.Errorf("a healthy journal broke the rule:\n%s", seen.report())
				}
			})
		})
	}
}

func TestRules_catchMutants(t *testing.T) {
	t.Parallel()
	for _, d := range defects {
		for _, name := range d.breaks {
			t.Run(d.name+"/"+name, func(t *testing.T) {
				t.Parallel()
				i := slices.IndexFunc(rules, func(r rule) bool { return r.name == name })
				if i < 0 {
					t.Fatalf("no rule is named %q", name)
				}
				for range 100 { // races are provoked, not forced
					m := &mutant{Journal: memjournal.New()}
					d.mar(m)
					if watch(rules[i], &check{TB: t, journal: m, patience: 300 * time.Millisecond}).Failed() {
						return
					}
				}
				t.Errorf("a journal that %s passed", d.name)
			})
		}
	}
}

// TestRules_eachBites fails for a rule that no defect is known to break: such a rule could be empty.
func TestRules_eachBites(t *testing.T) {
	t.Parallel()
	for _, r := range rules {
		if !slices.ContainsFunc(defects, func(d defect) bool { return slices.Contains(d.breaks, r.name) }) {
			t.Errorf("no defect breaks %q", r.name)
		}
	}
}
