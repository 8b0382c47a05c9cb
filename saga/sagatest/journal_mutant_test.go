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

	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/memjournal"
)

// A mutant is a journal with something broken: each field that is set stands in for
// a method.
type mutant struct {
	saga.Journal
	plan   func(ctx context.Context, p saga.PlanRecord) (saga.PlanRecord, error)
	beat   func(ctx context.Context, engine saga.EngineID, lease time.Duration) error
	leave  func(ctx context.Context, engine saga.EngineID) error
	start  func(ctx context.Context, req saga.StartRequest) (saga.Record, bool, error)
	append func(ctx context.Context, o saga.Owner, w saga.Write) error
	claim  func(ctx context.Context, req saga.ClaimRequest) ([]saga.Record, error)
	sweep  func(ctx context.Context, limit int) (int, error)
	stats  func(ctx context.Context) (saga.Stats, error)
	list   func(ctx context.Context, req saga.ListRequest) ([]saga.Record, error)
	change func(ctx context.Context, c saga.Change) (saga.Record, bool, error)
	audit  func(ctx context.Context, id saga.ID, limit int) ([]saga.AuditEntry, error)
}

func (m *mutant) Plan(ctx context.Context, p saga.PlanRecord) (saga.PlanRecord, error) {
	if m.plan != nil {
		return m.plan(ctx, p)
	}
	return m.Journal.Plan(ctx, p)
}

func (m *mutant) Beat(ctx context.Context, engine saga.EngineID, lease time.Duration) error {
	if m.beat != nil {
		return m.beat(ctx, engine, lease)
	}
	return m.Journal.Beat(ctx, engine, lease)
}

func (m *mutant) Leave(ctx context.Context, engine saga.EngineID) error {
	if m.leave != nil {
		return m.leave(ctx, engine)
	}
	return m.Journal.Leave(ctx, engine)
}

func (m *mutant) Start(ctx context.Context, req saga.StartRequest) (saga.Record, bool, error) {
	if m.start != nil {
		return m.start(ctx, req)
	}
	return m.Journal.Start(ctx, req)
}

func (m *mutant) Append(ctx context.Context, o saga.Owner, w saga.Write) error {
	if m.append != nil {
		return m.append(ctx, o, w)
	}
	return m.Journal.Append(ctx, o, w)
}

func (m *mutant) Claim(ctx context.Context, req saga.ClaimRequest) ([]saga.Record, error) {
	if m.claim != nil {
		return m.claim(ctx, req)
	}
	return m.Journal.Claim(ctx, req)
}

func (m *mutant) Sweep(ctx context.Context, limit int) (int, error) {
	if m.sweep != nil {
		return m.sweep(ctx, limit)
	}
	return m.Journal.Sweep(ctx, limit)
}

func (m *mutant) Stats(ctx context.Context) (saga.Stats, error) {
	if m.stats != nil {
		return m.stats(ctx)
	}
	return m.Journal.Stats(ctx)
}

func (m *mutant) List(ctx context.Context, req saga.ListRequest) ([]saga.Record, error) {
	if m.list != nil {
		return m.list(ctx, req)
	}
	return m.Journal.List(ctx, req)
}

func (m *mutant) Change(ctx context.Context, c saga.Change) (saga.Record, bool, error) {
	if m.change != nil {
		return m.change(ctx, c)
	}
	return m.Journal.Change(ctx, c)
}

func (m *mutant) AuditLog(ctx context.Context, id saga.ID, limit int) ([]saga.AuditEntry, error) {
	if m.audit != nil {
		return m.audit(ctx, id, limit)
	}
	return m.Journal.AuditLog(ctx, id, limit)
}

// A recorder lets a test watch a law fail.
type recorder struct {
	testing.TB
	mu     sync.Mutex
	failed bool
	lines  []string
}

// watch runs a law on c with a recorder in place of c.TB, and returns that.
func watch(l law, c *check) *recorder {
	r := &recorder{TB: c.TB}
	c.TB = r
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.holds(c)
	}()
	<-done
	return r
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

// TestLaws_healthy is the control: what the mutants are made of breaks no law,
// and no law spins, or needs real time to pass.
func TestLaws_healthy(t *testing.T) {
	t.Parallel()
	for _, l := range laws {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				if r := watch(l, &check{TB: t, journal: &mutant{Journal: memjournal.New()}}); r.Failed() {
					t.Errorf("a healthy journal broke the law:\n%s", r.report())
				}
			})
		})
	}
}

func TestLaws_catchMutants(t *testing.T) {
	t.Parallel()
	for _, d := range defects {
		for _, name := range d.breaks {
			t.Run(d.name+"/"+name, func(t *testing.T) {
				t.Parallel()
				i := slices.IndexFunc(laws, func(l law) bool { return l.name == name })
				if i < 0 {
					t.Fatalf("no law is named %q", name)
				}
				for range 100 { // races are provoked, not forced
					m := &mutant{Journal: memjournal.New()}
					d.mar(m)
					if watch(laws[i], &check{TB: t, journal: m, patience: 300 * time.Millisecond}).Failed() {
						return
					}
				}
				t.Errorf("a journal that %s passed", d.name)
			})
		}
	}
}

// TestLaws_eachBites fails for a law that no defect is known to break: it could
// as well be empty.
func TestLaws_eachBites(t *testing.T) {
	t.Parallel()
	for _, l := range laws {
		if !slices.ContainsFunc(defects, func(d defect) bool { return slices.Contains(d.breaks, l.name) }) {
			t.Errorf("no defect breaks %q", l.name)
		}
	}
}
