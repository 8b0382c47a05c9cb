package browsertest_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// patience is how long a page may take. It is long because other tests may have the processors.
const patience = 60 * time.Second

// chromium is the one browser of all tests. Each test has a profile of its own in it.
var chromium struct {
	once sync.Once
	ctx  context.Context
	stop func()
	err  error
}

// child is the main function of this program where [childEnv] is set. nil: it is not for this system.
var child func()

// childEnv names the variable that makes this program a console of a test.
const childEnv = "BROWSERTEST_CONSOLE"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		child()
		return
	}
	code := m.Run()
	if chromium.stop != nil {
		chromium.stop()
	}
	os.Exit(code)
}

// browser starts the browser, or skips the test where there is none.
func browser(t *testing.T) context.Context {
	t.Helper()
	file := os.Getenv("CHROMIUM")
	if file == "" {
		found, err := exec.LookPath("chromium")
		if err != nil {
			t.Skip("no chromium on PATH: apt-get install chromium, or set CHROMIUM to its file")
		}
		file = found
	}
	chromium.once.Do(func() { chromium.err = startBrowser(file) })
	require.NoError(t, chromium.err)
	return chromium.ctx
}

func startBrowser(file string) error {
	profile, err := os.MkdirTemp("", "browsertest-")
	if err != nil {
		return err
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(file), chromedp.UserDataDir(profile), chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true), chromedp.WSURLReadTimeout(patience))
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // Chromium refuses root with its sandbox
	}
	allocator, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancelBrowser := chromedp.NewContext(allocator)
	chromium.ctx = ctx
	chromium.stop = func() {
		_ = chromedp.Cancel(ctx) // waits until the process is gone
		cancelBrowser()
		cancel()
		_ = os.RemoveAll(profile)
	}
	return chromedp.Do(ctx)
}

// A tab is one page in a profile of its own.
type tab struct {
	*testing.T
	ctx    context.Context
	base   string // the address that [tab.visit] begins with
	clicks int

	mu       sync.Mutex
	complain []string // of the browser: violations of the policy, exceptions, dialogs
}

type look struct {
	user   string // "": not signed in
	width  int64  // 0: 1280
	script bool
}

// open opens a tab on a site.
func open(t *testing.T, s *site, l look) *tab {
	t.Helper()
	return openAt(t, s.URL, l)
}

// openAt opens a tab on the server with that address.
func openAt(t *testing.T, base string, l look) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser(t), chromedp.WithNewBrowserContext())
	b := &tab{T: t, ctx: ctx, base: base}
	t.Cleanup(func() {
		_ = chromedp.Cancel(ctx)
		cancel()
	})
	require.NoError(t, chromedp.Listen(ctx, b.hear))
	b.do(chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: watch})
		return err
	}))
	b.setLook(l)
	if l.user != "" {
		_, err := chromedp.Call(ctx, network.SetCookie, network.SetCookieParams{Name: "user", Value: l.user, URL: base})
		require.NoError(t, err)
	}
	return b
}

// watch makes the violations of the policy visible to [tab.violations]. It runs before the scripts of the page.
const watch = `window.violations = [];
document.addEventListener("securitypolicyviolation", e => window.violations.push(e.violatedDirective + " " + e.blockedURI + " " + e.sample));`

func (t *tab) setLook(l look) {
	t.Helper()
	t.scheme("light")
	if l.width == 0 {
		l.width = 1280
	}
	t.do(chromedp.EmulateViewport(l.width, 800))
	_, err := chromedp.Call(t.ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: !l.script})
	require.NoError(t, err)
}

// scheme makes the browser prefer "light" or "dark" pages.
func (t *tab) scheme(scheme string) {
	t.Helper()
	_, err := chromedp.Call(t.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"}},
	})
	require.NoError(t, err)
}

// hear gets the events of the page. It must not call the browser.
func (t *tab) hear(event any) {
	var text string
	switch e := event.(type) {
	case *log.EventEntryAdded:
		if e.Entry.Source == "security" || strings.Contains(e.Entry.Text, "Content Security Policy") {
			text = e.Entry.Text
		}
	case *runtime.EventExceptionThrown:
		text = "exception: " + e.ExceptionDetails.Text
	case *page.EventJavascriptDialogOpening:
		text = "dialog: " + e.Message
	}
	if text != "" {
		t.mu.Lock()
		t.complain = append(t.complain, text)
		t.mu.Unlock()
	}
}

// quiet fails if the browser reported anything that a page must not do.
func (t *tab) quiet() {
	t.Helper()
	t.mu.Lock()
	defer t.mu.Unlock()
	require.Empty(t, t.complain)
}

func (t *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.ctx, patience)
	defer cancel()
	require.NoError(t, chromedp.Do(ctx, steps...))
}

// load runs steps that end in a new page, and returns the status of its answer.
func (t *tab) load(steps ...chromedp.Action[chromedp.Void]) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.ctx, patience)
	defer cancel()
	answer, err := chromedp.RunResponse(ctx, steps...)
	require.NoError(t, err)
	require.NotNil(t, answer)
	return int(answer.Status)
}

// visit opens an address of the site.
func (t *tab) visit(address string) int {
	t.Helper()
	if !strings.HasPrefix(address, "http") {
		address = t.base + address
	}
	return t.load(chromedp.Navigate(address))
}

// pressing clicks the first element of an XPath that a mouse can reach. The search and the click are one step in the
// page. So the live refresh cannot replace the element between the two.
const pressing = `(xpath => {
	const found = document.evaluate(xpath, document, null, XPathResult.ORDERED_NODE_SNAPSHOT_TYPE);
	for (let i = 0; i < found.snapshotLength; i++) {
		const e = found.snapshotItem(i);
		e.scrollIntoView({block: "center", inline: "center"});
		const box = Array.from(e.getClientRects()).find(r => r.width > 0 && r.height > 0);
		if (box && e.contains(document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2))) return e.click();
	}
	throw "absent, hidden or covered";
})(%q)`

// press waits for an element as [pressing] finds it, and clicks it once.
func press(xpath string) chromedp.Action[chromedp.Void] {
	click := chromedp.Evaluate[chromedp.Void](fmt.Sprintf(pressing, xpath))
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		for {
			_, err := click(ctx, t)
			absent := (*chromedp.ExceptionError)(nil)
			if !errors.As(err, &absent) {
				return err
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("%s: %w", xpath, err)
			case <-time.After(20 * time.Millisecond):
			}
		}
	})
}

// click clicks an element, and waits for the page that follows.
func (t *tab) click(xpath string) {
	t.Helper()
	t.clicks++
	require.Equal(t, http.StatusOK, t.load(press(xpath)), "after a click on %s", xpath)
}

// write types text into a field.
func (t *tab) write(xpath, text string) {
	t.Helper()
	t.do(chromedp.SendKeys(xpath, text, chromedp.NodeVisible))
}

// eval returns the value of an expression in the page.
func eval[V any](b *tab, expression string) V {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[V](expression, chromedp.EvalAwaitPromise))
	require.NoError(b, err, "%.200s", expression)
	return value
}

// main is the text of the main part of the page.
func (t *tab) main() string {
	t.Helper()
	return eval[string](t, `document.getElementById("main") ? document.getElementById("main").innerText : document.body.innerText`)
}

// button is the XPath of a button with that text, as it begins.
func button(text string) string {
	return fmt.Sprintf(`//main//button[starts-with(normalize-space(.), %q)]`, text)
}
