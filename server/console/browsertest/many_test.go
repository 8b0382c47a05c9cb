package browsertest_test

import (
	"context"
	"errors"
	"flag"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/console"
	"github.com/fanonce/fanonce/server/store"
)

var matches = flag.Int("browsertest.matches", 300, "keys that one verb changes")

// inFlight is more than the changes of one request that may run at a time.
const inFlight = 16

// A gate is a store that lets some decisions pass. It holds the next ones until it is open.
type gate struct {
	store.Store
	passes chan struct{}
	once   sync.Once
	full   chan struct{} // closed when a decision is held
	open   func()        // lets all decisions pass from now on
}

// newGate lets that many decisions pass. The test opens the gate before its server ends: a server waits for its requests.
func newGate(under store.Store, pass int) *gate {
	g := &gate{Store: under, passes: make(chan struct{}, pass), full: make(chan struct{})}
	g.open = sync.OnceFunc(func() { close(g.passes) })
	for range pass {
		g.passes <- struct{}{}
	}
	return g
}

// Resolve implements [store.Store].
func (g *gate) Resolve(ctx context.Context, req store.ResolveRequest) (store.Record, bool, error) {
	select {
	case <-g.passes:
	default:
		g.once.Do(func() { close(g.full) })
		<-g.passes
	}
	return g.Store.Resolve(ctx, req)
}

// guard decides about the keys behind the gate.
func (g *gate) guard(tb testing.TB) *server.Guard {
	tb.Helper()
	guard, err := server.NewGuard(g, server.Unscoped, server.Config{})
	require.NoError(tb, err)
	return guard
}

// await waits until a channel is closed.
func await(t *testing.T, closed <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-closed:
	case <-time.After(3 * patience):
		require.Fail(t, "waited too long", what)
	}
}

// plantUnknown makes unknown keys with the numbers 1 to n.
func (s *site) plantUnknown(n int, route string) {
	s.tb.Helper()
	numbers := make(chan int, n)
	for i := range n {
		numbers <- i + 1
	}
	close(numbers)
	const workers = 16
	errs := make(chan error, workers)
	for range workers {
		go func() {
			var err error
			for i := range numbers {
				err = errors.Join(err, s.make(number(i), store.StateUnknown, route))
			}
			errs <- err
		}()
	}
	for range workers {
		require.NoError(s.tb, <-errs)
	}
}

// audited returns the lines of the audit log, at most one more than n.
func (s *site) audited(n int) []store.AuditEntry {
	s.tb.Helper()
	lines, err := s.keys.Reader().AuditPage(context.Background(), store.AuditRequest{Limit: n + 1})
	require.NoError(s.tb, err)
	return lines
}

// settleAll confirms a verb for all unknown keys of a route.
func (t *tab) settleAll(route string) {
	t.Helper()
	t.visit(prefix + "/keys?in=orders&state=unknown&route=" + url.QueryEscape(route))
	t.click(`//main//button[@name="which"][@value="all"]`)
	require.Regexp(t, `at least [0-9,]+ keys|[0-9,]+ keys`, t.main(), "the confirmation names the count")
	t.typeCount()
	t.write(`//*[@id="reason"]`, "the bank was down")
}

// sendAway sends a confirmation, and does not wait for the answer.
func (t *tab) sendAway() {
	t.Helper()
	t.do(chromedp.Evaluate[chromedp.Void](`document.querySelector("form[action$='/do'] button.main").click()`))
}

// ended waits until the page says that a verb has ended. It fails if the console refuses the form. It calls stopped on
// the browser's own page for a lost connection. A nil stopped fails then.
func (t *tab) ended(stopped func()) {
	t.Helper()
	for limit := time.Now().Add(10 * patience); ; time.Sleep(50 * time.Millisecond) {
		require.True(t, time.Now().Before(limit), "the verb does not end")
		switch text := t.glance(); {
		case strings.Contains(text, ": ended"):
			return
		case strings.Contains(text, "It is safe to continue"): // the machine was too slow for a change
			t.load(press(button("Continue")))
		case strings.Contains(text, "Nothing was changed"):
			require.Fail(t, "the form is refused", text)
		case strings.HasPrefix(text, "chrome-error:"):
			require.NotNil(t, stopped, "no connection")
			stopped()
		}
	}
}

// glance is the text of a page that may be changing to another one; "" if it is. The browser does not always answer
// then, so a glance is short.
func (t *tab) glance() string {
	ctx, cancel := context.WithTimeout(t.ctx, 3*time.Second)
	defer cancel()
	text, err := chromedp.Run(ctx, chromedp.Evaluate[string](`location.protocol + " " + document.body.innerText`))
	if err != nil {
		return ""
	}
	return text
}

