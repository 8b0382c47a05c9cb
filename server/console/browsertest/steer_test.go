package browsertest_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server/store"
)

// send is the button of a confirmation.
const send = `//main//form[contains(@action, "/do")]//button[contains(@class, "main")]`

// typeCount types the number of targets, where a confirmation asks for it.
func (t *tab) typeCount() {
	t.Helper()
	if total := eval[string](t, `document.querySelector("#count") ? document.querySelector("form[action$='/do'] [name=total]").value : ""`); total != "" {
		t.write(`//*[@id="count"]`, total)
	}
}

// confirmed gives the reason on a confirmation, and sends it.
func (t *tab) confirmed(reason string) {
	t.Helper()
	t.typeCount()
	t.write(`//*[@id="reason"]`, reason)
	t.clicks++
	require.Equal(t, http.StatusOK, t.load(press(send)))
}

// Each verb that the page of a key offers does what it says, and is audited. It works without JavaScript.
func TestVerbs_ofAKey(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	for i, tt := range []struct {
		verb string
		want store.State // 0: gone
	}{
		{"Run again", store.StateReleased}, {"It never happened", store.StateReleased}, {"Abandon", store.StateCancelled},
		{"It happened", store.StateCompleted}, {"Forget", 0},
	} {
		t.Run(tt.verb, func(t *testing.T) {
			b := open(t, s, look{user: "ada", width: 375})
			id := s.plant(i+1, 0, store.StateUnknown, "POST /charges")
			b.visit(prefix + "/key?in=orders&id=" + id.String())
			b.click(button(tt.verb))
			require.Contains(t, b.main(), "1 key", "the confirmation names the count")
			require.Equal(t, store.StateUnknown, s.state(id), "nothing happens before the confirmation")
			if tt.want == store.StateCompleted {
				b.do(chromedp.SetValue(`//*[@id="status"]`, "201"))
			}
			b.confirmed("asked the bank about " + tt.verb)
			require.Equal(t, tt.want, s.state(id))
			log, err := s.keys.Reader().AuditPage(context.Background(), store.AuditRequest{ID: id, Limit: 10})
			require.NoError(t, err)
			require.Len(t, log, 1)
			require.Equal(t, "ada: asked the bank about "+tt.verb, log[0].Actor+": "+log[0].Reason)
			b.quiet()
		})
	}
}

func TestVerbs_ofADeadLetter(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	id := s.letter(1, "inbox orders")
	b := open(t, s, look{user: "ada", script: true})
	b.visit(prefix + "/letters")
	b.do(press(`//main//tbody//input[@name="id"]`))
	b.click(`//main//button[@name="which"][@value="selected"]`)
	b.confirmed("the parser is mended")
	require.Zero(t, s.state(id))
}

// The selected rows are changed, and no other row is.
func TestVerbs_ofSelectedRows(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	for n := 1; n <= 4; n++ {
		s.plant(n, 0, store.StateUnknown, "POST /charges")
	}
	b := open(t, s, look{user: "ada"})
	b.visit(prefix + "/keys?in=orders&state=unknown")
	for _, n := range []int{2, 3} {
		b.do(press(fmt.Sprintf(`//main//tbody//input[@name="id"][@value=%q]`, number(n).String())))
	}
	b.click(`//main//button[@name="which"][@value="selected"]`)
	require.Contains(t, b.main(), "2 keys")
	b.confirmed("both")
	var states []store.State
	for n := 1; n <= 4; n++ {
		states = append(states, s.state(number(n)))
	}
	require.Equal(t, []store.State{store.StateUnknown, store.StateReleased, store.StateReleased, store.StateUnknown}, states)
}

// A confirmation without a reason changes nothing, also if the browser's own check is off.
func TestVerbs_needAReason(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	id := s.plant(1, 0, store.StateUnknown, "POST /charges")
	b := open(t, s, look{user: "ada", script: true})
	b.visit(prefix + "/key?in=orders&id=" + id.String())
	b.click(button("Abandon"))
	b.do(chromedp.Evaluate[chromedp.Void](`document.querySelector("form[action$='/do']").noValidate = true`))
	b.load(press(send))
	require.Contains(t, b.main(), "A reason is required")
	require.Equal(t, store.StateUnknown, s.state(id))
}

