package browsertest_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/console"
	"github.com/fanonce/fanonce/server/store"
)

// evil is planted text that names its field. It is short enough for each field.
func evil(field string) string {
	return "<" + field + `>'"></title></script></textarea><img/src=x/onerror=alert(1)>`
}

// An evilStore is a reader with planted text in each field of a key.
type evilStore struct{ failing bool }

func (e evilStore) fail(call string) error {
	if e.failing {
		return errors.New(evil("error.store." + call))
	}
	return nil
}

func evilKey() store.Record {
	now := time.Now()
	return store.Record{
		ID: number(1), Parent: number(2), State: store.StateUnknown, Effect: store.Opaque, Fence: 2, Route: evil("key.route"), Now: now,
		CreatedAt: now.Add(-time.Hour), FirstSent: now.Add(-time.Hour), ExpiresAt: now.Add(time.Hour),
	}
}

func (e evilStore) Show(_ context.Context, id store.ID) (store.Record, error) {
	if id == number(9) {
		return store.Record{}, errors.New(evil("error.store.show"))
	}
	return evilKey(), e.fail("show")
}

func (e evilStore) List(_ context.Context, req store.ListRequest) ([]store.Record, error) {
	if req.Parent != (store.ID{}) {
		return nil, nil
	}
	return []store.Record{evilKey()}, e.fail("list")
}

func (e evilStore) Browse(context.Context, store.BrowseRequest) ([]store.Record, error) {
	return []store.Record{evilKey()}, e.fail("browse")
}

func (e evilStore) Attention(context.Context) (store.Attention, error) {
	return store.Attention{Unknown: 1}, e.fail("attention")
}

func (e evilStore) Estimate(context.Context) (store.Estimate, error) {
	return store.Estimate{}, errors.New(evil("error.store.estimate"))
}

func (e evilStore) AuditPage(context.Context, store.AuditRequest) ([]store.AuditEntry, error) {
	return []store.AuditEntry{{Number: 1, At: time.Now(), ID: number(1), From: store.StateUnknown, To: store.StateReleased, Audit: store.Audit{
		Verb: store.Verb(evil("key.audit.verb")), Actor: evil("key.audit.actor"), Reason: evil("key.audit.reason"),
	}}}, e.fail("audit")
}

// hostile has planted text where a definition may have it.
var hostile = saga.MustDefine("hostile", 1, func(b *saga.Builder[string, nothing]) {
	op := contract.Post[string, nothing]("shop", "buy", "/purchases").For(evil("plan.discriminator"))
	saga.Return(b, saga.Step(b, op, b.Input()).Irreversible().Output())
})

// An evilJournal is a reader with planted text in each field of a saga.
type evilJournal struct{ failing bool }

func (e evilJournal) fail(call string) error {
	if e.failing {
		return errors.New(evil("error.journal." + call))
	}
	return nil
}

// unplanned is the version of a saga, and its number, whose plan cannot be read.
const unplanned = 5

// evilSaga is stuck. n chooses the part of its failure that the page shows.
func evilSaga(n byte) journal.Record {
	now := time.Now()
	on := &journal.Failure{Reason: journal.Reason(evil("failure.reason")), Step: evil("failure.step"), Outcome: retry.Rejected}
	switch n {
	case 1:
		on.Code = wire.Code(evil("failure.code"))
	case 2:
		on.Problem = evil("failure.problem")
	case 3:
		on.Detail = evil("failure.detail")
	default:
		on.Step = ""
	}
	step, version := hostile.Steps()[0].Name, 1
	if n == unplanned {
		version = unplanned
	}
	return journal.Record{
		ID: journal.ID{15: n}, Scope: evil("saga.scope"), Key: childkey.MustParse("k"), Name: evil("saga.name"), Version: version,
		Plan: hostile.Plan().Hash, Status: journal.Stuck, Revision: 3, Cause: on, StuckOn: on, Deferred: on,
		Times: journal.Times{Now: now, CreatedAt: now.Add(-time.Hour), FailedAt: now},
		Entries: []journal.Entry{
			{Step: step, Outcome: retry.Completed, At: now, Attempts: 1, Forced: evil("entry.forced")},
			{Step: evil("entry.step"), Outcome: retry.Completed, At: now, Attempts: 1},
			{
				Step: evil("entry.step"), Undo: true, Outcome: retry.Rejected, At: now, Attempts: 2, Status: 422, Forced: evil("undo.forced"),
				Code: wire.Code(evil("undo.code")), Problem: evil("undo.problem"), Detail: evil("undo.detail"),
			},
		},
	}
}

