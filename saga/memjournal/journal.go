package memjournal

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/fanonce/fanonce/saga/journal"
)

// ErrArgument means that a request is invalid. It changed nothing. It matches
// [journal.ErrRefused].
var ErrArgument = fmt.Errorf("memjournal: bad argument: %w", journal.ErrRefused)

// forgotten is the time from the end of a lease to its sweep.
const forgotten = 24 * time.Hour

// Config holds the options of a [Journal]. The zero Config means the defaults.
type Config struct {
	// Now is the journal's clock; it decides every lease, wake-up and retention.
	// It is called under the journal's lock and must not call the journal.
	//
	// nil means [time.Now], inside a testing/synctest bubble too.
	Now func() time.Time
}

// A Journal keeps sagas in memory. It is safe for concurrent use. The zero Journal is not usable:
// make a Journal with [New] or [NewWith].
//
// A method returns the error of a ctx that is already done, and then has
// changed nothing; it does not block.
type Journal struct {
	now func() time.Time

	mu      sync.Mutex
	plans   map[planID]journal.PlanRecord
	engines map[journal.EngineID]lease
	sagas   map[journal.ID]journal.Record
	lapsed  map[journal.ID][]journal.EngineID // engines that died under a saga, if its RecoveryAttempts are not 0
	slept   map[journal.ID]time.Time          // when its owner gave a saga up that has none now
	signals map[signalID]signal
	audit   []journal.AuditEntry
}

type planID struct {
	name    string
	version int
}

// A lease is the lease of one engine.
type lease struct {
	until  time.Time
	length time.Duration // that its engine asked for last
	left   bool          // it ended by [Journal.Leave]
}

var _ journal.Journal = (*Journal)(nil)

// New returns an empty journal with the default [Config].
func New() *Journal { return NewWith(Config{}) }

// NewWith returns an empty journal.
func NewWith(cfg Config) *Journal {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Journal{
		now:     cfg.Now,
		plans:   make(map[planID]journal.PlanRecord),
		engines: make(map[journal.EngineID]lease),
		sagas:   make(map[journal.ID]journal.Record),
		lapsed:  make(map[journal.ID][]journal.EngineID),
		slept:   make(map[journal.ID]time.Time),
		signals: make(map[signalID]signal),
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

// isAlive reports whether the engine has a lease.
func (j *Journal) isAlive(engine journal.EngineID, now time.Time) bool {
	l, ok := j.engines[engine]
	return ok && !l.left && now.Before(l.until)
}

// isUnowned reports whether a saga has work to do and lacks a living engine.
func (j *Journal) isUnowned(r journal.Record, now time.Time) bool {
	return r.Status.Active() && (r.Engine.IsZero() || !j.isAlive(r.Engine, now))
}

// Plan implements [journal.Journal].
func (j *Journal) Plan(ctx context.Context, plan journal.PlanRecord) (journal.PlanRecord, error) {
	if err := j.lock(ctx); err != nil {
		return journal.PlanRecord{}, err
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

// Heartbeat implements [journal.Journal].
func (j *Journal) Heartbeat(ctx context.Context, engine journal.EngineID, d time.Duration) error {
	if engine.IsZero() || d <= 0 {
		return fmt.Errorf("%w: engine %v, lease %v", ErrArgument, engine, d)
	}
	if err := j.lock(ctx); err != nil {
		return err
	}
	defer j.mu.Unlock()
	now := j.clock()
	if _, ok := j.engines[engine]; ok && !j.isAlive(engine, now) {
		return journal.ErrLeaseLost
	}
	for id, l := range j.engines { // if the clock has gone back, no other lease lasts as much longer
		if l.until.After(now.Add(l.length)) && !l.left {
			l.until = now.Add(l.length)
			j.engines[id] = l
		}
	}
	j.engines[engine] = lease{until: now.Add(d), length: d}
	return nil
}

// Leave implements [journal.Journal].
func (j *Journal) Leave(ctx context.Context, engine journal.EngineID) error {
	if err := j.lock(ctx); err != nil {
		return err
	}
	defer j.mu.Unlock()
	j.engines[engine] = lease{until: j.clock(), left: true}
	return nil
}

// Read implements [journal.Journal].
func (j *Journal) Read(ctx context.Context, id journal.ID) (journal.Record, error) {
	if err := j.lock(ctx); err != nil {
		return journal.Record{}, err
	}
	defer j.mu.Unlock()
	r, ok := j.sagas[id]
	if !ok {
		return journal.Record{}, journal.ErrNotFound
	}
	return snapshot(r, j.clock()), nil
}

// ReadOutlines implements [journal.Journal].
func (j *Journal) ReadOutlines(ctx context.Context, ids []journal.ID) ([]journal.Record, error) {
	if err := j.lock(ctx); err != nil {
		return nil, err
	}
	defer j.mu.Unlock()
	now := j.clock()
	found := make(map[journal.ID]journal.Record, len(ids))
	for _, id := range ids {
		if r, ok := j.sagas[id]; ok {
			r.Input, r.Entries, r.Result = nil, nil, nil // not to copy them
			found[id] = snapshot(r, now)
		}
	}
	return slices.Collect(maps.Values(found)), nil
}

// Sweep implements [journal.Journal].
func (j *Journal) Sweep(ctx context.Context, limit int) (int, error) {
	if limit <= 0 {
		return 0, fmt.Errorf("%w: limit %d is not positive", ErrArgument, limit)
	}
	if err := j.lock(ctx); err != nil {
		return 0, err
	}
	defer j.mu.Unlock()
	now, swept := j.clock(), make(map[journal.ID]bool)
	named := make(map[journal.EngineID]bool)
	for id, r := range j.sagas {
		switch {
		case r.Status.Active():
			named[r.Engine] = true
		case r.Status.Final() && len(swept) < limit && !now.Before(r.ExpiresAt):
			delete(j.sagas, id)
			delete(j.lapsed, id)
			delete(j.slept, id)
			swept[id] = true
		}
	}
	for id, l := range j.engines {
		if !named[id] && !now.Before(l.until.Add(forgotten)) {
			delete(j.engines, id)
		}
	}
	j.sweepSignals(swept, now)
	return len(swept), nil
}

// Stats implements [journal.Journal].
func (j *Journal) Stats(ctx context.Context) (journal.Stats, error) {
	if err := j.lock(ctx); err != nil {
		return journal.Stats{}, err
	}
	defer j.mu.Unlock()
	st, now := journal.Stats{ByStatus: make(map[journal.Status]int64), UnownedOf: make(map[journal.PlanHash]int64)}, j.clock()
	for _, r := range j.sagas {
		st.ByStatus[r.Status]++
		if !r.Status.Final() {
			st.OldestUnfinished = max(st.OldestUnfinished, now.Sub(r.CreatedAt))
		}
		if r.Status == journal.Stuck {
			st.OldestStuck = max(st.OldestStuck, now.Sub(r.CreatedAt))
		}
		switch {
		case !j.isUnowned(r, now):
		case now.Before(r.WakeAt):
			st.Asleep++
		default:
			st.Unowned++
			if r.Deferred != nil {
				st.Deferred++
			} else {
				st.UnownedOf[r.Plan]++
			}
		}
	}
	for status, n := range st.ByStatus {
		st.ByStatus[status] = min(n, journal.StatsLimit)
	}
	for plan, n := range st.UnownedOf {
		st.UnownedOf[plan] = min(n, journal.StatsLimit)
	}
	for _, n := range []*int64{&st.Unowned, &st.Deferred, &st.Asleep} {
		*n = min(*n, journal.StatsLimit)
	}
	return st, nil
}
