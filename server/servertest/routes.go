package servertest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/fanonce/fanonce/server/store"
)

// TestRoutes runs the rules of stores that are configured to keep the Route of every claim. It is beside [TestStore],
// whose stores keep those of Opaque and quarantined records alone. open returns an empty store, and closes it in
// tb.Cleanup.
func TestRoutes(t *testing.T, open func(tb testing.TB) store.Store) {
	t.Helper()
	for _, l := range routeRules {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			l.holds(&check{TB: t, store: open(t), effects: noEffects{}, routes: true})
		})
	}
}

var routeRules = []rule{
	{"routes: claims and take-overs of every class keep their route, and Opaque ones their memo", memosOfOpaqueClaims},
	{"routes: concurrent claims keep their own routes", routesOfManyClaims},
	{"routes: settling and quarantining do not change the route", routesStay},
}

// requestOnRoute returns a claim of a new key by a run of a route.
func requestOnRoute(effect store.Effect, route string) store.ClaimRequest {
	req := request(newID())
	req.Effect, req.Route, req.Memo = effect, route, []byte("a memo")
	return req
}

func (c *check) wantRoute(what string, id store.ID, effect store.Effect, route string) {
	c.Helper()
	r := c.read(id)
	want(c, what+": Route", r.Route, route)
	want(c, what+": whether there is a memo", len(r.Memo) > 0, effect == store.Opaque)
}

// routesOfManyClaims has claims that may share a statement: all of one route, or of several routes and classes.
func routesOfManyClaims(c *check) {
	for _, effects := range [][]store.Effect{{store.Keyed}, {store.Transactional, store.Keyed}, {store.Keyed, store.Opaque}} {
		for _, routes := range [][]string{{"POST /charges"}, {"POST /charges", "POST /refunds", ""}} {
			reqs := make([]store.ClaimRequest, 64)
			for i := range reqs {
				reqs[i] = requestOnRoute(effects[i%len(effects)], routes[i%len(routes)])
			}
			runAtOnce(len(reqs), func(i int) {
				r, won, err := c.store.Claim(c.Context(), reqs[i])
				if err != nil || !won || r.Route != reqs[i].Route {
					c.Errorf("Claim = route %q, %v, %v, want %q, true", r.Route, won, err, reqs[i].Route)
				}
			})
			for _, req := range reqs {
				c.wantRoute(fmt.Sprintf("one of %d claims of %d routes", len(reqs), len(routes)), req.ID, req.Effect, req.Route)
			}
		}
	}
}

func routesStay(c *check) {
	for _, end := range []store.Settlement{completion(200, "ok"), release} {
		req := requestOnRoute(store.Keyed, "POST /charges")
		c.settle(owner(c.claim(req)), end)
		c.wantRoute("a settled key", req.ID, store.Keyed, "POST /charges")
	}
	req := requestOnRoute(store.Transactional, "POST /charges")
	req.Lease = gone
	r := c.claim(req)
	c.untilDead(r.ID)
	c.quarantine(grave(r, store.StateQuarantined))
	c.wantRoute("a quarantined key", req.ID, store.Transactional, "POST /charges")
	quarantine := []store.Record{c.read(r.ID)}
	listed := c.list(store.ListRequest{States: []store.State{store.StateQuarantined}, Route: "POST /charges", Limit: 10})
	want(c, "quarantined keys of the route", slices.EqualFunc(listed, quarantine, func(a, b store.Record) bool { return a.ID == b.ID }), true)
	other := requestOnRoute(store.Keyed, "POST /refunds")
	released := requestOnRoute(store.Transactional, "POST /charges")
	c.settle(owner(c.claim(released)), release)
	other.ID = released.ID
	c.takeOver(other, 1)
	c.wantRoute("a key that another route took over", other.ID, store.Keyed, "POST /refunds")
}
