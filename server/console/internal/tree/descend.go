package tree

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/server/store"
)

// descend adds the nodes below the roots, one level after the other.
func (b *builder) descend(ctx context.Context) {
	level := b.tree.Roots
	for _, n := range level {
		b.shown[placeOf(n)] = true
		b.count(n)
	}
	for depth := 0; len(level) > 0 && ctx.Err() == nil; depth++ {
		if depth >= b.limits.Depth {
			b.tree.CutDepth = true
			return
		}
		level = b.below(ctx, level)
	}
}

// below adds the children of one level, and returns them.
func (b *builder) below(ctx context.Context, level []*Node) []*Node {
	parents := map[store.ID]*Node{}
	var ids []store.ID
	for _, n := range level {
		// If several nodes have one ID, the first gets the children.
		if !n.Again && !b.expanded[n.ID] {
			b.expanded[n.ID] = true
			parents[n.ID] = n
			ids = append(ids, n.ID)
		}
	}
	limit := b.limits.Nodes - b.tree.Nodes + 1 // one more than may be shown: then there are more
	if len(ids) == 0 {
		return nil
	}
	lists := ask(ctx, b.limits.Ask, b.sources, func(ctx context.Context, s *source) (map[store.ID][]store.Record, error) {
		return s.listChildren(ctx, ids, limit)
	})
	var next []*Node
	for _, id := range ids {
		for _, n := range b.merge(lists, id) {
			if b.tree.Nodes >= b.limits.Nodes && !n.Again {
				b.tree.CutNodes = true
				continue
			}
			b.count(n)
			parents[id].Children = append(parents[id].Children, n)
			next = append(next, n)
		}
		guessSteps(parents[id])
	}
	return next
}

// merge returns the children of one ID from all sources in their order.
func (b *builder) merge(lists []map[store.ID][]store.Record, id store.ID) []*Node {
	var nodes []*Node
	for i, byParent := range lists {
		for _, r := range byParent[id] {
			n := b.node(b.sources[i], found{record: r})
			if b.shown[placeOf(n)] {
				// A record has one parent. So it comes twice only if it is above itself.
				n.Again, b.tree.Cycle = true, true
			}
			b.shown[placeOf(n)] = true
			nodes = append(nodes, n)
		}
	}
	slices.SortStableFunc(nodes, func(x, y *Node) int {
		return cmp.Or(x.Start.Compare(y.Start), cmp.Compare(x.Source, y.Source), slices.Compare(x.ID[:], y.ID[:]))
	})
	return nodes
}

// count counts a node that is shown the first time.
func (b *builder) count(n *Node) {
	if (n.Kind == KindKey || n.Kind == KindSaga) && !n.Again {
		b.tree.Nodes++
	}
}

// node returns the node of a record or a saga.
func (b *builder) node(s *source, f found) *Node {
	var n *Node
	if f.saga != nil {
		n = ofSaga(f.saga)
	} else {
		n = ofRecord(f.record)
	}
	n.Source = s.Name
	n.Asked = n.ID == b.asked
	return n
}

func ofRecord(r store.Record) *Node {
	n := &Node{
		Kind: KindKey, ID: r.ID, Operation: r.Route, State: r.State.String(), Status: r.Answer.Status,
		Executions: r.Fence, RecoveryAttempts: r.RecoveryAttempts, Start: r.CreatedAt,
	}
	if r.Effect != 0 {
		n.Effect = r.Effect.String()
	}
	switch running := r.State == store.StateInProgress && r.LeaseLeft() > 0; {
	case running:
		n.End, n.Ending = r.Now, EndRunning
	case r.LeaseUntil.IsZero() || r.LeaseUntil.Before(r.CreatedAt):
		// A tombstone of a key that never ran has no lease.
	case r.State == store.StateInProgress || r.State == store.StateUnknown || r.State == store.StateQuarantined:
		n.End, n.Ending = earlier(r.LeaseUntil, r.Now), EndDead
	default:
		n.End, n.Ending = earlier(r.LeaseUntil, r.Now), EndBy
	}
	return n
}

func ofSaga(r *journal.Record) *Node {
	n := &Node{
		Kind: KindSaga, ID: store.ID(r.ID), Operation: r.Name, State: r.Status.String(),
		Executions: r.Fence, RecoveryAttempts: r.RecoveryAttempts, Start: r.CreatedAt,
	}
	switch {
	case !r.FinishedAt.IsZero():
		n.End, n.Ending = r.FinishedAt, EndSettled
	case r.Status.Active():
		n.End, n.Ending = r.Now, EndRunning
	}
	n.Entries = slices.Clone(r.Entries)
	slices.SortStableFunc(n.Entries, func(x, y journal.Entry) int { return x.At.Compare(y.At) })
	return n
}

func earlier(x, y time.Time) time.Time {
	if !y.IsZero() && y.Before(x) {
		return y
	}
	return x
}
