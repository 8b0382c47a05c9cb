package browsertest_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// pages are the pages that a crawl must find.
var pages = []string{"/", "/keys", "/key", "/request", "/sagas", "/saga", "/letters", "/audit", "/help"}

func TestPages(t *testing.T) {
	t.Parallel()
	s := full(t)
	for _, l := range []look{{user: "ada", script: true}, {user: "ada", width: 375}, {user: "olaf", script: true}} {
		t.Run(fmt.Sprintf("%s,width=%d,script=%v", l.user, l.width, l.script), func(t *testing.T) {
			t.Parallel()
			b := open(t, s, l)
			paths := b.crawl(3, func(address string) {
				require.NotEmpty(b, b.main(), address)
				require.Empty(b, eval[string](b, widest), "%s is wider than its window", address)
				if l.width == 375 {
					require.Less(b, eval[float64](b, `document.querySelector("header.top").getBoundingClientRect().height`), 80.0, "%s: the header has two lines", address)
				}
				if l.script {
					require.Empty(b, eval[[]string](b, "window.violations"), address)
					b.do(chromedp.EmulateViewport(375, 800))
					require.Empty(b, eval[string](b, widest), "%s is wider than a narrow window", address)
					b.do(chromedp.EmulateViewport(1280, 800))
				}
				if l.user == "olaf" {
					require.False(b, eval[bool](b, `!!document.querySelector("form[action$='/confirm'], form[action$='/do']")`), "%s shows a verb to an observer", address)
				}
			})
			require.Subset(b, paths, pages)
			b.quiet()
		})
	}
}

// widest names the elements that make a page wider than its window. Places that scroll by themselves are not among them.
const widest = `(() => {
	const page = document.documentElement;
	if (page.scrollWidth <= page.clientWidth) return "";
	return page.scrollWidth + " of " + page.clientWidth + ": " + Array.from(document.querySelectorAll("body *"))
		.filter(e => e.getBoundingClientRect().right > page.clientWidth + 1).slice(0, 5).map(e => e.outerHTML.slice(0, 120)).join("\n");
})()`

func TestPages_accessible(t *testing.T) {
	t.Parallel()
	browser(t)
	axe := axeCore(t)
	s := full(t)
	b := open(t, s, look{user: "ada", script: true})
	require.Subset(t, b.crawl(1, func(address string) { b.accessible(axe, address) }), pages)
}

// A finding is a rule of axe-core that a page breaks.
type finding struct {
	ID, Impact, Help string
	Nodes            []struct {
		HTML           string
		FailureSummary string
	}
}

// accessible fails if axe-core finds a serious or critical violation on the page: in light, and in dark on a narrow
// screen. So each color scheme and each width is seen, at half the cost of all pairs.
func (t *tab) accessible(axe, address string) {
	t.Helper()
	t.do(chromedp.Evaluate[chromedp.Void](axe))
	for _, seen := range []struct {
		scheme string
		width  int64
	}{{"light", 1280}, {"dark", 375}} {
		t.scheme(seen.scheme)
		t.do(chromedp.EmulateViewport(seen.width, 800))
		for _, f := range t.findings() {
			if f.Impact == "serious" || f.Impact == "critical" {
				require.Fail(t, "axe-core: "+f.ID, "%s, %s, width %d: %s\n%+v", address, seen.scheme, seen.width, f.Help, f.Nodes)
			}
		}
		require.Empty(t, eval[string](t, widest), "%s is wider than %d", address, seen.width)
	}
	t.do(chromedp.EmulateViewport(1280, 800))
}

func (t *tab) findings() (found []finding) {
	t.Helper()
	text := eval[string](t, `axe.run(document, {resultTypes: ["violations"]}).then(r => JSON.stringify(r.violations.map(v => ({
		ID: v.id, Impact: v.impact, Help: v.help, Nodes: v.nodes.slice(0, 3).map(n => ({HTML: n.html, FailureSummary: n.failureSummary}))}))))`)
	require.NoError(t, json.Unmarshal([]byte(text), &found))
	return found
}

// The tests of accessibility see what they look for.
func TestPages_accessibleSeesViolations(t *testing.T) {
	t.Parallel()
	browser(t)
	axe := axeCore(t)
	b := open(t, newSite(t, nil), look{user: "ada", script: true})
	b.visit(prefix + "/")
	b.do(chromedp.Evaluate[chromedp.Void](axe))
	b.do(chromedp.Evaluate[chromedp.Void](`document.getElementById("main").appendChild(document.createElement("img")); document.documentElement.lang = ""`))
	found := eval[[]string](b, `axe.run(document).then(r => r.violations.map(v => v.id))`)
	require.Subset(t, found, []string{"image-alt", "html-has-lang"})
}

func TestPolicy(t *testing.T) {
	t.Parallel()
	s := full(t)
	for _, path := range []string{"/", "/keys", "/nothing-here", "/asset/console.css"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+prefix+path, nil)
		require.NoError(t, err)
		req.AddCookie(&http.Cookie{Name: "user", Value: "ada"})
		answer, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		policy := answer.Header.Get("Content-Security-Policy")
		require.Contains(t, policy, "default-src 'none'", path)
		for _, loose := range []string{"unsafe-inline", "unsafe-eval", "data:", "*", "http"} {
			require.False(t, strings.Contains(policy, loose), "%s: %s", path, policy)
		}
	}
	// The browser keeps the policy: it runs no inline code, and the test hears of it.
	b := open(t, s, look{user: "ada", script: true})
	b.visit(prefix + "/")
	b.do(chromedp.Evaluate[chromedp.Void](`{ const s = document.createElement("script"); s.textContent = "window.hacked = 1"; document.body.append(s) }`))
	require.False(t, eval[bool](b, "!!window.hacked"))
	require.Len(t, eval[[]string](b, "window.violations"), 1)
}

func TestUnauthenticated(t *testing.T) {
	t.Parallel()
	s := full(t)
	b := open(t, s, look{script: true})
	for _, path := range []string{"/", "/keys", "/key?in=orders&id=" + number(1).String(), "/audit", "/help", "/asset/console.js", "/nothing-here"} {
		require.Equal(t, http.StatusUnauthorized, b.visit(prefix+path), path)
		require.Equal(t, "You are not signed in.", strings.TrimSpace(b.main()), path)
	}
}