// A page of another site on the same host sends its forms with the user's cookie. They change nothing.
func TestForms_ofAnotherSite(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	id := s.plant(1, 0, store.StateUnknown, "POST /charges")
	b := open(t, s, look{user: "ada", script: true})
	b.visit(prefix + "/key?in=orders&id=" + id.String())
	b.click(button("Abandon"))
	form := eval[string](b, `(() => { const f = document.querySelector("form[action$='/do']"); f.querySelector("#reason").setAttribute("value", "evil"); f.action = f.action; return f.outerHTML.replace(/action="[^"]*"/, 'action="' + f.action + '"') })()`)
	require.Contains(t, form, s.URL)
	evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte("<!doctype html><title>evil</title>" + form))
	}))
	defer evil.Close()
	b.visit(evil.URL)
	status := b.load(chromedp.Evaluate[chromedp.Void](`document.forms[0].submit()`))
	require.Equal(t, http.StatusForbidden, status, "even with a stolen token")
	require.Equal(t, store.StateUnknown, s.state(id))
	// It is not shown in a frame either.
	b.visit(evil.URL)
	b.do(chromedp.Evaluate[chromedp.Void](`new Promise(done => { const f = document.createElement("iframe"); f.onload = done; f.src = "`+s.URL+prefix+`/"; document.body.append(f) })`, chromedp.EvalAwaitPromise))
	require.False(t, eval[bool](b, `(() => { try { return !!frames[0].document.getElementById("main") } catch { return false } })()`))
	b.mu.Lock()
	defer b.mu.Unlock()
	require.NotEmpty(t, b.complain, "the browser reports the frame")
}

// A form with a missing token, a changed one, or that of another user changes nothing.
func TestForms_withABadToken(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	id := s.plant(1, 0, store.StateUnknown, "POST /charges")
	other := open(t, s, look{user: "olaf", script: true})
	other.visit(prefix + "/help")
	foreign := eval[string](other, `document.querySelector("input[name=token]").value`)
	b := open(t, s, look{user: "ada", script: true})
	for _, change := range []string{`t.remove()`, `t.value = ""`, `t.value = t.value.slice(0, 20) + (t.value[20] === "A" ? "B" : "A") + t.value.slice(21)`, fmt.Sprintf(`t.value = %q`, foreign)} {
		b.visit(prefix + "/key?in=orders&id=" + id.String())
		b.click(button("Abandon"))
		b.write(`//*[@id="reason"]`, "mine")
		b.do(chromedp.Evaluate[chromedp.Void](`{ const t = document.querySelector("form[action$='/do'] input[name=token]"); ` + change + ` }`))
		require.Equal(t, http.StatusForbidden, b.load(press(send)), change)
		require.Equal(t, store.StateUnknown, s.state(id), change)
	}
}

// The role of the user decides on the server: an observer's form is refused.
func TestObserver_changesNothing(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	id := s.plant(1, 0, store.StateUnknown, "POST /charges")
	b := open(t, s, look{user: "olaf", script: true})
	b.visit(prefix + "/key?in=orders&id=" + id.String())
	require.Equal(t, http.StatusForbidden, b.load(chromedp.Evaluate[chromedp.Void](`{ const f = document.querySelector("form.find"); f.action = f.action.replace("/find", "/do");
		for (const [n, v] of [["kind", "key"], ["in", "orders"], ["which", "one"], ["verb", "abandon"], ["reason", "mine"]]) { const i = document.createElement("input"); i.name = n; i.value = v; f.append(i) }
		f.querySelector("[name=id]").value = "`+id.String()+`"; f.submit() }`)))
	require.Equal(t, store.StateUnknown, s.state(id))
}
