package console_test

import (
	"context"
	"errors"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/console"
	"github.com/fanonce/fanonce/server/memstore"
	"github.com/fanonce/fanonce/server/store"
)

// authenticate knows two users by a header. It refuses everybody else.
func authenticate(r *http.Request) (console.User, error) {
	switch name := r.Header.Get("X-User"); name {
	case "ada":
		return console.User{Name: name, Role: console.Operator}, nil
	case "eve":
		return console.User{Name: name, Role: console.Operator}, nil
	case "olaf":
		return console.User{Name: name, Role: console.Observer}, nil
	default:
		return console.User{}, errors.New("who is that?")
	}
}

// A site is a console below a prefix, as a browser of one user sees it.
type site struct {
	tb      testing.TB
	handler http.Handler
	user    string
}

const prefix = "/ops"

func newSite(tb testing.TB, cfg console.Config) *site {
	tb.Helper()
	cfg.Prefix = prefix
	if cfg.Authenticate == nil {
		cfg.Authenticate = authenticate
	}
	c, err := console.New(cfg)
	require.NoError(tb, err)
	return &site{tb, c, "ada"}
}

// as is the site as another user sees it.
func (s *site) as(user string) *site { return &site{s.tb, s.handler, user} }

// An answer is an answer of the console.
type answer struct {
	*httptest.ResponseRecorder
	site *site
}

func (s *site) send(r *http.Request) answer {
	if s.user != "" {
		r.Header.Set("X-User", s.user)
	}
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, r)
	return answer{w, s}
}

// get reads the page at an address below the prefix.
func (s *site) get(at string) answer {
	return s.send(httptest.NewRequest(http.MethodGet, prefix+at, nil))
}

func (s *site) post(at string, values url.Values) answer {
	r := httptest.NewRequest(http.MethodPost, prefix+at, strings.NewReader(values.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return s.send(r)
}

// follow follows one redirect.
func (a answer) follow() answer {
	a.site.tb.Helper()
	require.Equal(a.site.tb, http.StatusSeeOther, a.Code, a.Body.String())
	return a.site.get(strings.TrimPrefix(a.Header().Get("Location"), prefix))
}

func (a answer) text() string { return html.UnescapeString(a.Body.String()) }

var (
	formTag  = regexp.MustCompile(`(?s)<form ([^>]*)>(.*?)</form>`)
	inputTag = regexp.MustCompile(`(?s)<input ([^>]*)>`)
	attr     = regexp.MustCompile(`([a-z-]+)="([^"]*)"`)
)

func attrsOf(tag string) map[string]string {
	m := make(map[string]string)
	for _, a := range attr.FindAllStringSubmatch(tag, -1) {
		m[a[1]] = html.UnescapeString(a[2])
	}
	return m
}

// form returns the values that the first form with that action sends, without its boxes.
func (a answer) form(action string) url.Values {
	a.site.tb.Helper()
	for _, f := range formTag.FindAllStringSubmatch(a.Body.String(), -1) {
		if attrsOf(f[1])["action"] != prefix+action {
			continue
		}
		values := make(url.Values)
		for _, i := range inputTag.FindAllStringSubmatch(f[2], -1) {
			if at := attrsOf(i[1]); at["name"] != "" && at["type"] != "checkbox" {
				values.Add(at["name"], at["value"])
			}
		}
		return values
	}
	require.Fail(a.site.tb, "the page has no form for "+action, a.Body.String())
	return nil
}

// link returns where the first link to an address of that beginning leads, below the prefix.
func (a answer) link(beginning string) string {
	a.site.tb.Helper()
	_, rest, ok := strings.Cut(a.Body.String(), `href="`+prefix+html.EscapeString(beginning))
	require.True(a.site.tb, ok, "the page has no link to %s: %s", beginning, a.Body)
	rest, _, _ = strings.Cut(rest, `"`)
	return html.UnescapeString(beginning + rest)
}

// token is a valid token of the user.
func (s *site) token() string { return s.get("/help").form("/find").Get("token") }

// A fixture is a store with keys in all states, and its guard.
type fixture struct {
	*memstore.Store
	guard *server.Guard
	ids   map[string]store.ID // by the name of the state, and "letter" and "dead"
}

func newFixture(tb testing.TB) *fixture {
	tb.Helper()
	s := memstore.New()
	g, err := server.NewGuard(s, server.Unscoped, server.Config{})
	require.NoError(tb, err)
	f := &fixture{s, g, make(map[string]store.ID)}
	for i, name := range []string{"in_progress", "completed", "released", "unknown", "quarantined", "cancelled", "letter", "dead"} {
		f.ids[name] = store.ID{15: byte(i + 1), 0: 0xa0}
		f.make(tb, f.ids[name], name)
	}
	return f
}

// make makes a record in a state.
func (f *fixture) make(tb testing.TB, id store.ID, name string) {
	tb.Helper()
	ctx := context.Background()
	lease := time.Hour
	if name == "dead" || name == "quarantined" {
		lease = time.Microsecond
	}
	token := store.Token(id)
	rec, _, err := f.Claim(ctx, store.ClaimRequest{
		ID: id, Token: token, Fingerprint: store.Fingerprint{Version: 1, Sum: [32]byte{1}}, Effect: store.Opaque,
		Lease: lease, Keep: time.Hour, Window: time.Hour, Route: "charge " + name,
	})
	require.NoError(tb, err)
	owner := store.Owner{ID: id, Token: token, Fence: rec.Fence}
	switch name {
	case "completed", "letter":
		err = f.Settle(ctx, owner, store.Settlement{
			State: store.StateCompleted, Answer: store.Answer{Status: 200, Envelope: []byte("the secret body")}, ReplayFor: time.Hour,
			DeadLetter: name == "letter",
		})
	case "released":
		err = f.Settle(ctx, owner, store.Settlement{State: store.StateReleased})
	case "unknown":
		err = f.Settle(ctx, owner, store.Settlement{State: store.StateUnknown})
	case "quarantined":
		for dead := false; !dead && err == nil; {
			time.Sleep(lease) // it has to end first
			_, dead, err = f.Quarantine(ctx, store.QuarantineRequest{ID: id, From: rec.Fence, To: store.StateQuarantined, Route: "charge"})
		}
	case "cancelled":
		require.NoError(tb, f.Settle(ctx, owner, store.Settlement{State: store.StateReleased}))
		_, _, err = f.Cancel(ctx, store.CancelRequest{ID: id, Token: store.Token{1}, Keep: time.Hour})
	default:
	}
	require.NoError(tb, err)
}

// site is a console of the fixture's store, which is called orders.
func (f *fixture) site(tb testing.TB) *site {
	tb.Helper()
	return newSite(tb, console.Config{Stores: []console.Store{{Name: "orders", Reader: f.Store.Reader(), Guard: f.guard}}})
}

// requireState checks the state of the fixture's key of that name; 0 means that none is stored.
func (f *fixture) requireState(tb testing.TB, name string, want store.State) {
	tb.Helper()
	rec, err := f.Read(context.Background(), f.ids[name])
	if want == 0 {
		require.ErrorIs(tb, err, store.ErrNotFound)
		return
	}
	require.NoError(tb, err)
	require.Equal(tb, want.String(), rec.State.String())
}
