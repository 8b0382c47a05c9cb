package tree_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/server/console/internal/tree"
	"github.com/fanonce/fanonce/server/store"
)

var epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func id(n int) store.ID { return store.ID{byte(n >> 8), byte(n)} }

// A hop is a store with records in memory.
type hop struct {
	store.Reader
	records []store.Record
	err     error
	hang    bool // until the ctx ends
	deaf    chan struct{}
	lists   int
}

func (h *hop) wait(ctx context.Context) error {
	if h.deaf != nil {
		<-h.deaf
	}
	if h.hang {
		<-ctx.Done()
		return ctx.Err()
	}
	return h.err
}

func (h *hop) Show(ctx context.Context, want store.ID) (store.Record, error) {
	if err := h.wait(ctx); err != nil {
		return store.Record{}, err
	}
	for _, r := range h.records {
		if r.ID == want {
			return r, nil
		}
	}
	return store.Record{}, store.ErrNotFound
}

func (h *hop) List(ctx context.Context, req store.ListRequest) ([]store.Record, error) {
	if err := h.wait(ctx); err != nil {
		return nil, err
	}
	if err := req.Parent; err == (store.ID{}) || req.Limit < 1 {
		return nil, store.ErrArgument
	}
	h.lists++
	var found []store.Record
	for _, r := range h.records {
		if r.Parent == req.Parent && len(found) < req.Limit {
			r.Answer = store.Answer{} // as a store's list
			found = append(found, r)
		}
	}
	return found, nil
}

// record returns a completed record that began after that many milliseconds, and took 50.
func record(n, parent, after int) store.Record {
	r := store.Record{
		ID: id(n), State: store.StateCompleted, Effect: store.Keyed, Fence: 1, Answer: store.Answer{Status: 201},
		CreatedAt: epoch.Add(time.Duration(after) * time.Millisecond), Now: epoch.Add(time.Hour),
	}
	r.LeaseUntil = r.CreatedAt.Add(50 * time.Millisecond)
	if parent > 0 {
		r.Parent = id(parent)
	}
	return r
}

type sagas struct {
	journal.Reader
	records []journal.Record
}

func (s sagas) Show(_ context.Context, want journal.ID) (journal.Record, error) {
	for _, r := range s.records {
		if r.ID == want {
			return r, nil
		}
	}
	return journal.Record{}, journal.ErrNotFound
}

// walk calls f for each node from the top, with its depth.
func walk(nodes []*tree.Node, depth int, f func(*tree.Node, int)) {
	for _, n := range nodes {
		f(n, depth)
		walk(n.Children, depth+1, f)
	}
}

// text draws a tree for comparison, one node per line.
func text(t tree.Tree) string {
	var b strings.Builder
	walk(t.Roots, 0, func(n *tree.Node, depth int) {
		fmt.Fprintf(&b, "%s%s", strings.Repeat("  ", depth), n.Kind)
		if n.Kind != tree.KindFailed {
			fmt.Fprintf(&b, " %d", int(n.ID[0])<<8+int(n.ID[1]))
		}
		if n.Source != "" {
			fmt.Fprintf(&b, " in %s", n.Source)
		}
		if n.Step != "" {
			fmt.Fprintf(&b, " of %s", n.Step)
			if n.Undo {
				b.WriteString(" (undo)")
			}
		}
		for _, mark := range []struct {
			is   bool
			text string
		}{{n.Asked, " asked"}, {n.Again, " again"}, {n.Err != nil, fmt.Sprintf(": %v", n.Err)}} {
			if mark.is {
				b.WriteString(mark.text)
			}
		}
		b.WriteString("\n")
	})
	return b.String()
}

func build(t *testing.T, hops []tree.Source, journals []tree.Source, of int, limits tree.Limits) tree.Tree {
	t.Helper()
	return tree.Build(t.Context(), append(slices.Clone(hops), journals...), id(of), limits)
}

