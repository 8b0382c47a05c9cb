package console

import (
	"context"
	"net/http"
	"time"

	"github.com/fanonce/fanonce/server/console/internal/draw"
	"github.com/fanonce/fanonce/server/console/internal/tree"
	"github.com/fanonce/fanonce/server/store"
)

// requestData is one request of a user: the tree of its keys and sagas over all services of the console.
type requestData struct {
	ID   string
	Tree tree.Tree
	Bars drawing
	Now  time.Time
	// Roots are the tree's roots with their addresses.
	Roots []*hop
}

// A hop is one node of the tree, as the page shows it.
type hop struct {
	*tree.Node
	Link     string // "": none leads there.
	Children []*hop
}

// Title names the hop: its service and its operation.
func (h *hop) Title() string {
	switch {
	case h.Kind == tree.KindMissing:
		return "a hop that this console is not given"
	case h.Kind == tree.KindFailed:
		return h.Source + " cannot be read"
	case h.Operation == "":
		return h.Source + ", operation not stored"
	default:
		return h.Source + ", " + h.Operation
	}
}

// Failure is why a source could not be read.
func (h *hop) Failure() string { return explain(h.Err) }

// Died is how many processes died while they ran the hop.
func (h *hop) Died() int64 { return int64(h.RecoveryAttempts) }

// Took is how long the hop ran, as far as it is known.
func (h *hop) Took() string {
	if h.Start.IsZero() || h.End.IsZero() || h.End.Before(h.Start) {
		return ""
	}
	took := age(h.End.Sub(h.Start))
	switch h.Ending {
	case tree.EndBy:
		return "at most " + took
	case tree.EndRunning:
		return took + " so far"
	case tree.EndDead:
		return "died after at most " + took
	default:
		return took
	}
}

func (c *Console) request(w http.ResponseWriter, r *http.Request) {
	id, err := store.ParseID(r.URL.Query().Get("id"))
	if err != nil {
		c.fail(w, r, http.StatusNotFound, "The address names no ID.")
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), pageTimeout)
	defer cancel()
	var sources []tree.Source
	for i := range c.cfg.Stores {
		sources = append(sources, tree.Source{Name: c.cfg.Stores[i].Name, Store: c.cfg.Stores[i].Reader})
	}
	for i := range c.cfg.Sagas {
		sources = append(sources, tree.Source{Name: c.cfg.Sagas[i].Name, Journal: c.cfg.Sagas[i].Reader})
	}
	d := requestData{ID: id.String(), Tree: tree.Build(ctx, sources, id, tree.Limits{})}
	for _, n := range d.Tree.Roots {
		d.Roots = append(d.Roots, c.hopOf(n))
		d.Roots[len(d.Roots)-1].surround()
	}
	d.Bars = timelineBars(d.Roots)
	status := http.StatusOK
	if d.Tree.Nodes == 0 {
		status = http.StatusNotFound
	}
	c.render(w, r, status, "request", page{Title: "Request", Nav: "keys", Live: true, Data: &d})
}

// hopOf is a node and all below it.
func (c *Console) hopOf(n *tree.Node) *hop {
	h := &hop{Node: n}
	switch n.Kind {
	case tree.KindKey:
		h.Link = c.link("/key", n.Source, n.ID.String())
	case tree.KindSaga:
		h.Link = c.link("/saga", n.Source, n.ID.String())
	default:
	}
	for _, child := range n.Children {
		h.Children = append(h.Children, c.hopOf(child))
	}
	return h
}

// surround makes the hop end after its children, as a caller does. Where only the latest possible end of one is known,
// that of the other bounds it.
func (h *hop) surround() {
	for _, child := range h.Children {
		child.surround()
		switch {
		case h.End.IsZero() || !child.End.After(h.End):
		case child.Ending == tree.EndBy && !h.End.Before(child.Start):
			child.End = h.End
		case h.Ending == tree.EndBy || h.Ending == tree.EndDead:
			h.End = child.End
		}
	}
}

// endWithin is the end of the hop's bar below that of its caller; nil: it has none.
func (h *hop) endWithin(caller *hop) time.Time {
	if caller == nil || caller.Start.IsZero() || caller.End.IsZero() || !h.End.After(caller.End) {
		return h.End
	}
	if h.Start.Before(caller.End) {
		return caller.End
	}
	longest := h.Start.Add(caller.End.Sub(caller.Start)) // it began after its caller's end, by its own clock
	if h.End.After(longest) {
		return longest
	}
	return h.End
}

// timelineBars draws the hops on one time axis. A bar is not longer than that of its caller: the clocks of two stores
// differ, and a call that its caller gave up goes on. The text has the hop's own time.
func timelineBars(roots []*hop) drawing {
	t := draw.Timeline{Title: "The hops of the request over time"}
	var add func(hops []*hop, caller *hop, depth int)
	add = func(hops []*hop, caller *hop, depth int) {
		for _, h := range hops {
			if h.Kind == tree.KindKey || h.Kind == tree.KindSaga {
				t.Bars = append(t.Bars, draw.Bar{
					Label: h.Title(), Note: h.Took(), Depth: depth, State: h.State, Start: h.Start, End: h.endWithin(caller),
					Vague: h.Ending != tree.EndSettled, Href: h.Link,
				})
			}
			add(h.Children, h, depth+1)
		}
	}
	add(roots, nil, 0)
	return t.SVG()
}
