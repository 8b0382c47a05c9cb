package console_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/saga/memjournal"
	"github.com/fanonce/fanonce/server/console"
	"github.com/fanonce/fanonce/server/memstore"
	"github.com/fanonce/fanonce/server/store"
)

// An unreadable store has a database that is away.
type unreadableStore struct{ store.Reader }

var errAway = errors.New("failed to connect to `user=payments database=ledger`: 10.0.0.7:5432: connection refused")

func (unreadableStore) List(context.Context, store.ListRequest) ([]store.Record, error) {
	return nil, errAway
}

// A store that cannot be read is not a calm one, and the rest is shown.
func TestOverview_unread(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	away := console.Store{Name: "payments", Reader: unreadableStore{f.Reader()}}
	text := newSite(t, console.Config{Stores: []console.Store{away}}).get("/").text()
	require.Contains(t, text, "<h1>Not known</h1>")
	require.Contains(t, text, "<b>payments</b> cannot be read. Whether any of its keys need a person is not known.")
	require.NotContains(t, text, "Nothing needs a person")
	for _, secret := range []string{"10.0.0.7", "user=", "5432"} {
		require.NotContains(t, text, secret)
	}

	text = newSite(t, console.Config{Stores: []console.Store{away, {Name: "orders", Reader: f.Reader()}}}).get("/").text()
	require.Contains(t, text, "<b>payments</b> cannot be read")
	require.Contains(t, text, "3 things that need a person")

	text = newSite(t, console.Config{Stores: []console.Store{away, {Name: "empty", Reader: memstore.New().Reader()}}}).get("/").text()
	require.Contains(t, text, "Nothing in the other stores and journals needs a person.")
	text = newSite(t, console.Config{Stores: []console.Store{{Name: "empty", Reader: memstore.New().Reader()}}}).get("/").text()
	require.Contains(t, text, "<h1>Nothing needs a person</h1>")
}

// An agedStore has keys that are an hour older.
type agedStore struct{ store.Reader }

func (s agedStore) List(ctx context.Context, req store.ListRequest) ([]store.Record, error) {
	records, err := s.Reader.List(ctx, req)
	for i := range records {
		records[i].CreatedAt = records[i].CreatedAt.Add(-time.Hour)
	}
	return records, err
}

// One list over all stores has what needs a person, the oldest first, with its verbs for who may use them.
func TestOverview_needs(t *testing.T) {
	t.Parallel()
	old, young := newFixture(t), newFixture(t)
	text := newSite(t, console.Config{Stores: []console.Store{
		{Name: "young", Reader: young.Reader(), Guard: young.guard}, {Name: "old", Reader: agedStore{old.Reader()}, Guard: old.guard},
	}}).get("/").text()
	require.Contains(t, text, "6 things that need a person")
	require.Contains(t, text, "It is not known whether charge unknown took effect")
	require.Contains(t, text, "1 process died while running")
	require.Contains(t, text, "charge letter gave up on a message")
	first, last := strings.Index(text, "· old ·"), strings.LastIndex(text, "· young ·")
	require.True(t, 0 < first && first < strings.Index(text, "· young ·") && strings.LastIndex(text, "· old ·") < last, "the oldest first")
	require.Equal(t, 2, strings.Count(text, `value="happened"`)-2, "of each unknown and quarantined key")

	seen := newSite(t, console.Config{Stores: []console.Store{{Name: "old", Reader: old.Reader()}}}).get("/").text()
	require.Contains(t, seen, "3 things that need a person")
	require.NotContains(t, seen, "<button name=\"verb\"", "nothing can be changed")
}

// A crowdedJournal has 73 stuck sagas. Its clock is a day ahead.
type crowdedJournal struct{ journal.Reader }

const crowd = 73

func (crowdedJournal) Stats(context.Context) (journal.Stats, error) {
	return journal.Stats{ByStatus: map[journal.Status]int64{journal.Stuck: crowd}}, nil
}

func (crowdedJournal) Plans(context.Context) ([]journal.PlanRecord, error) { return nil, nil }

func (crowdedJournal) Browse(_ context.Context, req journal.BrowseRequest) (found []journal.Record, err error) {
	now := time.Now().Add(24 * time.Hour)
	for i := range min(req.Limit, crowd) {
		age := time.Duration(i+1) * time.Minute // the youngest first
		if req.OldestFirst {
			age = time.Duration(crowd-i) * time.Minute
		}
		var rec journal.Record
		rec.Name, rec.Status, rec.CreatedAt, rec.Now = "checkout", journal.Stuck, now.Add(-age), now
		if !rec.CreatedAt.Before(req.From) {
			found = append(found, rec)
		}
	}
	return found, nil
}

// The first view has the sagas that have waited longest, and says how many it leaves out.
func TestOverview_crowded(t *testing.T) {
	t.Parallel()
	s := newSite(t, console.Config{Sagas: []console.Sagas{{Name: "shop", Reader: crowdedJournal{}}}})
	text := s.get("/").text()
	require.Contains(t, text, "<h1>73 things that need a person</h1>")
	require.Contains(t, text, "<b>1 h 13 min</b> ago")
	require.NotContains(t, text, "<b>23 min</b> ago", "the youngest are left out")
	require.Contains(t, text, "23 younger sagas of shop are not shown here")
	require.Contains(t, s.get("/sagas?status=stuck").text(), "1 h 13 min")
}

