package console_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server/console"
)

// A console that is mounted at another path than it knows says so, instead of a page whose links lead nowhere.
func TestConsole_mountedElsewhere(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, tt := range []struct {
		prefix, pattern, strip, path, want string
	}{
		{"", "/ops/", "", "/ops/", "another path than its Config.Prefix"},
		{"", "GET example.com/ops/", "", "/ops/keys", "another path than its Config.Prefix"},
		{"/ops", "/ops/", "/ops", "/ops/", "The paths of this console begin with /ops/"},
		{"/ops", "/", "", "/", "The paths of this console begin with /ops/"},
		{"/ops", "/ops/", "", "/ops/nothing", "There is no such page"},
		{"", "/", "", "/nothing", "There is no such page"},
		{"", "GET /", "", "/keys", ""},
		{"/ops", "/ops/", "", "/ops/keys", ""},
		{"/ops", "/", "", "/ops/keys", ""},
	} {
		page, err := console.New(console.Config{
			Prefix: tt.prefix, Authenticate: authenticate, Stores: []console.Store{{Name: "orders", Reader: f.Store.Reader()}},
		})
		require.NoError(t, err)
		mux := http.NewServeMux()
		mux.Handle(tt.pattern, http.StripPrefix(tt.strip, page))
		r := httptest.NewRequest(http.MethodGet, tt.path, nil)
		r.Header.Set("X-User", "ada")
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		if tt.want == "" {
			require.Equal(t, http.StatusOK, w.Code, "%+v", tt)
			continue
		}
		require.Equal(t, http.StatusNotFound, w.Code, "%+v", tt)
		require.Contains(t, w.Body.String(), tt.want, "%+v", tt)
	}
}

func TestConsole_pages(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.site(t)
	for _, tt := range []struct{ at, want string }{
		{"/", "It is not known whether charge unknown took effect"},
		{"/", `href="/ops/key?id=` + f.ids["unknown"].String() + `&amp;in=orders"`},
		{"/keys", "a0000000"},
		{"/keys?state=any", "charge completed"},
		{"/key?in=orders&id=" + f.ids["completed"].String(), "First claim"},
		{"/key?in=orders&id=" + f.ids["unknown"].String(), "It never happened"},
		{"/letters", "charge letter"},
		{"/audit", "Nobody has changed anything"},
		{"/help", "Keyboard"},
		{"/asset/console.css", "color-scheme"},
		{"/asset/console.js", "keydown"},
		{"/asset/icon.svg", "<svg"},
	} {
		a := s.get(tt.at)
		require.Equal(t, http.StatusOK, a.Code, "%s: %s", tt.at, a.Body)
		require.Contains(t, a.Body.String(), tt.want, tt.at)
	}
}

func TestConsole_noSuchPage(t *testing.T) {
	t.Parallel()
	s := newFixture(t).site(t)
	for _, at := range []string{"/nothing", "/keys/", "//keys", "/asset/none.js", "/asset/..", "/keys?in=none", "/key?in=orders&id=x", "/key?in=none", "/audit?in=none", "/id/x"} {
		require.GreaterOrEqual(t, s.get(at).Code, 400, at)
	}
	require.Equal(t, http.StatusNotFound, s.send(httptest.NewRequest(http.MethodGet, "/opsy", nil)).Code)
	require.Equal(t, http.StatusNotFound, s.send(httptest.NewRequest(http.MethodGet, "/", nil)).Code)
	a := s.send(httptest.NewRequest(http.MethodGet, "/ops", nil))
	require.Equal(t, "/ops/", a.Header().Get("Location"))
}

// A page shows neither a body nor a memo.
func TestConsole_bodiesStaySealed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.site(t)
	for _, at := range []string{"/", "/keys?state=completed", "/key?in=orders&id=" + f.ids["completed"].String()} {
		require.NotContains(t, s.get(at).Body.String(), "secret body", at)
	}
}

// The title of a page is in the history of a browser.
func TestConsole_titlesAreConstant(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.site(t)
	a := s.get("/key?in=orders&id=" + f.ids["completed"].String()).Body.String()
	title := a[strings.Index(a, "<title>"):strings.Index(a, "</title>")]
	require.Equal(t, "<title>Key · fanonce", title)
}
