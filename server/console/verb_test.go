package console_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server/console"
	"github.com/fanonce/fanonce/server/store"
)

// settle goes from the page of a key over the confirmation to the end, as a browser does.
func (s *site) settle(f *fixture, name, verb string, values map[string]string) answer {
	s.tb.Helper()
	form := s.get("/key?in=orders&id=" + f.ids[name].String()).form("/confirm")
	form.Set("verb", verb)
	confirmation := s.post("/confirm", form)
	require.Equal(s.tb, http.StatusOK, confirmation.Code, confirmation.Body.String())
	form = confirmation.form("/do")
	form.Set("reason", "the bank confirms")
	for field, value := range values {
		form.Set(field, value)
	}
	return s.post("/do", form)
}

func TestVerbs_keys(t *testing.T) {
	t.Parallel()
	answer := map[string]string{"status": "201", "body": `{"id":1}`}
	tests := []struct {
		name, verb string
		values     map[string]string
		want       store.State
	}{
		{"unknown", "run-again", nil, store.StateReleased},
		{"unknown", "never-happened", nil, store.StateReleased},
		{"unknown", "abandon", nil, store.StateCancelled},
		{"unknown", "happened", answer, store.StateCompleted},
		{"unknown", "forget", nil, 0},
		{"quarantined", "run-again", nil, store.StateReleased},
		{"quarantined", "happened", answer, store.StateCompleted},
		{"dead", "run-again", nil, store.StateReleased},
		{"dead", "abandon", nil, store.StateCancelled},
		{"dead", "forget", nil, 0},
		{"letter", "forget", nil, 0},
		{"completed", "forget", nil, 0},
		{"cancelled", "forget", nil, 0},
	}
	for _, tt := range tests {
		t.Run(tt.verb+" "+tt.name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			s := f.site(t)
			page := s.settle(f, tt.name, tt.verb, tt.values).follow()
			f.requireState(t, tt.name, tt.want)
			require.Equal(t, http.StatusOK, page.Code)
			if tt.verb == "forget" {
				require.Regexp(t, `This key is forgotten: ada .* as line \d+, with the reason “the bank confirms”`, page.text())
				require.Equal(t, http.StatusOK, s.get(page.link("/keys?in=")).Code)
			}
			require.Contains(t, page.Body.String(), "the bank confirms")
			entries, err := f.Reader().AuditPage(context.Background(), store.AuditRequest{ID: f.ids[tt.name], Limit: 10})
			require.NoError(t, err)
			require.Len(t, entries, 1)
			require.Equal(t, "ada", entries[0].Actor)
			require.Equal(t, "the bank confirms", entries[0].Reason)
		})
	}
}

// The stored answer is the one that the person gave.
func TestVerbs_happenedStoresTheAnswer(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.site(t).settle(f, "unknown", "happened", map[string]string{"status": "201", "body": `{"id":1}`})
	rec, err := f.Read(context.Background(), f.ids["unknown"])
	require.NoError(t, err)
	require.Equal(t, 201, rec.Answer.Status)
	require.Contains(t, string(rec.Answer.Envelope), `{"id":1}`)
	require.Contains(t, string(rec.Answer.Envelope), "application/json")
}

// Where the guard cannot seal as the service does, nobody can state an answer, and the page says why.
func TestVerbs_noAnswers(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := newSite(t, console.Config{Stores: []console.Store{{
		Name: "orders", Reader: f.Store.Reader(), Guard: f.guard, NoAnswers: "Only <the> service seals.",
	}}})
	page := s.get("/key?in=orders&id=" + f.ids["unknown"].String())
	require.NotContains(t, page.Body.String(), `value="happened"`)
	require.Contains(t, page.text(), "Only <the> service seals.")
	require.NotContains(t, page.Body.String(), "<the>")
	require.NotContains(t, s.get("/key?in=orders&id="+f.ids["completed"].String()).text(), "service seals")
	form := oneKey(f, "unknown", "happened", s.token())
	form.Set("status", "200")
	for _, at := range []string{"/confirm", "/do"} {
		a := s.post(at, form)
		require.Equal(t, http.StatusBadRequest, a.Code)
		require.Contains(t, a.text(), "Only <the> service seals.")
	}
	f.requireState(t, "unknown", store.StateUnknown)
}

