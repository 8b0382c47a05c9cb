package sagatest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/saga/memjournal"
)

// A readerMutant is a reader with a defect: each field that is set replaces a method.
type readerMutant struct {
	journal.Reader
	show     func(ctx context.Context, id journal.ID) (journal.Record, error)
	browse   func(ctx context.Context, req journal.BrowseRequest) ([]journal.Record, error)
	plan     func(ctx context.Context, name string, version int) (journal.PlanRecord, error)
	plans    func(ctx context.Context) ([]journal.PlanRecord, error)
	stats    func(ctx context.Context) (journal.Stats, error)
	estimate func(ctx context.Context) (journal.Estimate, error)
	audit    func(ctx context.Context, req journal.AuditRequest) ([]journal.AuditEntry, error)
}

func (m *readerMutant) Show(ctx context.Context, id journal.ID) (journal.Record, error) {
	if m.show != nil {
		return m.show(ctx, id)
	}
	return m.Reader.Show(ctx, id)
}

func (m *readerMutant) Browse(ctx context.Context, req journal.BrowseRequest) ([]journal.Record, error) {
	if m.browse != nil {
		return m.browse(ctx, req)
	}
	return m.Reader.Browse(ctx, req)
}

func (m *readerMutant) Plan(ctx context.Context, name string, version int) (journal.PlanRecord, error) {
	if m.plan != nil {
		return m.plan(ctx, name, version)
	}
	return m.Reader.Plan(ctx, name, version)
}

func (m *readerMutant) Plans(ctx context.Context) ([]journal.PlanRecord, error) {
	if m.plans != nil {
		return m.plans(ctx)
	}
	return m.Reader.Plans(ctx)
}

func (m *readerMutant) Stats(ctx context.Context) (journal.Stats, error) {
	if m.stats != nil {
		return m.stats(ctx)
	}
	return m.Reader.Stats(ctx)
}

func (m *readerMutant) Estimate(ctx context.Context) (journal.Estimate, error) {
	if m.estimate != nil {
		return m.estimate(ctx)
	}
	return m.Reader.Estimate(ctx)
}

func (m *readerMutant) AuditPage(ctx context.Context, req journal.AuditRequest) ([]journal.AuditEntry, error) {
	if m.audit != nil {
		return m.audit(ctx, req)
	}
	return m.Reader.AuditPage(ctx, req)
}

// A readerDefect is one way to break a reader, and the rule that must notice.
type readerDefect struct {
	name   string
	mar    func(m *readerMutant, j journal.Journal)
	breaks string
}

// browsing changes the requests of lists.
func browsing(change func(req *journal.BrowseRequest)) func(m *readerMutant, j journal.Journal) {
	return func(m *readerMutant, _ journal.Journal) {
		m.browse = func(ctx context.Context, req journal.BrowseRequest) ([]journal.Record, error) {
			change(&req)
			return m.Reader.Browse(ctx, req)
		}
	}
}

// browsed changes the answers of lists.
func browsed(change func(page []journal.Record, j journal.Journal)) func(m *readerMutant, j journal.Journal) {
	return func(m *readerMutant, j journal.Journal) {
		m.browse = func(ctx context.Context, req journal.BrowseRequest) ([]journal.Record, error) {
			page, err := m.Reader.Browse(ctx, req)
			change(page, j)
			return page, err
		}
	}
}

// auditing changes the requests of audit pages.
func auditing(change func(req *journal.AuditRequest)) func(m *readerMutant, j journal.Journal) {
	return func(m *readerMutant, _ journal.Journal) {
		m.audit = func(ctx context.Context, req journal.AuditRequest) ([]journal.AuditEntry, error) {
			change(&req)
			return m.Reader.AuditPage(ctx, req)
		}
	}
}

const (
	ruleShow   = "show: a saga without its content"
	rulePages  = "browse: in both orders, page by page"
	ruleWindow = "browse: in a window"
	ruleBad    = "reader: bad requests are refused"
	ruleAudit  = "audit page: the youngest first, page by page"
)