// The first view has the verbs about the step on which a saga is stuck, beside those about the saga.
func TestOverview_stepVerbs(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		shop := newShop(t)
		id := shop.stuckUndo(t, "order-1")
		s := shop.site(t)
		form := s.get("/").form("/confirm")
		require.Equal(t, "payment.charge", form.Get("step"))
		require.Contains(t, s.get("/").text(), `value="force-undone"`)
		form.Set("verb", "force-undone")
		do := s.post("/confirm", form).form("/do")
		do.Set("reason", "the bank paid it back")
		require.Equal(t, http.StatusSeeOther, s.post("/do", do).Code)
		shop.requireStatus(t, id, journal.Compensated)

		forward := shop.stuckForward(t, "order-2")
		text := s.get("/").text()
		for _, verb := range []string{"force-ok", "force-rejected", "retry", "cancel", "abandon"} {
			require.Contains(t, text, `value="`+verb+`"`)
		}
		require.NotContains(t, text, `value="force-undone"`, "it goes forward")
		form = s.get("/").form("/confirm") // it has the step, which this verb does not use
		form.Set("verb", "abandon")
		do = s.post("/confirm", form).form("/do")
		require.Empty(t, do.Get("step"))
		do.Set("reason", "settled by phone")
		s.post("/do", do)
		shop.requireStatus(t, forward, journal.Abandoned)
	})
}

// A list of ages is by the clock of its source, and offers ages only where they count.
func TestLists_ages(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := newSite(t, console.Config{
		Stores: []console.Store{{Name: "orders", Reader: lateStore{f.Reader()}}}, Sagas: []console.Sagas{{Name: "shop", Reader: crowdedJournal{}}},
	})
	require.Equal(t, 8, strings.Count(s.get("/keys?state=any").text(), "<tr data-row>"))
	require.Contains(t, s.get("/keys?state=any&older=10m&within=20m").text(), "No key of orders matches.")
	require.Equal(t, 10, strings.Count(s.get("/sagas?status=any&within=10m").text(), "<tr data-row>"))
	for at, want := range map[string]bool{"/keys": false, "/letters": false, "/keys?state=any": true, "/sagas": false, "/sagas?status=any": true} {
		require.Equal(t, want, strings.Contains(s.get(at).text(), `name="within"`), at)
	}
}

// A lateStore has a clock that is a day late.
type lateStore struct{ store.Reader }

func (s lateStore) Browse(ctx context.Context, req store.BrowseRequest) ([]store.Record, error) {
	const late = 24 * time.Hour
	req.From = req.From.Add(late)
	if !req.To.IsZero() {
		req.To = req.To.Add(late)
	}
	records, err := s.Reader.Browse(ctx, req)
	for i := range records {
		records[i].Now, records[i].CreatedAt = records[i].Now.Add(-late), records[i].CreatedAt.Add(-late)
	}
	return records, err
}

// A list without a name begins with the store that needs a person, and each list says which others do.
func TestLists_elsewhere(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	calm := console.Store{Name: "calm", Reader: memstore.New().Reader()}
	needy := console.Store{Name: "needy", Reader: f.Reader()}
	away := console.Store{Name: "away", Reader: unreadableStore{f.Reader()}}
	s := newSite(t, console.Config{Stores: []console.Store{calm, away, needy}})
	for _, at := range []string{"/keys", "/letters"} {
		text := s.get(at).text()
		require.Contains(t, text, "<small>needy</small>", at)
		require.Contains(t, text, "<b>away</b> cannot be read", at)
		require.NotContains(t, text, "Also in need", at)
		text = s.get(at + "?in=calm").text()
		require.Contains(t, text, "of calm", at)
		require.Contains(t, text, "Also in need of a person", at)
		require.Contains(t, text, "in=needy", at)
	}
	require.Contains(t, s.get("/keys?state=any").text(), "<small>calm</small>", "a list of ages is about one store")

	crowded := console.Sagas{Name: "crowded", Reader: crowdedJournal{}}
	empty := console.Sagas{Name: "empty", Reader: memjournal.New().Reader()}
	s = newSite(t, console.Config{Sagas: []console.Sagas{empty, crowded}})
	require.Contains(t, s.get("/sagas").text(), "<small>crowded</small>")
	require.Contains(t, s.get("/sagas?in=empty").text(), "sagas of crowded</a>")
}

func BenchmarkOverview(b *testing.B) {
	f := newFixture(b)
	s := f.site(b)
	b.ReportAllocs()
	for b.Loop() {
		r := httptest.NewRequest(http.MethodGet, prefix+"/", nil)
		if a := s.send(r); a.Code != http.StatusOK {
			b.Fatal(a.Code)
		}
	}
}
