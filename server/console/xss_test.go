package console_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/server/console"
	"github.com/fanonce/fanonce/server/store"
)

// planted is text that would run or break out in each place of a page that does not escape it.
const planted = `"><script>alert(1)</script><img src=x onerror=alert(2)>'{{7*7}}</textarea></title>&lt;b&gt;`

// plantedStore has planted text in each text of a record.
type plantedStore struct{ store.Reader }

func (p plantedStore) record() store.Record {
	now := time.Now()
	return store.Record{
		ID: store.ID{1}, Parent: store.ID{2}, State: store.StateUnknown, Effect: store.Opaque, Fence: 2, Route: planted, Now: now,
		CreatedAt: now.Add(-time.Hour), FirstSent: now.Add(-time.Hour), ExpiresAt: now.Add(time.Hour),
	}
}

func (p plantedStore) Show(context.Context, store.ID) (store.Record, error) { return p.record(), nil }

func (p plantedStore) List(_ context.Context, req store.ListRequest) ([]store.Record, error) {
	if req.Parent != (store.ID{}) {
		return nil, nil
	}
	return []store.Record{p.record()}, nil
}

func (p plantedStore) Browse(context.Context, store.BrowseRequest) ([]store.Record, error) {
	return []store.Record{p.record()}, nil
}

func (p plantedStore) AuditPage(context.Context, store.AuditRequest) ([]store.AuditEntry, error) {
	return []store.AuditEntry{{Number: 1, At: time.Now(), ID: store.ID{1}, Audit: store.Audit{Verb: planted, Actor: planted, Reason: planted}}}, nil
}

func (p plantedStore) Estimate(context.Context) (store.Estimate, error) {
	return store.Estimate{}, badError{}
}

// badError is an error with planted text, as from a database that quotes its input.
type badError struct{}

func (badError) Error() string { return planted }

// plantedJournal has planted text in each text of a saga.
type plantedJournal struct{ journal.Reader }

func (p plantedJournal) record() journal.Record {
	now := time.Now()
	failure := &journal.Failure{Reason: planted, Step: planted, Code: planted, Detail: planted, Problem: planted}
	return journal.Record{
		ID: journal.ID{3}, Scope: planted, Key: childkey.MustParse("k"), Name: planted, Version: 1, Status: journal.Stuck,
		Times: journal.Times{Now: now, CreatedAt: now.Add(-time.Hour), FailedAt: now}, Cause: failure, StuckOn: failure, Deferred: failure,
		Entries: []journal.Entry{
			{Step: planted, Outcome: retry.Completed, At: now, Attempts: 1, Forced: planted},
			{Step: planted, Undo: true, Outcome: retry.Rejected, At: now, Code: planted, Detail: planted, Problem: planted, Forced: planted, Status: 422},
		},
	}
}

func (p plantedJournal) Show(_ context.Context, id journal.ID) (journal.Record, error) {
	rec := p.record()
	if id == (journal.ID{4}) {
		rec.Version, rec.Plan = plannedVersion, plannedSaga.Plan().Hash
	}
	return rec, nil
}

func (p plantedJournal) Browse(context.Context, journal.BrowseRequest) ([]journal.Record, error) {
	return []journal.Record{p.record()}, nil
}

func (p plantedJournal) Plan(_ context.Context, _ string, version int) (journal.PlanRecord, error) {
	if version == plannedVersion {
		return plannedSaga.Plan(), nil
	}
	return journal.PlanRecord{}, badError{}
}

// plannedVersion is the version of a saga whose steps are drawn.
const plannedVersion = 2

// plannedSaga has planted text in the name of a step.
var plannedSaga = saga.MustDefine("planned", plannedVersion, func(b *saga.Builder[string, string]) {
	op := contract.Post[string, string]("shop", "buy", "/purchases").For(planted)
	saga.Return(b, saga.Step(b, op, b.Input()).Irreversible().Output())
})

func (p plantedJournal) Plans(context.Context) ([]journal.PlanRecord, error) {
	return []journal.PlanRecord{{Name: planted}}, nil
}