func (e evilJournal) Show(_ context.Context, id journal.ID) (journal.Record, error) {
	return evilSaga(id[15]), e.fail("show")
}

func (e evilJournal) Browse(context.Context, journal.BrowseRequest) ([]journal.Record, error) {
	return []journal.Record{evilSaga(1), evilSaga(2), evilSaga(3), evilSaga(4)}, e.fail("browse")
}

func (evilJournal) Plan(_ context.Context, _ string, version int) (journal.PlanRecord, error) {
	if version == unplanned {
		return journal.PlanRecord{}, errors.New(evil("error.journal.plan"))
	}
	return hostile.Plan(), nil
}

func (e evilJournal) Plans(context.Context) ([]journal.PlanRecord, error) {
	return []journal.PlanRecord{{Name: evil("plans.name")}}, nil
}

func (e evilJournal) Stats(context.Context) (journal.Stats, error) {
	return journal.Stats{ByStatus: map[journal.Status]int64{journal.Stuck: 4}}, e.fail("stats")
}

func (e evilJournal) Estimate(context.Context) (journal.Estimate, error) {
	return journal.Estimate{}, errors.New(evil("error.journal.estimate"))
}

func (e evilJournal) AuditPage(context.Context, journal.AuditRequest) ([]journal.AuditEntry, error) {
	return []journal.AuditEntry{{Number: 1, At: time.Now(), ID: journal.ID{15: 1}, From: journal.Stuck, To: journal.Running, Audit: journal.Audit{
		Verb: journal.Verb(evil("saga.audit.verb")), Step: evil("saga.audit.step"), Actor: evil("saga.audit.actor"), Reason: evil("saga.audit.reason"),
	}}}, e.fail("audit")
}

// An evilOperator refuses each verb with planted text.
type evilOperator struct{ console.SagaOperator }

func (evilOperator) HasDefinition(journal.PlanHash) bool { return true }

func (evilOperator) ForceUndone(context.Context, journal.ID, string, journal.Audit) (journal.Record, error) {
	return journal.Record{}, fmt.Errorf("%w: %s", saga.ErrConflict, evil("refusal.saga"))
}

func (evilOperator) Retry(context.Context, journal.ID, journal.Audit) (journal.Record, error) {
	return journal.Record{}, errors.New(evil("error.verb"))
}

// An evilStoreOfKeys refuses each decision with planted text.
type evilStoreOfKeys struct{ store.Store }

func (evilStoreOfKeys) Read(context.Context, store.ID) (store.Record, error) {
	return evilKey(), nil
}

func (evilStoreOfKeys) Resolve(context.Context, store.ResolveRequest) (store.Record, bool, error) {
	return store.Record{}, false, fmt.Errorf("%w: %s", store.ErrArgument, evil("refusal.key"))
}

// evilSite is a site with planted text in each field that a console gets.
func evilSite(t *testing.T) *site {
	t.Helper()
	return newSiteOn(t, inMemory(), func(cfg *console.Config) {
		guard, err := server.NewGuard(evilStoreOfKeys{inMemory().keys}, server.Unscoped, server.Config{})
		require.NoError(t, err)
		cfg.Title = evil("title")
		cfg.Stores = []console.Store{
			{Name: evil("store.name"), Reader: evilStore{}, Guard: guard},
			{Name: "failing" + evil("store.name"), Reader: evilStore{failing: true}},
		}
		cfg.Sagas = []console.Sagas{
			{Name: evil("sagas.name"), Reader: evilJournal{}, Operator: evilOperator{}},
			{Name: "failing" + evil("sagas.name"), Reader: evilJournal{failing: true}},
		}
		cfg.Authenticate = func(r *http.Request) (console.User, error) {
			u, err := authenticate(r)
			u.Name = evil("user.name")
			return u, err
		}
	})
}

