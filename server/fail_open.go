package server

import (
	"net/http"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/wire"
)

// unclaimed is the outcome of a call whose claim the store answered with err.
func (g *Guard) unclaimed(c *call, err error) outcome {
	out := storeRefusal(err)
	if c.route.FailOpen && out.code == wire.StoreUnavailable {
		g.observe(Event{Kind: EventFailedOpen, Route: c.route.Name, ID: c.id, Err: err})
		return outcome{open: true}
	}
	return out
}

// serveOpen runs the handler unguarded: nothing marks the answer, so that the
// caller sees that its key was not honoured. Child keys derive all the same,
// and the next hops deduplicate.
func (h *guarded) serveOpen(w http.ResponseWriter, r *http.Request, c *call, body []byte) {
	ctx := childkey.NewContext(r.Context(), c.key)
	in := c.inbound
	in.Rerun = true // for all that is known
	ctx = wire.NewContext(ctx, in)
	turn := withBody(r.Clone(ctx), body)
	defer removeForm(turn)
	h.next.ServeHTTP(w, turn)
}
