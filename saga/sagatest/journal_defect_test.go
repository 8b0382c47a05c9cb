package sagatest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/fanonce/fanonce/saga/journal"
)

// A defect is one way to break a journal, and rules that must notice.
type defect struct {
	name   string
	mar    func(m *mutant)
	breaks []string
}

var defects = []defect{
	{"keeps the latest plan", func(m *mutant) {
		m.plan = func(_ context.Context, p journal.PlanRecord) (journal.PlanRecord, error) { return p, nil }
	}, []string{"plan: the first is kept"}},
	{"gives an ended lease again", func(m *mutant) {
		m.beat = func(ctx context.Context, engine journal.EngineID, lease time.Duration) error {
			_ = m.Journal.Heartbeat(ctx, engine, lease)
			return ctx.Err()
		}
	}, []string{"heartbeat: a lease that ended is not given again"}},
	{"extends no lease", func(m *mutant) {
		seen := make(map[journal.EngineID]bool)
		m.beat = func(ctx context.Context, engine journal.EngineID, lease time.Duration) error {
			if seen[engine] {
				return nil
			}
			seen[engine] = true
			return m.Journal.Heartbeat(ctx, engine, lease)
		}
	}, []string{"heartbeat: it extends a lease"}},
	{"lets nobody leave", func(m *mutant) {
		m.leave = func(context.Context, journal.EngineID) error { return nil }
	}, []string{"leave: its sagas are unowned at once, and nobody died", "claim: not without a lease"}},
	{"counts who leaves as a death", func(m *mutant) {
		m.claim = func(ctx context.Context, req journal.ClaimRequest) ([]journal.Record, error) {
			got, err := m.Journal.Claim(ctx, req)
			for i := range got {
				got[i].RecoveryAttempts = 1
			}
			return got, err
		}
	}, []string{"leave: its sagas are unowned at once, and nobody died", "start: nobody's saga is claimed at once", "claim: the run changes, the saga stays"}},
	{"mixes the hashes up", func(m *mutant) {
		m.start = func(ctx context.Context, req journal.StartRequest) (journal.Record, bool, error) {
			req.InputHash = req.Plan
			return m.Journal.Start(ctx, req)
		}
	}, []string{"start: the saga is as it was asked for"}},
	{"starts for everybody", func(m *mutant) {
		m.start = func(ctx context.Context, req journal.StartRequest) (journal.Record, bool, error) {
			r, _, err := m.Journal.Start(ctx, req)
			return r, true, err
		}
	}, []string{"start: one of 32 wins, 20 times", "start: a duplicate gets the saga and changes nothing", "start: nobody's saga is claimed at once"}},
	{"starts at once what is to start later", func(m *mutant) {
		m.start = func(ctx context.Context, req journal.StartRequest) (journal.Record, bool, error) {
			req.At = time.Time{}
			return m.Journal.Start(ctx, req)
		}
	}, []string{"start: with At nobody's saga is claimed then"}},
	{"does not know a repeated start", func(m *mutant) {
		m.start = func(ctx context.Context, req journal.StartRequest) (journal.Record, bool, error) {
			if r, err := m.Read(ctx, req.ID); err == nil {
				return r, false, nil
			}
			return m.Journal.Start(ctx, req)
		}
	}, []string{"start: repeated after a lost answer it knows itself"}},
	{"cuts inputs off", func(m *mutant) {
		m.start = func(ctx context.Context, req journal.StartRequest) (journal.Record, bool, error) {
			r, ok, err := m.Journal.Start(ctx, req)
			r.Input = r.Input[:min(len(r.Input), 8<<10)]
			return r, ok, err
		}
	}, []string{"start: large inputs and keys survive"}},
	{"makes entries anew", func(m *mutant) {
		m.append = func(ctx context.Context, o journal.Owner, w journal.Write) error {
			for i := range w.Entries {
				w.Entries[i].Forced = ""
			}
			return m.Journal.Append(ctx, o, w)
		}
	}, []string{"append: what is written is there, and nothing else changes"}},
	{"forgets that there was nothing to undo", func(m *mutant) {
		m.append = func(ctx context.Context, o journal.Owner, w journal.Write) error {
			for i := range w.Entries {
				w.Entries[i].Nothing = false
			}
			return m.Journal.Append(ctx, o, w)
		}
	}, []string{"append: what is written is there, and nothing else changes"}},
	{"forgets bodies", func(m *mutant) {
		m.append = func(ctx context.Context, o journal.Owner, w journal.Write) error {
			for i := range w.Entries {
				w.Entries[i].Body = nil
			}
			return m.Journal.Append(ctx, o, w)
		}
	}, []string{"append: what is written is there, and nothing else changes", "append: bodies of refusals survive"}},
	{"forgets that a body was too long", func(m *mutant) {
		m.append = func(ctx context.Context, o journal.Owner, w journal.Write) error {
			for i := range w.Entries {
				w.Entries[i].BodyTooLong = false
			}
			return m.Journal.Append(ctx, o, w)
		}
	}, []string{"append: bodies of refusals survive"}},
	{"forgets the body of a failure", func(m *mutant) {
		m.append = func(ctx context.Context, o journal.Owner, w journal.Write) error {
			if w.Cause != nil {
				w.Cause = &journal.Failure{
					Reason: w.Cause.Reason, Step: w.Cause.Step, Outcome: w.Cause.Outcome,
					Status: w.Cause.Status, Code: w.Cause.Code, Detail: w.Cause.Detail, Problem: w.Cause.Problem,
				}
			}
			return m.Journal.Append(ctx, o, w)
		}
	}, []string{"append: bodies of refusals survive", "append: an outcome and the failure are one write", "append: how a saga ends"}},
	{"holds the writer's bodies", func(m *mutant) {
		var held []journal.Entry
		m.append = func(ctx context.Context, o journal.Owner, w journal.Write) error {
			held = w.Entries
			return m.Journal.Append(ctx, o, w)
		}
		m.read = func(ctx context.Context, id journal.ID) (journal.Record, error) {
			r, err := m.Journal.Read(ctx, id)
			for i := range held {
				r.Entries[i].Body = held[i].Body
			}
			return r, err
		}
	}, []string{"append: bodies of refusals survive"}},
	{"has no room for much", func(m *mutant) {
		m.append = func(ctx context.Context, o journal.Owner, w journal.Write) error {
			if len(w.Entries) > 8 {
				return errors.New("no room")
			}
			return m.Journal.Append(ctx, o, w)
		}
	}, []string{"append: one write can have much to say"}},
	{"gives every saga up", func(m *mutant) {
		m.append = func(ctx context.Context, o journal.Owner, w journal.Write) error {
			if w.Status == 0 {
				w.WakeAt = time.Unix(1, 0)
			}
			return m.Journal.Append(ctx, o, w)
		}
	}, []string{"append: what is written is there, and nothing else changes"}},
	{"lets a saga that was given up be written to", func(m *mutant) {
		m.append = func(ctx context.Context, o journal.Owner, w journal.Write) error {
			err := m.Journal.Append(ctx, o, w)
			if r, read := m.Read(ctx, o.ID); read == nil && r.Clean && r.Fence == o.Fence {
				return nil
			}
			return err
		}
	}, []string{"append: with WakeAt it gives the saga up"}},
	{"does not keep the failure", func(m *mutant) {
		m.append = func(ctx context.Context, o journal.Owner, w journal.Write) error {
			if w.Status == journal.Compensating {
				w.Status = 0
			}
			return m.Journal.Append(ctx, o, w)
		}
	}, []string{"append: an outcome and the failure are one write"}},
	{"loses why a saga is stuck", func(m *mutant) {
		m.append = func(ctx context.Context, o journal.Owner, w journal.Write) error {
			w.StuckOn = nil
			return m.Journal.Append(ctx, o, w)
		}
	}, []string{"append: how a saga ends"}},
	{"does not know a repeated write", func(m *mutant) {
		m.append = func(ctx context.Context, o journal.Owner, w journal.Write) error {
			if r, err := m.Read(ctx, o.ID); err == nil && r.Revision >= w.Revision {
				return journal.ErrLeaseLost
			}
			return m.Journal.Append(ctx, o, w)
		}
	}, []string{"append: repeated after a lost answer it knows itself"}},
	{"forgets that it knew a write once the saga is over", func(m *mutant) {
		m.append = func(ctx context.Context, o journal.Owner, w journal.Write) error {
			if r, err := m.Read(ctx, o.ID); err == nil && r.Status.Final() {
				return journal.ErrLeaseLost
			}
			return m.Journal.Append(ctx, o, w)
		}
	}, []string{"append: repeated after a lost answer it knows itself"}},
	{"does not compare the fence", func(m *mutant) {
		m.append = func(ctx context.Context, o journal.Owner, w journal.Write) error {
			if r, err := m.Read(ctx, o.ID); err == nil {
				o = journal.Owner{ID: o.ID, Engine: r.Engine, Fence: r.Fence}
			}
			return m.Journal.Append(ctx, o, w)
		}
	}, []string{"append: strangers and zombies change nothing"}},
	{"does not compare the revision", func(m *mutant) {
		m.append = func(ctx context.Context, o journal.Owner, w journal.Write) error {
			if r, err := m.Read(ctx, o.ID); err == nil {
				w.Revision = r.Revision + 1
			}
			return m.Journal.Append(ctx, o, w)
		}
	}, []string{"append: strangers and zombies change nothing"}},
	{"says yes to zombies", func(m *mutant) {
		m.append = func(ctx context.Context, o journal.Owner, w journal.Write) error {
			if err := m.Journal.Append(ctx, o, w); !errors.Is(err, journal.ErrLeaseLost) {
				return err
			}
			return nil
		}
	}, []string{"append: what is over stays over", "append: beside a claim it is whole or refused"}},
	{"refuses who is late", func(m *mutant) {
		m.append = func(ctx context.Context, o journal.Owner, w journal.Write) error {
			if err := m.Journal.Heartbeat(ctx, o.Engine, long); err != nil {
				return err
			}
			return m.Journal.Append(ctx, o, w)
		}
	}, []string{"append: who is late but was not taken over still owns the saga"}},
	{"claims by a clock that is ahead", func(m *mutant) {
		m.beat = func(ctx context.Context, engine journal.EngineID, lease time.Duration) error {
			if lease == brief {
				lease = gone
			}
			return m.Journal.Heartbeat(ctx, engine, lease)
		}
	}, []string{"claim: not before the lease ends by the journal's clock"}},
	{"claims without a new fence", func(m *mutant) {
		m.claim = func(ctx context.Context, req journal.ClaimRequest) ([]journal.Record, error) {
			got, err := m.Journal.Claim(ctx, req)
			for i := range got {
				got[i].Fence--
			}
			return got, err
		}
	}, []string{"claim: the fence grows, and deaths are counted until it gets on", "claim: of 4 engines each unowned saga goes to one"}},
	{"counts the first claim anew with each claim", func(m *mutant) {
		m.claim = func(ctx context.Context, req journal.ClaimRequest) ([]journal.Record, error) {
			got, err := m.Journal.Claim(ctx, req)
			for i := range got {
				got[i].FirstClaimedAt = got[i].Now.Add(time.Microsecond)
			}
			return got, err
		}
	}, []string{"start: nobody's saga is claimed at once"}},
	{"never forgets a death", func(m *mutant) {
		m.append = func(ctx context.Context, o journal.Owner, w journal.Write) error {
			w.Entries = nil
			return m.Journal.Append(ctx, o, w)
		}
	}, []string{"claim: the fence grows, and deaths are counted until it gets on"}},
	{"claims what is stuck", func(m *mutant) {
		m.claim = func(ctx context.Context, req journal.ClaimRequest) ([]journal.Record, error) {
			got, err := m.Journal.Claim(ctx, req)
			halted, _ := m.Journal.Reader().Browse(ctx, journal.BrowseRequest{Statuses: []journal.Status{journal.Stuck}, Limit: 1})
			return append(got, halted...), err
		}
	}, []string{"claim: only what there is something to do for"}},
	{"does not let sleep", func(m *mutant) {
		m.append = func(ctx context.Context, o journal.Owner, w journal.Write) error {
			w.WakeAt = time.Time{}
			return m.Journal.Append(ctx, o, w)
		}
	}, []string{"append: with WakeAt it gives the saga up", "claim: what was given up is clean, until it has an owner"}},
	{"doubts what got stuck", func(m *mutant) {
		m.append = func(ctx context.Context, o journal.Owner, w journal.Write) error {
			if w.Status == journal.Stuck {
				w.WakeAt = time.Time{}
			}
			return m.Journal.Append(ctx, o, w)
		}
	}, []string{"append: with WakeAt a stuck saga is clean"}},
	{"loses when a call was sent first", func(m *mutant) {
		m.append = func(ctx context.Context, o journal.Owner, w journal.Write) error {
			w.Entries = slices.Clone(w.Entries)
			for i := range w.Entries {
				w.Entries[i].FirstSent = time.Time{}
			}
			return m.Journal.Append(ctx, o, w)
		}
	}, []string{"append: what is written is there, and nothing else changes"}},
	{"wakes too early", func(m *mutant) {
		m.append = func(ctx context.Context, o journal.Owner, w journal.Write) error {
			if !w.WakeAt.IsZero() {
				w.WakeAt = time.Unix(1, 0)
			}
			return m.Journal.Append(ctx, o, w)
		}
	}, []string{"claim: not before it is to wake"}},
	{"does not trust what was given up", func(m *mutant) {
		m.claim = func(ctx context.Context, req journal.ClaimRequest) ([]journal.Record, error) {
			got, err := m.Journal.Claim(ctx, req)
			for i := range got {
				got[i].Clean = false
			}
			return got, err
		}
	}, []string{"claim: what was given up is clean, until it has an owner"}},
	{"trusts whoever died", func(m *mutant) {
		m.claim = func(ctx context.Context, req journal.ClaimRequest) ([]journal.Record, error) {
			got, err := m.Journal.Claim(ctx, req)
			for i := range got {
				got[i].Clean = true
			}
			return got, err
		}
	}, []string{"claim: what was given up is clean, until it has an owner", "claim: the run changes, the saga stays"}},
	{"serves one plan after the other", func(m *mutant) {
		m.claim = func(ctx context.Context, req journal.ClaimRequest) (all []journal.Record, err error) {
			for _, plan := range req.Plans {
				next := req
				next.Plans, next.Limit = []journal.PlanHash{plan}, req.Limit-len(all)
				if next.Limit == 0 {
					break
				}
				got, err := m.Journal.Claim(ctx, next)
				if err != nil {
					return nil, err
				}
				all = append(all, got...)
			}
			return all, nil
		}
	}, []string{"claim: the plans share it fairly"}},
	{"gives a plan as many as there are", func(m *mutant) {
		m.claim = func(ctx context.Context, req journal.ClaimRequest) ([]journal.Record, error) {
			req.PerPlan = 0
			return m.Journal.Claim(ctx, req)
		}
	}, []string{"claim: the plans share it fairly"}},
	{"takes an outage for a death", func(m *mutant) {
		m.leave = func(ctx context.Context, engine journal.EngineID) error {
			if err := m.Journal.Heartbeat(ctx, engine, long); errors.Is(err, journal.ErrLeaseLost) {
				return nil
			}
			return m.Journal.Leave(ctx, engine)
		}
	}, []string{"claim: who comes back has not died"}},
	{"forgets who died", func(m *mutant) {
		m.claim = func(ctx context.Context, req journal.ClaimRequest) ([]journal.Record, error) {
			got, err := m.Journal.Claim(ctx, req)
			for i := range got {
				got[i].RecoveryAttempts = 0
			}
			return got, err
		}
	}, []string{"claim: who comes back has not died"}},
	{"lets nobody wait after a death", func(m *mutant) {
		m.claim = func(ctx context.Context, req journal.ClaimRequest) ([]journal.Record, error) {
			req.Backoff = 0
			return m.Journal.Claim(ctx, req)
		}
	}, []string{"claim: after the second death not for a while"}},
	{"claims any plan", func(m *mutant) {
		m.claim = func(ctx context.Context, req journal.ClaimRequest) ([]journal.Record, error) {
			req.Plans = append(req.Plans, planOf("checkout"))
			return m.Journal.Claim(ctx, req)
		}
	}, []string{"claim: only plans that the engine has"}},
	{"claims the youngest, and all of them", func(m *mutant) {
		m.claim = func(ctx context.Context, req journal.ClaimRequest) ([]journal.Record, error) {
			req.Limit = 100
			got, err := m.Journal.Claim(ctx, req)
			slices.Reverse(got)
			return got, err
		}
	}, []string{"claim: no more than asked for, the oldest first"}},
	{"outlines no more than one saga", func(m *mutant) {
		m.lines = func(ctx context.Context, ids []journal.ID) ([]journal.Record, error) {
			return m.Journal.ReadOutlines(ctx, ids[:min(len(ids), 2)])
		}
	}, []string{"read: outlines of those that are there, as they are"}},
	{"outlines a saga as often as it is asked for", func(m *mutant) {
		m.lines = func(ctx context.Context, ids []journal.ID) (all []journal.Record, err error) {
			for _, id := range ids {
				found, _ := m.Journal.ReadOutlines(ctx, []journal.ID{id})
				all = append(all, found...)
			}
			return all, ctx.Err()
		}
	}, []string{"read: outlines of those that are there, as they are"}},
	{"outlines no wakes and no times", func(m *mutant) {
		m.lines = func(ctx context.Context, ids []journal.ID) ([]journal.Record, error) {
			found, err := m.Journal.ReadOutlines(ctx, ids)
			for i := range found {
				found[i].WakeAt = time.Time{}
			}
			return found, err
		}
	}, []string{"read: outlines of those that are there, as they are"}},
	{"changes whatever there is", func(m *mutant) {
		m.change = func(ctx context.Context, c journal.Change) (journal.Record, bool, error) {
			if r, err := m.Read(ctx, c.ID); err == nil {
				c.Revision = r.Revision
			}
			return m.Journal.Change(ctx, c)
		}
	}, []string{"change: not of a saga that moved on"}},
	{"fences off an owner that there never was", func(m *mutant) {
		m.change = func(ctx context.Context, c journal.Change) (journal.Record, bool, error) {
			r, won, err := m.Journal.Change(ctx, c)
			r.Fence = max(r.Fence, 1)
			return r, won, err
		}
	}, []string{"change: it fences off nobody where no engine had the saga"}},
	{"names nobody in the audit log", func(m *mutant) {
		m.audit = func(ctx context.Context, req journal.AuditRequest) ([]journal.AuditEntry, error) {
			log, err := m.Journal.Reader().AuditPage(ctx, req)
			for i := range log {
				log[i].Actor = ""
			}
			return log, err
		}
	}, []string{"change: it takes the saga from its owner, and is in the audit log"}},
	{"forgets what was cancelled", func(m *mutant) {
		m.change = func(ctx context.Context, c journal.Change) (journal.Record, bool, error) {
			r, won, err := m.Journal.Change(ctx, c)
			r.Cancel = c.Cancel
			return r, won, err
		}
	}, []string{"change: it ends and resumes"}},
	{"moves a saga to a version, and not to its plan", moving(func(was journal.Record, now *journal.Record) { now.Plan = was.Plan }), []string{
		"change: another plan, and nothing else", "change: another plan wakes what sleeps, and not what has not begun",
	}},
	{"lets an owner keep a saga that is moved", moving(func(was journal.Record, now *journal.Record) {
		now.Engine, now.Fence = was.Engine, was.Fence
	}), []string{"change: another plan, and nothing else"}},
	{"begins a saga early that is moved", moving(func(_ journal.Record, now *journal.Record) {
		if !now.WakeAt.IsZero() {
			now.WakeAt = now.ResumedAt
		}
	}), []string{"change: another plan wakes what sleeps, and not what has not begun"}},
	{"lets a saga sleep on that is moved", moving(func(was journal.Record, now *journal.Record) { now.WakeAt = was.WakeAt }), []string{
		"change: another plan, and nothing else", "change: another plan wakes what sleeps, and not what has not begun",
	}},
	{"forgets why a moved saga is stuck", moving(func(_ journal.Record, now *journal.Record) { now.StuckOn = nil }), []string{
		"change: another plan, and nothing else",
	}},
	{"takes a saga that it wakes from its owner", func(m *mutant) {
		m.change = func(ctx context.Context, c journal.Change) (journal.Record, bool, error) {
			if c.Wake {
				c.Wake, c.Status = false, journal.Running
			}
			return m.Journal.Change(ctx, c)
		}
	}, []string{"change: it wakes what waits, and takes it from nobody"}},
	{"lets a wake keep the revision", func(m *mutant) {
		wakes := func(id journal.ID) int64 { r, _ := m.Journal.Read(context.Background(), id); return r.Wakes }
		m.change = func(ctx context.Context, c journal.Change) (journal.Record, bool, error) {
			c.Revision += wakes(c.ID)
			r, won, err := m.Journal.Change(ctx, c)
			r.Revision, r.Wakes = r.Revision-r.Wakes, 0
			return r, won, err
		}
		m.read = func(ctx context.Context, id journal.ID) (journal.Record, error) {
			r, err := m.Journal.Read(ctx, id)
			r.Revision, r.Wakes = r.Revision-r.Wakes, 0
			return r, err
		}
	}, []string{"change: a wake moves the revision, and the owner need not know", "change: it wakes what waits, and takes it from nobody"}},
	{"has an owner count the wakes", func(m *mutant) {
		m.append = func(ctx context.Context, o journal.Owner, w journal.Write) error {
			if r, err := m.Read(ctx, o.ID); err == nil && r.Wakes > 0 {
				w.Revision -= r.Wakes
			}
			return m.Journal.Append(ctx, o, w)
		}
	}, []string{"change: a wake moves the revision, and the owner need not know", "change: it wakes what waits, and takes it from nobody"}},
	{"counts wakes over all owners", func(m *mutant) {
		m.claim = func(ctx context.Context, req journal.ClaimRequest) ([]journal.Record, error) {
			got, err := m.Journal.Claim(ctx, req)
			for i := range got {
				got[i].Wakes = got[i].Revision - 1
			}
			return got, err
		}
	}, []string{"change: a wake moves the revision, and the owner need not know"}},
	{"wakes nothing", func(m *mutant) {
		m.change = func(ctx context.Context, c journal.Change) (journal.Record, bool, error) {
			if !c.Wake {
				return m.Journal.Change(ctx, c)
			}
			r, err := m.Read(ctx, c.ID)
			return r, true, err
		}
	}, []string{"change: it wakes what waits, and takes it from nobody", "change: it wakes what has no owner"}},
	{"shows the oldest lines of the audit log", func(m *mutant) {
		m.audit = func(ctx context.Context, req journal.AuditRequest) ([]journal.AuditEntry, error) {
			limit := req.Limit
			req.Limit = 1000
			log, err := m.Journal.Reader().AuditPage(ctx, req)
			slices.Reverse(log)
			return log[:min(len(log), limit)], err
		}
	}, []string{"audit: the youngest first, as many as asked for"}},
	{"keeps the latest signal", func(m *mutant) {
		m.send = func(ctx context.Context, s journal.Signal, by journal.Audit) error {
			err := m.Journal.Send(ctx, s, by)
			if errors.Is(err, journal.ErrSignalReused) {
				return nil
			}
			return err
		}
	}, []string{"signal: the first value of a name stays", "signal: one of 16 values wins, 20 times", "signal: in somebody's name it is in the audit log, once"}},
	{"lets a signal and the end of its wait both take effect", func(m *mutant) {
		m.end = func(ctx context.Context, o journal.Owner, name string) (journal.Signal, error) {
			s, err := m.Journal.EndWait(ctx, o, name)
			s.Value = nil
			return s, err
		}
	}, []string{"signal: of a value and the end of the wait one counts, 20 times"}},
	{"lets anybody end a wait", func(m *mutant) {
		m.end = func(ctx context.Context, o journal.Owner, name string) (journal.Signal, error) {
			s, err := m.Journal.EndWait(ctx, o, name)
			if errors.Is(err, journal.ErrLeaseLost) {
				err = nil
			}
			return s, err
		}
	}, []string{"signal: only the owner of a running saga ends a wait"}},
	{"takes a signal for what is over", func(m *mutant) {
		m.send = func(ctx context.Context, s journal.Signal, by journal.Audit) error {
			err := m.Journal.Send(ctx, s, by)
			if errors.Is(err, journal.ErrTooLate) {
				return nil
			}
			return err
		}
	}, []string{"signal: it can come before its saga, and not when that is over", "signal: of a value and the end of the wait one counts, 20 times"}},
	{"wakes nothing by a signal", func(m *mutant) {
		var sent sync.Map
		m.send = func(ctx context.Context, s journal.Signal, _ journal.Audit) error {
			sent.Store(s.ID, s)
			return nil
		}
		m.sent = func(context.Context, []journal.ID) (all []journal.Signal, _ error) {
			sent.Range(func(_, s any) bool { all = append(all, s.(journal.Signal)); return true }) //nolint:forcetypeassert // it has only those
			return all, nil
		}
	}, []string{"signal: it wakes what sleeps, and takes it from nobody", "signal: beside the write that gives a saga up it makes it due, 20 times"}},
	{"leaves the signals of what it sweeps", func(m *mutant) {
		var early sync.Map
		m.send = func(ctx context.Context, s journal.Signal, by journal.Audit) error {
			early.Store(s.ID, s)
			return m.Journal.Send(ctx, s, by)
		}
		m.sent = func(_ context.Context, ids []journal.ID) (all []journal.Signal, _ error) {
			for _, id := range ids {
				if s, ok := early.Load(id); ok {
					all = append(all, s.(journal.Signal)) //nolint:forcetypeassert // it has only those
				}
			}
			return all, nil
		}
	}, []string{"signal: it is swept with its saga"}},
	{"lists what is over", func(m *mutant) {
		m.list = func(ctx context.Context, req journal.ListRequest) ([]journal.Record, error) {
			listed, err := m.Journal.List(ctx, req)
			over, _ := m.Journal.Reader().Browse(ctx, journal.BrowseRequest{Statuses: []journal.Status{journal.Completed}, Limit: 1})
			return append(listed, over...), err
		}
	}, []string{"list: the sagas of an engine, without what is large"}},
	{"begins each page anew", func(m *mutant) {
		m.list = func(ctx context.Context, req journal.ListRequest) ([]journal.Record, error) {
			req.After = journal.Cursor{}
			return m.Journal.List(ctx, req)
		}
	}, []string{"list: pages miss nothing and repeat nothing"}},
	{"counts nobody who sleeps", func(m *mutant) {
		m.stats = func(ctx context.Context) (journal.Stats, error) {
			st, err := m.Journal.Stats(ctx)
			st.Asleep = 0
			return st, err
		}
	}, []string{"stats: they count"}},
	{"counts no unowned sagas", func(m *mutant) {
		m.stats = func(ctx context.Context) (journal.Stats, error) {
			st, err := m.Journal.Stats(ctx)
			st.Unowned = 0
			return st, err
		}
	}, []string{"stats: they count"}},
	{"takes the oldest unfinished saga for a stuck one", func(m *mutant) {
		m.stats = func(ctx context.Context) (journal.Stats, error) {
			st, err := m.Journal.Stats(ctx)
			st.OldestStuck = st.OldestUnfinished
			return st, err
		}
	}, []string{"stats: the age of the oldest stuck saga"}},
	{"keeps the engine of a deferred saga", func(m *mutant) {
		m.append = func(ctx context.Context, o journal.Owner, w journal.Write) error {
			w.Defer = nil
			return m.Journal.Append(ctx, o, w)
		}
	}, []string{
		"defer: the saga has no engine, and says why", "defer: only a claim that asks for deferred sagas gets one",
	}},
	{"claims deferred sagas as any other", func(m *mutant) {
		m.claim = func(ctx context.Context, req journal.ClaimRequest) ([]journal.Record, error) {
			req.Deferred = req.Plans
			return m.Journal.Claim(ctx, req)
		}
	}, []string{"defer: only a claim that asks for deferred sagas gets one"}},
	{"keeps a saga deferred that somebody changed", func(m *mutant) {
		m.change = func(ctx context.Context, c journal.Change) (journal.Record, bool, error) {
			r, won, err := m.Journal.Change(ctx, c)
			r.Deferred = &newer
			return r, won, err
		}
	}, []string{"defer: a change of the saga ends it"}},
	{"sweeps what it should keep", func(m *mutant) {
		m.append = func(ctx context.Context, o journal.Owner, w journal.Write) error {
			w.Keep = gone
			return m.Journal.Append(ctx, o, w)
		}
	}, []string{"sweep: what is final and past its time, and nothing else"}},
	{"sweeps all at once", func(m *mutant) {
		m.sweep = func(ctx context.Context, _ int) (int, error) { return m.Journal.Sweep(ctx, 100) }
	}, []string{"sweep: no more than asked for"}},
	{"ignores a done context", func(m *mutant) {
		m.leave = func(ctx context.Context, engine journal.EngineID) error {
			return m.Journal.Leave(context.WithoutCancel(ctx), engine)
		}
	}, []string{"context: already done, nothing happens"}},
}

// moving makes the defect that edit is done to what a move to another plan leaves.
func moving(edit func(was journal.Record, now *journal.Record)) func(m *mutant) {
	return func(m *mutant) {
		m.change = func(ctx context.Context, c journal.Change) (journal.Record, bool, error) {
			was, err := m.Journal.Read(ctx, c.ID)
			r, won, failed := m.Journal.Change(ctx, c)
			if err == nil && won && c.Plan != (journal.PlanHash{}) {
				edit(was, &r)
			}
			return r, won, failed
		}
	}
}