func (p plantedJournal) Stats(context.Context) (journal.Stats, error) {
	return journal.Stats{}, badError{}
}

func (p plantedJournal) AuditPage(context.Context, journal.AuditRequest) ([]journal.AuditEntry, error) {
	return []journal.AuditEntry{{Number: 1, At: time.Now(), Audit: journal.Audit{Verb: planted, Step: planted, Actor: planted, Reason: planted}}}, nil
}

// plantedConfig is a console whose data has planted text everywhere.
func plantedConfig(f *fixture) console.Config {
	return console.Config{
		Title:  `<b>"ops"</b>`,
		Stores: []console.Store{{Name: `or"<i>ders`, Reader: plantedStore{f.Store.Reader()}, Guard: f.guard}},
		Sagas:  []console.Sagas{{Name: `sh'<i>op`, Reader: plantedJournal{}, Operator: nowhere{}}},
	}
}

// nowhere is an operator that refuses each verb with planted text.
type nowhere struct{ console.SagaOperator }

func (nowhere) HasDefinition(journal.PlanHash) bool { return true }

func (nowhere) ForceUndone(context.Context, journal.ID, string, journal.Audit) (journal.Record, error) {
	return journal.Record{}, fmt.Errorf("%w: %s", saga.ErrConflict, planted)
}

// requireEscaped checks that none of the planted text is markup.
func requireEscaped(tb testing.TB, at string, a answer) {
	tb.Helper()
	text := a.Body.String()
	for _, bad := range []string{"<script>alert", "<img", "{{7*7}}</textarea>", "onerror=alert(2)>", "</title>&lt;b&gt;"} {
		require.False(tb, strings.Contains(text, bad), "%s has %q", at, bad)
	}
}

func TestSecurity_plantedText(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	cfg := plantedConfig(f)
	cfg.Authenticate = func(*http.Request) (console.User, error) {
		return console.User{Name: planted, Role: console.Operator}, nil
	}
	s := newSite(t, cfg)
	seen := 0
	for _, at := range []string{
		"/", "/keys", "/keys?state=any", "/letters", "/sagas", "/audit", "/audit?in=sh%27%3Ci%3Eop",
		"/key?id=" + store.ID{1}.String(), "/saga?id=" + journal.ID{3}.String(), "/saga?id=" + journal.ID{4}.String(), "/request?id=" + store.ID{1}.String(), "/id/" + store.ID{1}.String(),
		"/keys?route=%22%3E%3Cscript%3Ealert(1)%3C/script%3E", "/sagas?name=%22%3E%3Cscript%3Ealert(1)%3C/script%3E",
		"/audit?actor=%22%3E%3Cscript%3Ealert(1)%3C/script%3E", "/key?in=%3Cscript%3Ealert(1)%3C/script%3E",
	} {
		a := s.get(at)
		requireEscaped(t, at, a)
		require.NotContains(t, a.Body.String(), "<i>", at)
		require.NotContains(t, a.Body.String(), "<b>\"ops", at)
		if strings.Contains(a.text(), "alert(1)") {
			seen++
		}
	}
	require.GreaterOrEqual(t, seen, 12, "the text is shown, escaped")
	require.Contains(t, s.get("/saga?id="+journal.ID{4}.String()).Body.String(), `<svg`, "the steps are drawn")

	form := s.get("/saga?id=" + journal.ID{3}.String()).form("/confirm")
	form.Set("verb", "force-undone")
	form.Set("step", planted)
	a := s.post("/confirm", form)
	require.Equal(t, http.StatusOK, a.Code)
	requireEscaped(t, "/confirm", a)
	done := a.form("/do")
	done.Set("reason", planted)
	done["refusal"] = []string{planted}
	result := s.post("/do", done)
	requireEscaped(t, "/do", result)
	require.Contains(t, result.text(), "alert(1)", "the refusal is shown")
	done.Set("reason", "")
	requireEscaped(t, "/do without a reason", s.post("/do", done))
}