// A confirmation names the consequence and the count, and changes nothing.
func TestVerbs_confirmation(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.site(t)
	form := s.get("/key?in=orders&id=" + f.ids["unknown"].String()).form("/confirm")
	form.Set("verb", "forget")
	text := s.post("/confirm", form).text()
	require.Contains(t, text, "Forget: 1 key")
	require.Contains(t, text, "also if its effect has happened")
	require.Contains(t, text, f.ids["unknown"].String())
	f.requireState(t, "unknown", store.StateUnknown)
}

func TestVerbs_badInput(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.site(t)
	good := oneKey(f, "unknown", "happened", s.token())
	good.Set("status", "200")
	tests := []struct{ name, field, value string }{
		{"no reason", "reason", " "},
		{"a long reason", "reason", strings.Repeat("a", 1025)},
		{"a reason that is not text", "reason", "a\xff"},
		{"a reason with NUL", "reason", "a\x00"},
		{"no status", "status", ""},
		{"a status that is none", "status", "ok"},
		{"a status that is too low", "status", "199"},
		{"a verb that is none", "verb", "delete"},
		{"a kind that is none", "kind", "table"},
		{"a source that is none", "in", "payments"},
		{"no source", "in", ""},
		{"an ID that is none", "id", "x"},
		{"a fence that is none", "id", f.ids["unknown"].String() + ":x"},
		{"a negative fence", "id", f.ids["unknown"].String() + ":-1"},
		{"a count that is none", "done", "x"},
		{"a long cursor", "cursor", strings.Repeat("1", 101)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			values := url.Values{}
			for k, v := range good {
				values[k] = v
			}
			values.Set(tt.field, tt.value)
			require.GreaterOrEqual(t, s.post("/do", values).Code, 400)
			f.requireState(t, "unknown", store.StateUnknown)
		})
	}
	require.Equal(t, http.StatusSeeOther, s.post("/do", good).Code)
	require.Equal(t, http.StatusBadRequest, s.post("/confirm", url.Values{
		"token": {s.token()}, "kind": {"key"}, "in": {"orders"}, "verb": {"forget"}, "which": {"selected"},
	}).Code, "no row")
}

// A key that has changed since the confirmation is not changed again, and the page says so. A form that is sent
// twice does nothing the second time.
func TestVerbs_staleForms(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.site(t)
	form := s.get("/key?in=orders&id=" + f.ids["unknown"].String()).form("/confirm")
	form.Set("verb", "run-again")
	done := s.post("/confirm", form).form("/do")
	done.Set("reason", "first")
	require.Equal(t, http.StatusSeeOther, s.post("/do", done).Code)
	again := s.post("/do", done)
	require.Equal(t, http.StatusOK, again.Code)
	require.Contains(t, again.text(), "has changed since: it is released with fence 2")
	entries, err := f.Reader().AuditPage(context.Background(), store.AuditRequest{ID: f.ids["unknown"], Limit: 10})
	require.NoError(t, err)
	require.Len(t, entries, 1)
}

// A live owner is never robbed.
func TestVerbs_liveOwner(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.site(t)
	page := s.get("/key?in=orders&id=" + f.ids["in_progress"].String())
	require.NotContains(t, page.Body.String(), `action="/ops/confirm"`)
	for _, verb := range []string{"forget", "run-again"} {
		a := s.post("/do", oneKey(f, "in_progress", verb, s.token()))
		require.Equal(t, http.StatusOK, a.Code)
		require.Contains(t, a.text(), "Refused")
		f.requireState(t, "in_progress", store.StateInProgress)
	}
}