func TestBuild_findsTheTopAndAllBelow(t *testing.T) {
	t.Parallel()
	hops := []tree.Source{
		{Name: "shop", Store: &hop{records: []store.Record{record(1, 0, 0)}}},
		{Name: "stock", Store: &hop{records: []store.Record{record(3, 1, 20), record(2, 1, 10), record(9, 8, 10)}}},
		{Name: "bank", Store: &hop{records: []store.Record{record(4, 3, 30)}}},
	}
	want := "key 1 in shop\n  key 2 in stock\n  key 3 in stock\n    key 4 in bank asked\n"
	require.Equal(t, want, text(build(t, hops, nil, 4, tree.Limits{})))
	got := build(t, hops, nil, 1, tree.Limits{})
	require.Equal(t, "key 1 in shop asked\n  key 2 in stock\n  key 3 in stock\n    key 4 in bank\n", text(got))
	require.Equal(t, 4, got.Nodes)
	require.False(t, got.CutDepth || got.CutNodes || got.CutTime || got.Cycle)
	require.Equal(t, 201, got.Roots[0].Children[0].Status, "a list has no answers, but the tree shows their status")
}

func TestBuild_showsHopsThatItIsNotGiven(t *testing.T) {
	t.Parallel()
	hops := []tree.Source{
		{Name: "stock", Store: &hop{records: []store.Record{record(2, 1, 10)}}},
		{Name: "bank", Store: &hop{records: []store.Record{record(3, 1, 20)}}},
	}
	require.Equal(t, "missing 1\n  key 2 in stock\n  key 3 in bank asked\n", text(build(t, hops, nil, 3, tree.Limits{})))
	require.Equal(t, "missing 7 asked\n", text(build(t, hops, nil, 7, tree.Limits{})))
	require.Equal(t, "missing 7 asked\n", text(build(t, nil, nil, 7, tree.Limits{})))
}

func TestBuild_cutsCycles(t *testing.T) {
	t.Parallel()
	one := func(records ...store.Record) []tree.Source {
		return []tree.Source{{Name: "a", Store: &hop{records: records}}}
	}
	got := build(t, one(record(1, 1, 0)), nil, 1, tree.Limits{})
	require.Equal(t, "key 1 in a asked\n  key 1 in a asked again\n", text(got))
	require.True(t, got.Cycle)
	got = build(t, one(record(1, 3, 0), record(2, 1, 0), record(3, 2, 0), record(4, 2, 5)), nil, 2, tree.Limits{})
	require.Equal(t, "key 3 in a\n  key 1 in a\n    key 2 in a asked\n      key 3 in a again\n      key 4 in a\n", text(got))
	require.True(t, got.Cycle)
	require.False(t, got.CutDepth, "the way up went round")
	require.Equal(t, 4, got.Nodes)
}

// A proxy passes a key on unchanged. Its record and that of the service behind it then have one ID.
func TestBuild_oneIDInTwoStores(t *testing.T) {
	t.Parallel()
	hops := []tree.Source{
		{Name: "proxy", Store: &hop{records: []store.Record{record(1, 0, 0)}}},
		{Name: "shop", Store: &hop{records: []store.Record{record(1, 0, 0), record(2, 1, 5)}}},
	}
	require.Equal(t, "key 1 in proxy asked\n  key 2 in shop\nkey 1 in shop asked\n", text(build(t, hops, nil, 1, tree.Limits{})))
}