// shownFields are the fields that a person sees somewhere. The rest is read and not shown.
var shownFields = strings.Fields(`title user.name store.name sagas.name
	key.route key.audit.verb key.audit.actor key.audit.reason
	saga.name saga.scope failure.reason failure.step failure.code failure.problem failure.detail
	entry.step entry.forced undo.forced undo.code undo.problem undo.detail
	saga.audit.verb saga.audit.step saga.audit.actor saga.audit.reason plan.discriminator plans.name
	error.verb refusal.saga refusal.key
	typed.reason typed.step typed.status typed.body typed.output typed.refusal filter.route filter.name filter.actor`)

// Each field that a page shows stays text, whoever filled it in.
func TestPlantedScripts_ofEachField(t *testing.T) {
	t.Parallel()
	b := open(t, evilSite(t), look{user: "ada", script: true})
	missing := shownFields
	see := func(at string) {
		b.Helper()
		b.notHacked(at)
		page := eval[string](b, `document.title + document.documentElement.outerHTML.replaceAll("&lt;", "<").replaceAll("&gt;", ">")`)
		for _, from := range []string{"error.store.", "error.journal."} {
			require.NotContains(b, page, from, "an error of a database has its user and address: %s", at)
		}
		missing = slices.DeleteFunc(slices.Clone(missing), func(field string) bool { return strings.Contains(page, "<"+field+">") })
	}
	failing := "&in=failing" + url.QueryEscape(evil("store.name"))
	failingSagas := "&in=failing" + url.QueryEscape(evil("sagas.name"))
	for _, at := range []string{
		"/", "/keys?state=unknown", "/keys?state=any", "/letters", "/sagas", "/audit", "/audit?in=" + url.QueryEscape(evil("sagas.name")), "/help",
		"/key?id=" + number(1).String(), "/request?id=" + number(1).String(), "/id/" + number(1).String(),
		"/saga?id=" + evilSaga(1).ID.String(), "/saga?id=" + evilSaga(4).ID.String(), "/saga?id=" + evilSaga(unplanned).ID.String(),
		"/keys?state=any" + failing, "/keys?state=unknown" + failing, "/key?id=" + number(9).String() + failing, "/audit?x=" + failing,
		"/sagas?x=" + failingSagas, "/saga?id=" + evilSaga(1).ID.String() + failingSagas, "/audit?x=" + failingSagas,
		"/keys?route=" + url.QueryEscape(evil("filter.route")), "/sagas?name=" + url.QueryEscape(evil("filter.name")), "/audit?actor=" + url.QueryEscape(evil("filter.actor")),
		"/keys?state=any&within=" + url.QueryEscape(evil("filter.within")), "/key?in=" + url.QueryEscape(evil("filter.in")), "/id/" + url.PathEscape(evil("filter.id")),
	} {
		b.visit(prefix + at)
		see(at)
	}
	b.seeVerbs(see)
	require.Empty(t, missing, "no page shows these")
}

// seeVerbs calls see on the confirmations and results of verbs, with planted text in each field of their forms.
func (t *tab) seeVerbs(see func(at string)) {
	t.Helper()
	fill := func(fields ...string) {
		t.Helper()
		for _, name := range fields {
			t.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`{ const f = document.querySelector("form[action$='/do']"); f.noValidate = true;
				let i = f.elements[%[1]q]; if (!i) { i = document.createElement("input"); i.name = %[1]q; f.append(i) } i.removeAttribute("maxlength"); i.value = %[2]q }`, name, evil("typed."+name))))
		}
	}
	key, stuck := prefix+"/key?id="+number(1).String(), prefix+"/saga?id="+evilSaga(1).ID.String()
	t.visit(key)
	t.click(button("It happened"))
	see("the confirmation for a key")
	fill("reason", "status", "body")
	require.Equal(t, http.StatusBadRequest, t.load(press(send)))
	see("the confirmation for a key again")

	t.visit(key)
	t.click(button("Abandon"))
	fill("reason", "refusal")
	t.load(press(send))
	see("the refusal for a key")

	t.visit(stuck)
	t.click(button("Force undone"))
	fill("step")
	t.load(press(send))
	see("the confirmation for a saga")
	fill("reason", "step")
	t.load(press(send))
	see("the refusal for a saga")

	t.visit(stuck)
	t.click(button("Retry …"))
	fill("reason", "output")
	t.load(press(send))
	see("the failure of a verb")
}
