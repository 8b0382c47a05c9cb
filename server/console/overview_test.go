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
