package saga

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/fanonce/fanonce/saga/internal/engine"
	"github.com/fanonce/fanonce/saga/internal/graph"
	"github.com/fanonce/fanonce/saga/journal"
)

// A MigrationReason is the kind of a [MigrationProblem].
type MigrationReason string

// The reasons. A step has begun if it has ended, waits or was skipped, or if a process may have called it.
const (
	MigrationDefinition   MigrationReason = engine.MigrationDefinition // the saga is of another definition
	MigrationOver         MigrationReason = engine.MigrationOver       // it has ended
	MigrationGoesBack     MigrationReason = engine.MigrationGoesBack   // it is undone, or cancelled
	MigrationNoStep       MigrationReason = engine.MigrationNoStep     // a step that has begun is not there
	MigrationCall         MigrationReason = engine.MigrationCall       // a step that has begun calls something else there
	MigrationUndo         MigrationReason = engine.MigrationUndo       // a step that has begun is undone in another way there
	MigrationMarks        MigrationReason = engine.MigrationMarks      // a step that has begun has other marks there, such as Optional
	MigrationUnfinished   MigrationReason = engine.MigrationUnfinished // a step that has begun waits there for one that has not ended
	MigrationPivot        MigrationReason = engine.MigrationPivot      // the pivot is another step
	MigrationInput        MigrationReason = engine.MigrationInput      // the stored input is not what the version stores
	MigrationOutput       MigrationReason = engine.MigrationOutput     // a stored output is not what the version stores, or is missing
	MigrationRequest      MigrationReason = engine.MigrationRequest    // a call would be repeated or undone with another input
	MigrationSignal       MigrationReason = engine.MigrationSignal     // a signal was sent that the version does not await, or cannot read
	MigrationWouldFail    MigrationReason = engine.MigrationWouldFail  // the saga would fail at once, as by a shorter Timeout
	MigrationMovesTooFast MigrationReason = "moves-too-fast"           // of MigrateAll: the saga changed each time it was read
	MigrationUnreadable   MigrationReason = "unreadable"               // of MigrateAll: the saga or its plan cannot be read
)

// A MigrationProblem is one reason why a saga cannot be moved to another version of its definition.
type MigrationProblem struct {
	Reason MigrationReason
	Step   string // that it is about; "": the saga as a whole
	Text   string // what differs, for people
}

// A MigrationError lists all reasons why a saga cannot be moved to another version. Nothing was written. It matches
// [ErrConflict].
type MigrationError struct {
	ID       journal.ID
	Name     string
	From, To int // the versions
	Problems []MigrationProblem
}

// Error has one line per problem.
func (e *MigrationError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "saga: %s %s cannot be moved from version %d to %d:", e.Name, e.ID, e.From, e.To)
	for _, p := range e.Problems {
		b.WriteString("\n\t" + p.Text)
	}
	return b.String()
}

// Is matches [ErrConflict].
func (e *MigrationError) Is(target error) bool { return target == ErrConflict }

// A storedPlan is a definition for [Operator.Migrate] alone.
type storedPlan struct{ plan *graph.Plan }

func (storedPlan) enginePlan() *graph.Plan { return nil }

// StoredPlan returns a definition for [Operator.Migrate] and [Operator.MigrateAll] alone: the plan that a journal keeps. It is
// for programs without the definition itself, such as a command. A plan has neither types nor functions nor times. So
// nothing finds the problems [MigrationInput], [MigrationOutput], [MigrationRequest] and [MigrationWouldFail]. A saga whose
// values the other version cannot read is then deferred or stuck, and can be moved back.
//
// The errors are those of [PlanSteps]. It does no I/O.
func StoredPlan(r journal.PlanRecord) (AnyDefinition, error) {
	p, err := graph.ParsePlan(r)
	if err != nil {
		return nil, err
	}
	return storedPlan{p}, nil
}

// targetOf returns the plan to move sagas to.
func targetOf(d AnyDefinition) (*graph.Plan, error) {
	if stored, ok := d.(storedPlan); ok {
		return stored.plan, nil
	}
	if d == nil || d.enginePlan() == nil {
		return nil, field("to", errors.New("nil, or not made by Define"))
	}
	return d.enginePlan(), nil
}

