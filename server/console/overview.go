package console

import (
	"context"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/server/store"
)

// overviewData is the page that a person opens first. The first part is the things that need a person.
type overviewData struct {
	Tiles  []tile
	Stores []storePanel
	Sagas  []sagaPanel
}

// A tile counts the things of one kind that need a person, over all sources.
type tile struct {
	Kind, Noun string
	Count      int64
	AtLeast    bool
	Oldest     time.Duration // 0: unknown
	Parts      []tilePart    // the sources that have some
}

type tilePart struct {
	Source, Link string
	Count        int64
	AtLeast      bool
	Oldest       time.Duration
	Failure      string // the source could not be asked
}

// add counts a part. A part without anything is left out.
func (t *tile) add(p tilePart) {
	if p.Count == 0 && p.Failure == "" {
		return
	}
	t.Parts = append(t.Parts, p)
	t.Count += p.Count
	t.AtLeast = t.AtLeast || p.AtLeast
	t.Oldest = max(t.Oldest, p.Oldest)
}

// A storePanel is one store on the overview.
type storePanel struct {
	Name      string
	Attention store.Attention
	Oldest    map[string]time.Duration // of the kinds of attention
	Estimate  store.Estimate
	Failure   string
}

// A sagaPanel is one journal on the overview.
type sagaPanel struct {
	Name     string
	Stats    journal.Stats
	Estimate journal.Estimate
	Failure  string
}

func (c *Console) overview(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), pageTimeout)
	defer cancel()
	d := overviewData{
		Stores: make([]storePanel, len(c.cfg.Stores)),
		Sagas:  make([]sagaPanel, len(c.cfg.Sagas)),
	}
	var all sync.WaitGroup // the sources are asked side by side: a slow one delays no other
	for i := range d.Stores {
		all.Go(func() { d.Stores[i] = storePanelOf(ctx, &c.cfg.Stores[i]) })
	}
	for i := range d.Sagas {
		all.Go(func() { d.Sagas[i] = sagaPanelOf(ctx, &c.cfg.Sagas[i]) })
	}
	all.Wait()
	d.Tiles = c.tiles(&d)
	c.render(w, r, http.StatusOK, "overview", page{Title: "Overview", Nav: "overview", Live: true, Data: &d})
}

func storePanelOf(ctx context.Context, s *Store) storePanel {
	p := storePanel{Name: s.Name, Oldest: make(map[string]time.Duration)}
	var err error
	if p.Attention, err = s.Reader.Attention(ctx); err != nil {
		p.Failure = explain(err)
		return p
	}
	for kind, n := range map[string]int64{
		stateUnknown: p.Attention.Unknown, stateQuarantined: p.Attention.Quarantined, stateDeadLetter: p.Attention.DeadLetters,
	} {
		if n > 0 {
			p.Oldest[kind] = oldestKey(ctx, s.Reader, kind)
		}
	}
	if p.Estimate, err = s.Reader.Estimate(ctx); err != nil {
		p.Failure = explain(err)
	}
	return p
}

// oldestKey is the age of the oldest key of a kind; 0 if it cannot be read. The list has the oldest first.
func oldestKey(ctx context.Context, from store.Reader, kind string) time.Duration {
	f := keyFilter{State: kind}
	records, err := from.List(ctx, f.listRequest(store.Cursor{}, 1))
	if err != nil || len(records) == 0 {
		return 0
	}
	return records[0].Now.Sub(records[0].CreatedAt)
}

func sagaPanelOf(ctx context.Context, s *Sagas) sagaPanel {
	p := sagaPanel{Name: s.Name}
	var err error
	if p.Stats, err = s.Reader.Stats(ctx); err == nil {
		p.Estimate, err = s.Reader.Estimate(ctx)
	}
	p.Failure = explain(err)
	return p
}

// tiles gathers what needs a person over all sources.
func (c *Console) tiles(d *overviewData) []tile {
	unknown := tile{Kind: stateUnknown, Noun: "unknown key"}
	quarantined := tile{Kind: stateQuarantined, Noun: "quarantined key"}
	letters := tile{Kind: stateDeadLetter, Noun: "dead letter"}
	stuck := tile{Kind: "stuck", Noun: "stuck saga"}
	for i := range d.Stores {
		p := &d.Stores[i]
		for _, k := range []struct {
			into *tile
			page string
			n    int64
		}{{&unknown, "/keys", p.Attention.Unknown}, {&quarantined, "/keys", p.Attention.Quarantined}, {&letters, "/letters", p.Attention.DeadLetters}} {
			link := c.cfg.Prefix + k.page + "?" + url.Values{"in": {p.Name}, "state": {k.into.Kind}}.Encode()
			k.into.add(tilePart{Source: p.Name, Link: link, Count: k.n, Oldest: p.Oldest[k.into.Kind], Failure: p.Failure})
		}
	}
	for i := range d.Sagas {
		p := &d.Sagas[i]
		n := p.Stats.ByStatus[journal.Stuck]
		link := c.cfg.Prefix + "/sagas?" + url.Values{"in": {p.Name}, "status": {journal.Stuck.String()}}.Encode()
		stuck.add(tilePart{Source: p.Name, Link: link, Count: n, AtLeast: n >= journal.StatsLimit, Oldest: p.Stats.OldestStuck, Failure: p.Failure})
	}
	var tiles []tile
	if len(d.Stores) > 0 {
		tiles = append(tiles, unknown, quarantined, letters)
	}
	if len(d.Sagas) > 0 {
		tiles = append(tiles, stuck)
	}
	return tiles
}