var readerDefects = []readerDefect{
	{"shows all", func(m *readerMutant, j journal.Journal) { m.show = j.Read }, ruleShow},
	{"shows what is not there", func(m *readerMutant, _ journal.Journal) {
		m.show = func(ctx context.Context, id journal.ID) (journal.Record, error) {
			r, err := m.Reader.Show(ctx, id)
			if errors.Is(err, journal.ErrNotFound) {
				return r, nil
			}
			return r, err
		}
	}, ruleShow},
	{"leaves the bodies of failures", func(m *readerMutant, j journal.Journal) {
		m.show = func(ctx context.Context, id journal.ID) (journal.Record, error) {
			r, err := m.Reader.Show(ctx, id)
			if of, readErr := j.Read(ctx, id); readErr == nil {
				r.Cause = of.Cause
			}
			return r, err
		}
	}, ruleShow},
	{"keeps no order of plans", func(m *readerMutant, _ journal.Journal) {
		m.plans = func(ctx context.Context) ([]journal.PlanRecord, error) {
			plans, err := m.Reader.Plans(ctx)
			slices.Reverse(plans)
			return plans, err
		}
	}, "plans: as they were stored, by name and version"},
	{"returns any version", func(m *readerMutant, _ journal.Journal) {
		m.plan = func(ctx context.Context, name string, _ int) (journal.PlanRecord, error) {
			return m.Reader.Plan(ctx, name, 2)
		}
	}, "plans: as they were stored, by name and version"},
	{"counts nothing", func(m *readerMutant, _ journal.Journal) {
		m.stats = func(context.Context) (journal.Stats, error) { return journal.Stats{}, nil }
	}, "stats: those of the journal"},
	{"knows no lag", func(m *readerMutant, _ journal.Journal) {
		m.estimate = func(context.Context) (journal.Estimate, error) { return journal.Estimate{}, nil }
	}, "estimate: the lag of the sweep"},
	{"takes what is kept for a lag", func(m *readerMutant, _ journal.Journal) {
		m.estimate = func(context.Context) (journal.Estimate, error) { return journal.Estimate{SweepLag: keep}, nil }
	}, "estimate: the lag of the sweep"},
	{"takes any limit", browsing(func(req *journal.BrowseRequest) { req.Limit = max(req.Limit, 1) }), ruleBad},
	{"forgets the statuses of a search", browsing(func(req *journal.BrowseRequest) {
		if req.StuckOn != "" {
			req.Statuses = nil
		}
	}), ruleBad},
	{"takes any audit page", auditing(func(req *journal.AuditRequest) { req.Before = max(req.Before, 0) }), ruleBad},
	{"works for nobody", func(m *readerMutant, _ journal.Journal) {
		m.plans = func(ctx context.Context) ([]journal.PlanRecord, error) {
			return m.Reader.Plans(context.WithoutCancel(ctx))
		}
	}, "reader: a done context"},
	{"lists the oldest first", browsed(func(page []journal.Record, _ journal.Journal) { slices.Reverse(page) }), rulePages},
	{"repeats the last saga of a page", browsing(func(req *journal.BrowseRequest) {
		if req.Before != (journal.Cursor{}) {
			req.Before.ID[15]++
		}
	}), rulePages},
	{"knows one order", browsing(func(req *journal.BrowseRequest) { req.OldestFirst = false }), rulePages},
	{"takes any order", browsing(func(req *journal.BrowseRequest) { req.OldestFirst = req.OldestFirst && req.Unfinished() }), ruleBad},
	{"pages by time alone", browsing(func(req *journal.BrowseRequest) { req.Before.ID = journal.ID{} }), rulePages},
	{"forgets the page in a window", browsing(func(req *journal.BrowseRequest) {
		if !req.To.IsZero() {
			req.Before = journal.Cursor{}
		}
	}), rulePages},
	{"lists all statuses", browsing(func(req *journal.BrowseRequest) { req.Statuses = nil }), "browse: by status"},
	{"includes the end of a window", browsing(func(req *journal.BrowseRequest) {
		if !req.To.IsZero() {
			req.To = req.To.Add(time.Nanosecond)
		}
	}), ruleWindow},
	{"leaves out the beginning of a window", browsing(func(req *journal.BrowseRequest) {
		if !req.From.IsZero() {
			req.From = req.From.Add(time.Nanosecond)
		}
	}), ruleWindow},
	{"has no window of unfinished sagas", browsing(func(req *journal.BrowseRequest) {
		if req.Unfinished() {
			req.From = time.Time{}
		}
	}), ruleWindow},
	{"lists all times", browsing(func(req *journal.BrowseRequest) {
		if req.From.IsZero() {
			req.From = time.Unix(0, 0)
		}
	}), ruleWindow},
	{"ignores names", browsing(func(req *journal.BrowseRequest) { req.Name = "" }), "browse: by name"},
	{"ignores steps", browsing(func(req *journal.BrowseRequest) {
		if req.StuckOn != "" {
			req.StuckOn, req.Statuses = "", []journal.Status{journal.Stuck}
		}
	}), "browse: by the step on which sagas are stuck"},
	{"lists keys", browsed(func(page []journal.Record, j journal.Journal) {
		for i := range page {
			r, _ := j.Read(context.Background(), page[i].ID)
			page[i].Key = r.Key
		}
	}), "browse: sagas without their content"},
	{"lists entries", browsed(func(page []journal.Record, j journal.Journal) {
		for i := range page {
			r, _ := j.Read(context.Background(), page[i].ID)
			page[i].Entries = r.Entries
		}
	}), "browse: sagas without their content"},
	{"repeats the last line of a page", auditing(func(req *journal.AuditRequest) {
		if req.Before > 0 {
			req.Before++
		}
	}), ruleAudit},
	{"ignores actors", auditing(func(req *journal.AuditRequest) { req.Actor = "" }), ruleAudit},
	{"ignores sagas", auditing(func(req *journal.AuditRequest) { req.ID = journal.ID{} }), ruleAudit},
}

// seesReader plays a rule of readers with a reader of a journal in memory. All its sagas are stored at one time, where
// the rule does not wait.
func seesReader(t *testing.T, r rule, mar func(m *readerMutant, j journal.Journal)) (seen *recorder) {
	synctest.Test(t, func(t *testing.T) {
		j := memjournal.New()
		m := &readerMutant{Reader: j.Reader()}
		mar(m, j)
		seen = watch(r, &check{TB: t, journal: j, reader: m, patience: 300 * time.Millisecond})
	})
	return seen
}

func TestReaderRules_healthy(t *testing.T) {
	t.Parallel()
	for _, r := range readerRules {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			if seen := seesReader(t, r, func(*readerMutant, journal.Journal) {}); seen.Failed() {
				t.Errorf("a healthy reader broke the rule:\n%s", seen.report())
			}
		})
	}
}

func TestReaderRules_catchMutants(t *testing.T) {
	t.Parallel()
	for _, r := range readerRules {
		if !slices.ContainsFunc(readerDefects, func(d readerDefect) bool { return d.breaks == r.name }) {
			t.Errorf("no defect breaks %q", r.name)
		}
	}
	for _, d := range readerDefects {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			i := slices.IndexFunc(readerRules, func(r rule) bool { return r.name == d.breaks })
			if i < 0 {
				t.Fatalf("no rule is named %q", d.breaks)
			}
			if !seesReader(t, readerRules[i], d.mar).Failed() {
				t.Errorf("a reader that %s passed", d.name)
			}
		})
	}
}