func TestBuild_bounds(t *testing.T) {
	t.Parallel()
	chain, wide := []store.Record{record(1, 0, 0)}, []store.Record{record(1, 0, 0)}
	for n := 2; n <= 1000; n++ {
		chain = append(chain, record(n, n-1, n))
		wide = append(wide, record(n, 1, n))
	}
	for _, tt := range []struct {
		name            string
		records         []store.Record
		of, nodes       int
		limits          tree.Limits
		depth, nodesCut bool
	}{
		{"a chain from its top", chain, 1, 33, tree.Limits{}, true, false},
		{"a chain from its end", chain, 1000, 33, tree.Limits{}, true, false},
		{"wide", wide, 1, 500, tree.Limits{}, false, true},
		{"wide and small", wide, 500, 3, tree.Limits{Nodes: 3}, false, true},
		{"just enough", wide[:10], 1, 10, tree.Limits{Nodes: 10}, false, false},
		{"one too many", wide[:11], 1, 10, tree.Limits{Nodes: 10}, false, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := &hop{records: tt.records}
			got := build(t, []tree.Source{{Name: "a", Store: h}}, nil, tt.of, tt.limits)
			require.Equal(t, tt.nodes, got.Nodes)
			require.Equal(t, tt.depth, got.CutDepth, "CutDepth")
			require.Equal(t, tt.nodesCut, got.CutNodes, "CutNodes")
			require.LessOrEqual(t, h.lists, 501)
		})
	}
}

func TestBuild_showsWhatFailed(t *testing.T) {
	t.Parallel()
	hops := []tree.Source{
		{Name: "shop", Store: &hop{records: []store.Record{record(1, 0, 0)}}},
		{Name: "stock", Store: &hop{err: errors.New("connection refused")}},
		{Name: "bank", Store: &hop{records: []store.Record{record(2, 1, 1)}}},
		{Name: "mail", Store: nil}, // calls of a nil interface panic
	}
	got := text(build(t, hops, nil, 1, tree.Limits{}))
	require.Contains(t, got, "key 1 in shop asked\n  key 2 in bank\nfailed in stock: connection refused\nfailed in mail: console: ")
}

func TestBuild_waitsForNoSlowStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		deaf := make(chan struct{})
		defer close(deaf)
		hops := []tree.Source{
			{Name: "shop", Store: &hop{records: []store.Record{record(1, 0, 0)}}},
			{Name: "slow", Store: &hop{hang: true}},
			{Name: "deaf", Store: &hop{deaf: deaf}}, // ignores its ctx
			{Name: "bank", Store: &hop{records: []store.Record{record(2, 1, 1)}}},
		}
		start := time.Now()
		got := tree.Build(t.Context(), hops, id(1), tree.Limits{Ask: 200 * time.Millisecond})
		require.Equal(t, 200*time.Millisecond, time.Since(start), "one question, and no further one to the slow stores")
		require.Contains(t, text(got), "key 1 in shop asked\n  key 2 in bank\nfailed in slow: ")
		require.Contains(t, text(got), "failed in deaf: console: no answer in time: context deadline exceeded")
		require.False(t, got.CutTime)

		start = time.Now()
		got = tree.Build(t.Context(), hops, id(1), tree.Limits{Ask: time.Minute, Total: time.Second})
		require.Equal(t, time.Second, time.Since(start))
		require.True(t, got.CutTime)
	})
}

func TestBuild_saga(t *testing.T) {
	t.Parallel()
	at := func(ms int) time.Time { return epoch.Add(time.Duration(ms) * time.Millisecond) }
	saga := journal.Record{
		ID: journal.ID(id(1)), Name: "checkout", Status: journal.Compensating, Fence: 2, RecoveryAttempts: 1,
		Times: journal.Times{CreatedAt: at(0), Now: at(500)},
		Entries: []journal.Entry{
			{Step: "stock.reserve", Undo: true, Outcome: retry.Completed, Attempts: 1, At: at(400)},
			{Step: "bank.charge", Outcome: retry.Rejected, Attempts: 3, Status: 402, At: at(300)},
			{Step: "stock.reserve", Outcome: retry.Completed, Attempts: 1, At: at(100), Forced: "ann"},
		},
	}
	hops := []tree.Source{{Name: "stock", Store: &hop{records: []store.Record{record(2, 1, 10), record(4, 1, 350), record(5, 2, 20)}}},
		{Name: "bank", Store: &hop{records: []store.Record{record(3, 1, 110)}}}}
	got := build(t, hops, []tree.Source{{Name: "orders", Journal: sagas{records: []journal.Record{saga}}}}, 5, tree.Limits{})
	require.Equal(t, `saga 1 in orders
  key 2 in stock of stock.reserve
    key 5 in stock asked
  key 3 in bank of bank.charge
  key 4 in stock of stock.reserve (undo)
`, text(got))
	root := got.Roots[0]
	require.Equal(t, "checkout compensating 2 1 running", fmt.Sprint(root.Operation, " ", root.State, " ", root.Executions, " ", root.RecoveryAttempts, " ", root.Ending))
	require.Equal(t, []string{"Completed", "Rejected", "Completed"}, []string{root.Entries[0].Outcome.String(), root.Entries[1].Outcome.String(), root.Entries[2].Outcome.String()})
	require.Equal(t, "ann", root.Entries[0].Forced)
	require.Equal(t, 402, root.Entries[1].Status)

	// Two calls side by side: no guess is better than a wrong one.
	side := append(slices.Clone(hops), tree.Source{Name: "mail", Store: &hop{records: []store.Record{record(6, 1, 120)}}})
	require.Contains(t, text(build(t, side, []tree.Source{{Name: "orders", Journal: sagas{records: []journal.Record{saga}}}}, 1, tree.Limits{})),
		"  key 3 in bank\n  key 6 in mail\n")
}

