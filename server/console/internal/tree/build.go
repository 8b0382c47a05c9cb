package tree

import (
	"context"
	"time"

	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/server/store"
)

// A Source is the store of one hop, or the journal of one service's sagas.
type Source struct {
	Name    string
	Store   store.Reader   // nil: it is a journal
	Journal journal.Reader // nil: it is a store
}

// Limits bound a [Tree].
type Limits struct {
	Depth int           // The tree and the way up have at most this depth. 0 means 32.
	Nodes int           // The nodes of KindKey and KindSaga are at most so many. 0 means 500.
	Ask   time.Duration // For all questions of one level to one source. 0 means one second.
	Total time.Duration // For the tree. 0 means three seconds.
}

func (l Limits) withDefaults() Limits {
	if l.Depth <= 0 {
		l.Depth = 32
	}
	if l.Nodes <= 0 {
		l.Nodes = 500
	}
	if l.Ask <= 0 {
		l.Ask = time.Second
	}
	if l.Total <= 0 {
		l.Total = 3 * time.Second
	}
	return l
}

// Build returns the tree that the record or saga with that ID is part of. If no source knows the ID, the root
// is a node of KindMissing, and the records that name it as their parent are below it.
//
// Sources are asked side by side. A source that fails, or is slower than [Limits].Ask, is asked no more, and
// becomes a node of KindFailed. Build returns after [Limits].Total at the latest, or when ctx ends. It is safe for
// concurrent use.
func Build(ctx context.Context, sources []Source, id store.ID, limits Limits) Tree {
	limits = limits.withDefaults()
	ctx, cancel := context.WithTimeout(ctx, limits.Total)
	defer cancel()
	b := &builder{
		limits: limits, asked: id,
		shown: map[place]bool{}, expanded: map[store.ID]bool{},
	}
	for _, s := range sources {
		b.sources = append(b.sources, &source{Source: s})
	}
	b.tree.Roots = b.climb(ctx)
	b.descend(ctx)
	b.tree.CutTime = ctx.Err() != nil
	for _, s := range b.sources {
		if s.err != nil {
			b.tree.Roots = append(b.tree.Roots, &Node{Kind: KindFailed, Source: s.Name, Err: s.err})
		}
	}
	return b.tree
}

// A builder is one Build. Only its own goroutine uses it.
type builder struct {
	limits  Limits
	sources []*source
	asked   store.ID
	tree    Tree

	shown    map[place]bool    // the nodes that the tree has
	expanded map[store.ID]bool // the IDs whose children were asked for
}

// A place is a record of one source. Two stores may have a key with the same ID.
type place struct {
	source string
	kind   Kind
	id     store.ID
}

func placeOf(n *Node) place { return place{n.Source, n.Kind, n.ID} }

// climb returns the topmost known hop above the asked one.
func (b *builder) climb(ctx context.Context) []*Node {
	seen := map[store.ID]bool{}
	id := b.asked
	top := []*Node{{Kind: KindMissing, ID: id, Asked: true}}
	for depth := 0; ; depth++ {
		if depth > b.limits.Depth {
			b.tree.CutDepth = true
			break
		}
		seen[id] = true
		found, parent := b.show(ctx, id)
		if len(found) == 0 {
			top = []*Node{{Kind: KindMissing, ID: id, Asked: id == b.asked}}
			break
		}
		top = found
		if parent == (store.ID{}) {
			break
		}
		if seen[parent] {
			b.tree.Cycle = true
			break
		}
		id = parent
	}
	return top
}

// show returns the nodes with that ID, one per source that knows it, and the parent of the first that has one.
func (b *builder) show(ctx context.Context, id store.ID) ([]*Node, store.ID) {
	var nodes []*Node
	var parent store.ID
	for i, f := range ask(ctx, b.limits.Ask, b.sources, func(ctx context.Context, s *source) (*found, error) { return s.show(ctx, id) }) {
		if f == nil {
			continue
		}
		nodes = append(nodes, b.node(b.sources[i], *f))
		if parent == (store.ID{}) {
			parent = f.record.Parent
		}
	}
	return nodes, parent
}