// A store without a guard is read only.
func TestVerbs_readOnly(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := newSite(t, console.Config{Stores: []console.Store{{Name: "orders", Reader: f.Store.Reader()}}})
	for _, at := range []string{"/keys", "/letters", "/key?in=orders&id=" + f.ids["unknown"].String()} {
		require.NotContains(t, s.get(at).Body.String(), `action="/ops/confirm"`)
	}
	require.Equal(t, http.StatusNotFound, s.post("/do", oneKey(f, "unknown", "forget", s.token())).Code)
	f.requireState(t, "unknown", store.StateUnknown)
}

// many makes further unknown keys.
func (f *fixture) many(tb testing.TB, n int) []store.ID {
	tb.Helper()
	ids := make([]store.ID, n)
	for i := range ids {
		ids[i] = store.ID{0: 0xb0, 12: byte(i >> 16), 13: byte(i >> 8), 14: byte(i), 15: 1}
		f.make(tb, ids[i], "unknown")
	}
	return ids
}

// The rows that a person selects are changed, and no others.
func TestVerbs_selected(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.many(t, 5)
	s := f.site(t)
	form := s.get("/keys?state=unknown").form("/confirm")
	form.Set("verb", "abandon")
	form.Set("which", "selected")
	form["id"] = []string{f.ids["unknown"].String(), store.ID{0: 0xb0, 14: 3, 15: 1}.String()}
	confirmation := s.post("/confirm", form)
	require.Contains(t, confirmation.text(), "Abandon (cancel): 2 keys")
	done := confirmation.form("/do")
	done.Set("reason", "two of them")
	result := s.post("/do", done)
	require.Contains(t, result.text(), `<dd id="done">2</dd>`)
	f.requireState(t, "unknown", store.StateCancelled)
	left, err := f.Reader().Attention(context.Background())
	require.NoError(t, err)
	require.EqualValues(t, 4, left.Unknown)
}

// A slowReader takes a second for each list. In a bubble that second is virtual.
type slowReader struct{ store.Reader }

func (s slowReader) List(ctx context.Context, req store.ListRequest) ([]store.Record, error) {
	time.Sleep(time.Second)
	return s.Reader.List(ctx, req)
}

// A verb on all matches works in parts, each of which ends after some seconds. It leaves one line in the audit log for
// each key. A form that is sent twice in the middle does nothing twice.
func TestVerbs_all(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		f := newFixture(t)
		f.many(t, 700)
		s := newSite(t, console.Config{Stores: []console.Store{{Name: "orders", Reader: slowReader{f.Store.Reader()}, Guard: f.guard}}})
		form := s.get("/keys?state=unknown").form("/confirm")
		form.Set("verb", "run-again")
		form.Set("which", "all")
		confirmation := s.post("/confirm", form)
		require.Contains(t, confirmation.text(), "701 keys")
		done := confirmation.form("/do")
		done.Set("reason", "the provider is back")
		done.Set("count", done.Get("total"))
		batch := done.Get("batch")
		require.NotEmpty(t, batch)
		time.Sleep(time.Millisecond)
		f.make(t, store.ID{0: 0xc0}, "unknown") // after the confirmation

		result, parts := s.post("/do", done), 1
		for ; strings.Contains(result.Body.String(), "data-continue"); parts++ {
			require.Contains(t, result.text(), "at work")
			next := result.form("/do")
			s.post("/do", next) // and once more, as a browser that repeats a request
			result = s.post("/do", next)
		}
		require.Equal(t, 2, parts, "the repeated request did the second part")
		require.Contains(t, result.text(), "ended")
		left, err := f.Reader().Attention(context.Background())
		require.NoError(t, err)
		require.EqualValues(t, 1, left.Unknown, "nobody confirmed the key that came later")
		entries, err := f.Reader().AuditPage(context.Background(), store.AuditRequest{Limit: 5000})
		require.NoError(t, err)
		require.Len(t, entries, 701)
		for _, e := range entries {
			require.Equal(t, fmt.Sprintf("[batch %s] the provider is back", batch), e.Reason)
		}
		// The first form again finds nothing left.
		require.Contains(t, s.post("/do", done).text(), `<dd id="done">0</dd>`)
	})
}