// A verb for many matches ends, and each key is changed once. The person closes the page in the middle, and begins
// again in another tab. The audit log has each key once.
func TestVerbs_ofManyMatches(t *testing.T) {
	t.Parallel()
	browser(t)
	all, be := *matches, inPostgres(t)
	first := all/4/partKeys*partKeys + 8 // the request is at the beginning of a part
	held := newGate(be.keys, first)
	doing := make(chan context.Context, all)
	s := newSiteOn(t, be, func(cfg *console.Config) {
		cfg.Stores[0].Guard = held.guard(t)
		cfg.Authenticate = func(r *http.Request) (console.User, error) {
			if r.URL.Path == prefix+"/do" {
				doing <- r.Context()
			}
			return authenticate(r)
		}
	})
	defer held.open()
	s.plantUnknown(all, "POST /charges")
	spared := s.plant(all+1, 0, store.StateUnknown, "POST /refunds")

	b := open(t, s, look{user: "ada", script: true})
	b.settleAll("POST /charges")
	begin := time.Now()
	b.sendAway()
	await(t, held.full, "the first tab's changes")
	require.NoError(t, chromedp.Cancel(b.ctx)) // the tab is gone, in the middle of a request
	var request context.Context
	for len(doing) > 0 {
		request = <-doing // the last one
	}
	await(t, request.Done(), "the console hears of it")
	held.open()

	b = open(t, s, look{user: "ada", script: true})
	b.settleAll("POST /charges")
	b.click(send)
	b.ended(nil)
	t.Logf("%d keys in %v, in %d requests of the second tab", all, time.Since(begin).Round(time.Millisecond), len(doing))
	require.Equal(t, store.StateUnknown, s.state(spared))
	batches := s.requireAudited(all)
	require.Len(t, batches, 2)
	require.LessOrEqual(t, slices.Min(batches), first+inFlight, "without its page the console begins nothing more")
}

// requireAudited checks that the audit log has each of n keys once, and a batch in each reason. It returns how many
// lines each batch has.
func (s *site) requireAudited(n int) []int {
	s.tb.Helper()
	batch := regexp.MustCompile(`^\[batch ([0-9a-f]{8})\] the bank was down$`)
	keys, byBatch := map[store.ID]bool{}, map[string]int{}
	for _, e := range s.audited(n) {
		keys[e.ID] = true
		found := batch.FindStringSubmatch(e.Reason)
		require.NotNil(s.tb, found, e.Reason)
		require.Equal(s.tb, "ada", e.Actor)
		byBatch[found[1]]++
	}
	require.Len(s.tb, keys, n, "each key")
	var counts []int
	total := 0
	for _, count := range byBatch {
		counts = append(counts, count)
		total += count
	}
	require.Equal(s.tb, n, total, "each key once")
	return counts
}

// How the console works on a job. It looks at the time after each part of the keys.
const (
	partTime = 3100 * time.Millisecond // and a little more
	partKeys = 64
)

// begun opens a tab that has confirmed a verb for 100 keys. A gate holds the changes of the first request, whose time
// is up: it ends after the first part.
func begun(t *testing.T, script bool) (*tab, *gate) {
	t.Helper()
	be := inPostgres(t)
	held := newGate(be.keys, 0)
	s := newSiteOn(t, be, func(cfg *console.Config) { cfg.Stores[0].Guard = held.guard(t) })
	t.Cleanup(held.open)
	s.plantUnknown(100, "POST /charges")
	b := open(t, s, look{user: "ada", script: script})
	b.settleAll("POST /charges")
	b.sendAway()
	await(t, held.full, "the changes of the first request")
	time.Sleep(partTime) // the request began before, so its time is up
	return b, held
}

// atWork is a tab that shows a verb in the middle: 64 of 100 keys are done. A person must go on.
func atWork(t *testing.T) *tab {
	t.Helper()
	b, held := begun(t, false)
	held.open()
	require.Eventually(t, func() bool { return strings.Contains(b.glance(), ": at work") }, 3*patience, 20*time.Millisecond)
	return b
}

// A long verb shows how far it is. Without JavaScript a button goes on.
func TestVerbs_showProgress(t *testing.T) {
	t.Parallel()
	browser(t)
	b := atWork(t)
	require.Equal(t, "64 of 100, 36 left", eval[string](b, `(() => { const p = document.querySelector("progress"); return p.value + " of " + p.max + ", " + document.getElementById("left").innerText + " left" })()`))
	b.click(button("Continue"))
	require.Regexp(t, `ended\s+done\s+100\s+refused\s+0`, b.main(), "the result counts all parts")
	b.quiet()
}

// A long verb goes on by itself.
func TestVerbs_goOn(t *testing.T) {
	t.Parallel()
	browser(t)
	b, held := begun(t, true)
	held.open()
	b.ended(nil)
	require.Regexp(t, `ended\s+done\s+100\s+refused\s+0`, b.main(), "the result counts all parts")
	b.quiet()
}
