package memjournal

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/fanonce/fanonce/saga"
)

// ErrArgument means that a request cannot be meant as it is. Nothing changed. It matches
// [saga.ErrRefused].
var ErrArgument = fmt.Errorf("memjournal: bad argument: %w", saga.ErrRefused)

// forgotten is how long after its end a lease is swept.
const forgotten = 24 * time.Hour

// Config holds what a [Journal] can be told. The zero Config means the defaults.
type Config struct {
	// Now is the journal's clock; it decides every lease, wake-up and retention.
	// It is called under the journal's lock and must not call the journal.
	//
	// nil means [time.Now], inside a testing/synctest bubble too.
	Now func() time.Time
}

// A Journal keeps sagas in memory. It is safe for concurrent use. The zero
// Journal is not usable: make one with [New] or [NewWith].
//
// A method returns the error of a ctx that is already done, and then has
// changed nothing; it does not block.
type Journal struct {
	now func() time.Time

	mu      sync.Mutex
	plans   map[planID]saga.PlanRecord
	engines map[saga.EngineID]lease
	sagas   map[saga.ID]saga.Record
	lapsed  map[saga.ID][]saga.EngineID // engines that died under a saga, if its Deaths are not 0
	audit   []saga.AuditEntry
}

type planID struct {
	name    string
	version int
}

// A lease is an engine's.
type lease struct {
	until time.Time
	left  bool // it ended by [Journal.Leave]
}

var _ saga.Journal = (*Journal)(nil)

// New returns an empty journal with the default [Config].
func New() *Journal { return NewWith(Config{}) }

// NewWith returns an empty journal.
func NewWith(cfg Config) *Journal {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Journal{
		now:     cfg.Now,
		plans:   make(map[planID]saga.PlanRecord),
		engines: make(map[saga.EngineID]lease),
		sagas:   make(map[saga.ID]saga.Record),
		lapsed:  make(map[saga.ID][]saga.EngineID),
	}
}

// clock reads the journal's clock. UTC keeps the monotonic reading, so a lease
// does not end early when an administrator moves the machine's clock.
func (j *Journal) clock() time.Time { return j.now().UTC() }

// lock locks the journal, unless ctx is done.
func (j *Journal) lock(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	j.mu.Lock()
	return nil
}

// alive reports whether the engine has a lease.
func (j *Journal) alive(engine saga.EngineID, now time.Time) bool {
	l, ok := j.engines[engine]
	return ok && !l.left && now.Before(l.until)
}

// orphan reports whether a saga has work to do and nobody who does it.
func (j *Journal) orphan(r saga.Record, now time.Time) bool {
	return r.Status.Driven() && (r.Engine.IsZero() || !j.alive(r.Engine, now))
}

// Plan implements [saga.Journal].
func (j *Journal) Plan(ctx context.Context, plan saga.PlanRecord) (saga.PlanRecord, error) {
	if err := j.lock(ctx); err != nil {
		return saga.PlanRecord{}, err
	}
	defer j.mu.Unlock()
	id := planID{plan.Name, plan.Version}
	stored, ok := j.plans[id]
	if !ok {
		stored = plan
		stored.Lines = slices.Clone(plan.Lines)
		j.plans[id] = stored
	}
	stored.Lines = slices.Clone(stored.Lines)
	return stored, nil
}

// Beat implements [saga.Journal].
func (j *Journal) Beat(ctx context.Context, engine saga.EngineID, d time.Duration) error {
	if engine.IsZero() || d <= 0 {
		return fmt.Errorf("%w: engine %v, lease %v", ErrArgument, engine, d)
	}
	if err := j.lock(ctx); err != nil {
		return err
	}
	defer j.mu.Unlock()
	now := j.clock()
	if _, ok := j.engines[engine]; ok && !j.alive(engine, now) {
		return saga.ErrLeaseLost
	}
	j.engines[engine] = lease{until: now.Add(d)}
	return nil
}

// Leave implements [saga.Journal].
func (j *Journal) Leave(ctx context.Context, engine saga.EngineID) error {
	if err := j.lock(ctx); err != nil {
		return err
	}
	defer j.mu.Unlock()
	j.engines[engine] = lease{until: j.clock(), left: true}
	return nil
}

// Read implements [saga.Journal].
func (j *Journal) Read(ctx context.Context, id saga.ID) (saga.Record, error) {
	if err := j.lock(ctx); err != nil {
		return saga.Record{}, err
	}
	defer j.mu.Unlock()
	r, ok := j.sagas[id]
	if !ok {
		return saga.Record{}, saga.ErrNotFound
	}
	return shown(r, j.clock()), nil
}

// Sweep implements [saga.Journal].
func (j *Journal) Sweep(ctx context.Context, limit int) (int, error) {
	if limit <= 0 {
		return 0, fmt.Errorf("%w: limit %d is not positive", ErrArgument, limit)
	}
	if err := j.lock(ctx); err != nil {
		return 0, err
	}
	defer j.mu.Unlock()
	now, swept := j.clock(), 0
	named := make(map[saga.EngineID]bool)
	for id, r := range j.sagas {
		switch {
		case r.Status.Driven():
			named[r.Engine] = true
		case r.Status.Final() && swept < limit && !now.Before(r.ExpiresAt):
			delete(j.sagas, id)
			delete(j.lapsed, id)
			swept++
		}
	}
	for id, l := range j.engines {
		if !named[id] && !now.Before(l.until.Add(forgotten)) {
			delete(j.engines, id)
		}
	}
	return swept, nil
}

// Stats implements [saga.Journal].
func (j *Journal) Stats(ctx context.Context) (saga.Stats, error) {
	if err := j.lock(ctx); err != nil {
		return saga.Stats{}, err
	}
	defer j.mu.Unlock()
	st, now := saga.Stats{ByStatus: make(map[saga.Status]int64), OrphansOf: make(map[saga.PlanHash]int64)}, j.clock()
	for _, r := range j.sagas {
		st.ByStatus[r.Status]++
		if !r.Status.Final() {
			st.OldestUnfinished = max(st.OldestUnfinished, now.Sub(r.CreatedAt))
		}
		switch {
		case !j.orphan(r, now):
		case now.Before(r.WakeAt):
			st.Asleep++
		default:
			st.Orphans++
			if r.Parked != nil {
				st.Parked++
			} else {
				st.OrphansOf[r.Plan]++
			}
		}
	}
	for status, n := range st.ByStatus {
		st.ByStatus[status] = min(n, saga.StatsLimit)
	}
	for plan, n := range st.OrphansOf {
		st.OrphansOf[plan] = min(n, saga.StatsLimit)
	}
	for _, n := range []*int64{&st.Orphans, &st.Parked, &st.Asleep} {
		*n = min(*n, saga.StatsLimit)
	}
	return st, nil
}
