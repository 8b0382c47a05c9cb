package console_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/console"
	"github.com/fanonce/fanonce/server/store"
)

// The log is shown by actor, verb and batch. The page of a batch's end leads to its lines.
func TestAudit_filter(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.many(t, 120)
	s := f.site(t)
	s.settle(f, "quarantined", "abandon", nil)
	s.as("eve").settle(f, "completed", "forget", nil)
	form := s.get("/keys?state=unknown").form("/confirm")
	form.Set("verb", "forget")
	form.Set("which", "all")
	done := s.post("/confirm", form).form("/do")
	done.Set("reason", "a test")
	done.Set("count", done.Get("total"))
	result := s.post("/do", done)
	require.Contains(t, result.text(), "ended")

	lines := func(at string) int { return strings.Count(s.get(at).Body.String(), "<tr data-row>") }
	batch := result.link("/audit?in=")
	require.Equal(t, "/audit?in=orders&batch="+done.Get("batch"), batch)
	require.Equal(t, 100, lines(batch))
	require.Equal(t, 21, lines(s.get(batch).link("/audit?batch=")), "the next page of the batch")
	require.Equal(t, 1, lines("/audit?actor=eve"))
	require.Equal(t, 1, lines("/audit?verb=resolve"))
	require.Equal(t, 0, lines("/audit?verb=resolve&actor=eve"))
	require.Contains(t, s.get("/audit?verb=resolve&actor=eve").text(), "No line matches.")
	require.Equal(t, 1, lines("/audit?verb=forget&actor=eve"))
	for _, at := range []string{"/audit?batch=" + strings.Repeat("a", 17), "/audit?batch=x", "/audit?verb=" + strings.Repeat("a", 65), "/audit?actor=a%0Ab"} {
		require.Equal(t, http.StatusBadRequest, s.get(at).Code, at)
	}
}

// A slowLog takes its time for each page of the audit log.
type slowLog struct{ store.Reader }

func (s slowLog) AuditPage(ctx context.Context, req store.AuditRequest) ([]store.AuditEntry, error) {
	time.Sleep(1500 * time.Millisecond)
	return s.Reader.AuditPage(ctx, req)
}

// A search for a rare line in a long log ends after some seconds, and goes on where the person wants it to.
func TestAudit_longSearch(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		f := newFixture(t)
		by := store.Audit{Actor: "ada", Reason: "a test"}
		unknown, err := f.Read(t.Context(), f.ids["unknown"])
		require.NoError(t, err)
		require.NoError(t, f.guard.Resolve(t.Context(), unknown.ID, unknown.Fence, server.Abandoned(), by))
		for _, id := range f.many(t, 1200) {
			require.NoError(t, f.guard.Forget(t.Context(), id, 1, by))
		}
		s := newSite(t, console.Config{Stores: []console.Store{{Name: "orders", Reader: slowLog{f.Store.Reader()}}}})
		page := s.get("/audit?verb=resolve")
		require.Contains(t, page.text(), "No line matches so far.")
		require.Contains(t, page.text(), "The log is long.")
		rest := s.get(page.link("/audit?in=orders&page=")).text()
		require.Contains(t, rest, unknown.ID.String())
		require.NotContains(t, rest, "The log is long.")
	})
}