// Migrate moves a saga to another version of its definition, newer or older: the engines that have it go on with the saga.
// What has ended stays, and the steps that the version adds still run. moved is false if the saga has the version already.
//
// What has begun must be the same in both versions: each such step with its call, its undo and its marks, and the pivot.
// It must wait for no step that has not ended. The input and the outputs must be what the version itself would have stored.
// Else the error is a [*MigrationError] with all reasons, and nothing is written. If the operator has the saga's present
// definition too, it compares the inputs of the calls that may be repeated or undone: give both definitions to
// [NewOperator]. Otherwise see that they are the same, since a callee refuses another input under the same key.
//
// The saga may be running, asleep, deferred, or stuck on its way forward. A stuck one stays stuck: [Operator.Retry] it then.
// A sleep that has begun keeps its end. A saga that no engine had yet keeps its time to begin ([StartAt]). One that goes
// back or is cancelled is refused: its undos are those of the plan that it went forward by. [Builder.Timeout], and the
// waits of new steps, count as if the saga had always had the version; the Timeout of a step counts from the migration.
//
// The journal must have the version: let an engine open with it first, else it is [ErrNoDefinition]. When Migrate returns,
// the execution that it found begins no further call, as after [Operator.Cancel]. Calls that run go on; their keys are the
// same in all versions, and the next owner repeats them. A [Definition.Run] that waits in a process without the version
// returns [ErrNoDefinition]. The other errors are those of Retry. The audit log has the versions.
func (o *operator) Migrate(ctx context.Context, id journal.ID, to AnyDefinition, by journal.Audit) (r journal.Record, moved bool, err error) {
	p, err := targetOf(to)
	if err == nil {
		err = o.verbs.CheckTarget(ctx, p)
	}
	if err != nil {
		return journal.Record{}, false, err
	}
	r, moved, err = o.verbs.Migrate(ctx, id, p, by)
	return r, moved, migrationError(err)
}

// CheckMigrate says what [Operator.Migrate] would say now, and changes nothing.
func (o *operator) CheckMigrate(ctx context.Context, id journal.ID, to AnyDefinition) (r journal.Record, moves bool, err error) {
	p, err := targetOf(to)
	if err == nil {
		err = o.verbs.CheckTarget(ctx, p)
	}
	if err != nil {
		return journal.Record{}, false, err
	}
	r, moves, err = o.verbs.CheckMigrate(ctx, id, p)
	return r, moves, migrationError(err)
}

// migrationError gives a refusal of the engine its public type.
func migrationError(err error) error {
	refused, ok := err.(*engine.MigrationRefused) //nolint:errorlint // the engine returns it as it is
	if !ok {
		return err
	}
	e := &MigrationError{ID: refused.Record.ID, Name: refused.Record.Name, From: refused.Record.Version, To: refused.To}
	for _, p := range refused.Problems {
		e.Problems = append(e.Problems, MigrationProblem{MigrationReason(p.Reason), p.Step, p.Text})
	}
	return e
}

// A MigrateRequest says which sagas [Operator.MigrateAll] moves.
type MigrateRequest struct {
	// To is the version that they get.
	To AnyDefinition
	// From is the version that they have; 0: each other version.
	From int
	// DryRun changes nothing. The counts are those of a run at this moment.
	DryRun bool
	// Report, unless it is nil, hears of each saga that was moved, or would be, with a nil error, and of each that was not.
	// It is called by one goroutine at a time.
	Report func(id journal.ID, err error)
}

// MigrateCounts are what became of the sagas of a [MigrateRequest].
type MigrateCounts struct {
	Moved   int // or would be moved
	There   int // have the version already
	Gone    int // were swept meanwhile
	Refused int
	// Problems counts the refused sagas by their problems, of which a saga may have several. The keys have no Text.
	Problems map[MigrationProblem]int
}

const (
	migratePage     = 100
	migrateTogether = 16 // sagas at once: a saga that another process executes takes a second
)