// All at once are only keys that need a person, and the person types how many these are. The bound is the store's time.
func TestVerbs_allIsBounded(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.many(t, 20)
	s := f.site(t)
	require.NotContains(t, s.get("/keys?state=any").Body.String(), `value="all"`)
	require.Contains(t, s.get("/keys?state=unknown").Body.String(), `value="all"`)
	form := s.get("/keys?state=any").form("/confirm")
	form.Set("verb", "forget")
	form.Set("which", "all")
	for _, at := range []string{"/confirm", "/do"} {
		refused := s.post(at, form)
		require.Equal(t, http.StatusBadRequest, refused.Code, at)
		require.Contains(t, refused.text(), "Only keys that need a person can be changed all at once")
	}

	form = s.get("/keys?state=unknown").form("/confirm")
	form.Set("verb", "forget")
	form.Set("which", "all")
	done := s.post("/confirm", form).form("/do")
	done.Set("reason", "a test")
	for _, typed := range []string{"", "20", "yes"} {
		done.Set("count", typed)
		refused := s.post("/do", done)
		require.Equal(t, http.StatusBadRequest, refused.Code)
		require.Contains(t, refused.text(), "Type the number 21")
	}
	before, err := f.Reader().Attention(context.Background())
	require.NoError(t, err)
	require.EqualValues(t, 21, before.Unknown)
	unbounded := maps.Clone(done)
	unbounded.Del("until")
	unbounded.Set("count", "21")
	require.Contains(t, s.post("/do", unbounded).text(), "damaged")
	done.Set("count", "21")
	require.Contains(t, s.post("/do", done).text(), `<dd id="done">21</dd>`)
}

// An aheadReader has the clock of another machine, which is three hours ahead.
type aheadReader struct{ store.Reader }

func (a aheadReader) List(ctx context.Context, req store.ListRequest) ([]store.Record, error) {
	records, err := a.Reader.List(ctx, req)
	for i := range records {
		records[i].CreatedAt, records[i].Now = records[i].CreatedAt.Add(3*time.Hour), records[i].Now.Add(3*time.Hour)
	}
	return records, err
}

func TestVerbs_allByTheStoresClock(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.many(t, 20)
	s := newSite(t, console.Config{Stores: []console.Store{{Name: "orders", Reader: aheadReader{f.Store.Reader()}, Guard: f.guard}}})
	form := s.get("/keys?state=unknown").form("/confirm")
	form.Set("verb", "run-again")
	form.Set("which", "all")
	require.Contains(t, s.post("/confirm", form).text(), "21 keys")
}

// A person who closes the page in the middle loses nothing: a new job from the list does what is left.
func TestVerbs_resume(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		f := newFixture(t)
		f.many(t, 700)
		s := newSite(t, console.Config{Stores: []console.Store{{Name: "orders", Reader: slowReader{f.Store.Reader()}, Guard: f.guard}}})
		begin := func() url.Values {
			form := s.get("/keys?state=unknown").form("/confirm")
			form.Set("verb", "forget")
			form.Set("which", "all")
			done := s.post("/confirm", form).form("/do")
			done.Set("reason", "test keys")
			done.Set("count", done.Get("total"))
			return done
		}
		first := s.post("/do", begin())
		require.Contains(t, first.Body.String(), "data-continue")
		result := s.post("/do", begin()) // another tab
		for strings.Contains(result.Body.String(), "data-continue") {
			result = s.post("/do", result.form("/do"))
		}
		left, err := f.Reader().Attention(context.Background())
		require.NoError(t, err)
		require.Zero(t, left.Unknown)
		entries, err := f.Reader().AuditPage(context.Background(), store.AuditRequest{Limit: 5000})
		require.NoError(t, err)
		require.Len(t, entries, 701)
	})
}
