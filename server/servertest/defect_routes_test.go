package servertest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/fanonce/fanonce/server/memstore"
	"github.com/fanonce/fanonce/server/store"
)

// routeMutant is a memstore that keeps routes, with a defect.
func routeMutant(t *testing.T, mar func(m *mutant)) *check {
	t.Helper()
	m := newMutant(t)
	s, err := memstore.NewWith(memstore.Config{KeepRoutes: true})
	if err != nil {
		t.Fatal(err)
	}
	m.Store = s
	mar(m)
	return &check{TB: t, store: m, effects: noEffects{}, routes: true, patience: 300 * time.Millisecond}
}

var routeDefects = []defect{
	{"keeps the routes of opaque claims alone", func(m *mutant) {
		m.show = func(r store.Record) store.Record {
			if r.Effect != store.Opaque {
				r.Route = ""
			}
			return r
		}
	}, []string{
		"routes: claims and take-overs of every class keep their route, and Opaque ones their memo",
		"routes: concurrent claims keep their own routes", "routes: settling and quarantining do not change the route",
	}},
	{"keeps the memo of every class", func(m *mutant) {
		m.show = func(r store.Record) store.Record { r.Memo = []byte("a memo"); return r }
	}, []string{"routes: concurrent claims keep their own routes"}},
	{"gives claims at once the route of the first", func(m *mutant) {
		m.claim = func(ctx context.Context, req store.ClaimRequest) (store.Record, bool, error) {
			if req.Route != "" {
				req.Route = "POST /charges"
			}
			return m.Store.Claim(ctx, req)
		}
	}, []string{"routes: concurrent claims keep their own routes"}},
	{"leaves the route of the owner before", func(m *mutant) {
		m.takeOver = func(ctx context.Context, req store.ClaimRequest, from int64) (store.Record, bool, error) {
			req.Route = "POST /charges"
			return m.Store.TakeOver(ctx, req, from)
		}
	}, []string{"routes: settling and quarantining do not change the route"}},
}

// A store that keeps routes passes the rules, and each defect breaks those that are about it.
func TestRouteRules(t *testing.T) {
	t.Parallel()
	for _, l := range routeRules {
		if r := watch(l, routeMutant(t, func(*mutant) {})); r.Failed() {
			t.Errorf("a healthy store broke %q:\n%s", l.name, r.report())
		}
		if !slices.ContainsFunc(routeDefects, func(d defect) bool { return slices.Contains(d.breaks, l.name) }) {
			t.Errorf("no defect breaks %q", l.name)
		}
		for _, d := range routeDefects {
			if slices.Contains(d.breaks, l.name) && !watch(l, routeMutant(t, d.mar)).Failed() {
				t.Errorf("a store that %s did not break %q", d.name, l.name)
			}
		}
	}
}