func TestBuild_endings(t *testing.T) {
	t.Parallel()
	edit := func(f func(*store.Record)) store.Record {
		r := record(1, 0, 0)
		f(&r)
		return r
	}
	for _, tt := range []struct {
		name   string
		record store.Record
		end    time.Time
		ending tree.Ending
	}{
		{"completed", record(1, 0, 0), epoch.Add(50 * time.Millisecond), tree.EndBy},
		{"running", edit(func(r *store.Record) { r.State, r.Now = store.StateInProgress, epoch.Add(9) }), epoch.Add(9), tree.EndRunning},
		{"dead", edit(func(r *store.Record) { r.State = store.StateInProgress }), epoch.Add(50 * time.Millisecond), tree.EndDead},
		{"unknown, and a reconciler asks later", edit(func(r *store.Record) {
			r.State, r.LeaseUntil = store.StateUnknown, epoch.Add(2*time.Hour)
		}), epoch.Add(time.Hour), tree.EndDead},
		{"tombstone", edit(func(r *store.Record) { r.State, r.LeaseUntil = store.StateCancelled, time.Time{} }), time.Time{}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := build(t, []tree.Source{{Name: "a", Store: &hop{records: []store.Record{tt.record}}}}, nil, 1, tree.Limits{}).Roots[0]
			require.Equal(t, tt.ending, got.Ending)
			require.Equal(t, tt.end, got.End)
		})
	}
}

// Any parents end: the tree has each record at most once, but for the marks of a cycle.
func FuzzBuild(f *testing.F) {
	f.Add([]byte{1, 1, 0}, uint8(1))
	f.Add([]byte{2, 3, 1}, uint8(2))
	f.Fuzz(func(t *testing.T, parents []byte, of uint8) {
		if len(parents) > 60 {
			t.Skip()
		}
		hops := []*hop{{}, {}, {}}
		for i, p := range parents {
			h := hops[i%3]
			h.records = append(h.records, record(i+1, int(p)%(len(parents)+3), i))
		}
		limits := tree.Limits{Depth: 1 + int(of)%40, Nodes: 1 + int(of)%50}
		got := build(t, []tree.Source{{Name: "a", Store: hops[0]}, {Name: "b", Store: hops[1]}, {Name: "c", Store: hops[2]}}, nil, int(of), limits)
		seen := map[string]bool{}
		walk(got.Roots, 0, func(n *tree.Node, depth int) {
			key := fmt.Sprint(n.Source, n.ID)
			if n.Again {
				require.Empty(t, n.Children)
			} else {
				require.False(t, seen[key], key)
			}
			seen[key] = true
			require.LessOrEqual(t, depth, limits.Depth)
		})
		require.LessOrEqual(t, got.Nodes, max(limits.Nodes, 1))
	})
}