// MigrateAll is [Operator.Migrate] for all unfinished sagas of a definition: each is a change of its own, in the audit log.
// It reads them in pages, the oldest first. Sagas that were stored after it began are left out.
//
// It goes on after a refusal, and stops at any other error, or when ctx ends. The counts then say what was done. Call it
// again to go on: what has been moved is There. A dry run needs no actor and no reason.
func (o *operator) MigrateAll(ctx context.Context, req MigrateRequest, by journal.Audit) (MigrateCounts, error) {
	by.Revision = 0
	m := migrateAll{o: o, req: req, by: by, counts: MigrateCounts{Problems: make(map[MigrationProblem]int)}}
	var err error
	if m.to, err = targetOf(req.To); err == nil {
		err = o.verbs.CheckTarget(ctx, m.to)
	}
	if err != nil {
		return m.counts, err
	}
	list := journal.BrowseRequest{
		Statuses: []journal.Status{journal.Running, journal.Compensating, journal.Stuck}, Name: m.to.Name, OldestFirst: true, Limit: migratePage,
	}
	for {
		page, err := o.Reader().Browse(ctx, list)
		if err == nil {
			err = m.movePage(ctx, page)
		}
		if err != nil || len(page) < migratePage {
			return m.counts, err
		}
		last := page[len(page)-1]
		list.Before = journal.Cursor{CreatedAt: last.CreatedAt, ID: last.ID}
		if list.To.IsZero() {
			list.To = page[0].Now.Add(time.Nanosecond)
		}
	}
}

// A migrateAll is one call of MigrateAll.
type migrateAll struct {
	o   *operator
	req MigrateRequest
	to  *graph.Plan
	by  journal.Audit

	mu     sync.Mutex
	counts MigrateCounts
	failed error // the first one that is no refusal
}

func (m *migrateAll) movePage(ctx context.Context, page []journal.Record) error {
	var work sync.WaitGroup
	places := make(chan struct{}, migrateTogether)
	for _, r := range page {
		if m.req.From != 0 && r.Version != m.req.From && r.Version != m.to.Version {
			continue
		}
		places <- struct{}{}
		if m.hasFailed() || ctx.Err() != nil {
			break
		}
		work.Go(func() {
			defer func() { <-places }()
			m.move(ctx, r.ID)
		})
	}
	work.Wait()
	if m.failed == nil && ctx.Err() != nil {
		return engine.Ended(ctx)
	}
	return m.failed
}

func (m *migrateAll) hasFailed() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.failed != nil
}

func (m *migrateAll) move(ctx context.Context, id journal.ID) {
	var moved bool
	var err error
	if m.req.DryRun {
		_, moved, err = m.o.verbs.CheckMigrate(ctx, id, m.to)
	} else {
		_, moved, err = m.o.verbs.Migrate(ctx, id, m.to, m.by)
	}
	err = migrationError(err)
	m.mu.Lock()
	defer m.mu.Unlock()
	var refused *MigrationError
	switch {
	case err == nil && moved:
		m.counts.Moved++
	case err == nil:
		m.counts.There++
		return
	case errors.Is(err, ErrNotFound):
		m.counts.Gone++
	case errors.As(err, &refused):
		m.refuse(refused.Problems...)
	case errors.Is(err, ErrCorrupt), errors.Is(err, ErrNoDefinition):
		m.refuse(MigrationProblem{Reason: MigrationUnreadable})
	case errors.Is(err, ErrConflict):
		m.refuse(MigrationProblem{Reason: MigrationMovesTooFast})
	default:
		if m.failed == nil {
			m.failed = fmt.Errorf("saga: migrate %s: %w", id, err)
		}
		return
	}
	if m.req.Report != nil {
		m.req.Report(id, err)
	}
}

// refuse counts a saga with its problems, each once.
func (m *migrateAll) refuse(problems ...MigrationProblem) {
	m.counts.Refused++
	seen := make(map[MigrationProblem]bool)
	for _, p := range problems {
		if p.Text = ""; !seen[p] {
			seen[p] = true
			m.counts.Problems[p]++
		}
	}
}
