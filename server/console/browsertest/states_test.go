package browsertest_test

import (
	"context"

	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/server/store"
)

// everyKey makes a key in each state that a page shows in its own way, and returns the IDs by name.
func (s *site) everyKey() map[string]store.ID {
	s.tb.Helper()
	ctx := context.Background()
	ids := map[string]store.ID{
		"in progress": s.plant(101, 0, store.StateInProgress, "POST /orders"), "released": s.plant(102, 101, store.StateReleased, "POST /mails"),
		"unknown": s.plant(103, 0, store.StateUnknown, "POST /charges"), "quarantined": s.plant(104, 0, store.StateQuarantined, "POST /refunds"),
		"dead letter": s.letter(105, "inbox orders"), "cancelled": s.plant(106, 0, store.StateReleased, ""),
		"with a stored body": number(107), "with a dead owner": number(108), "absent": number(109),
	}
	_, _, err := s.keys.Cancel(ctx, store.CancelRequest{ID: ids["cancelled"], Token: store.Token{1}, Keep: time.Hour})
	require.NoError(s.tb, err)
	require.NoError(s.tb, s.make(number(107), store.StateInProgress, "POST /orders"))
	require.NoError(s.tb, s.keys.Settle(ctx, store.Owner{ID: number(107), Token: store.Token(number(107)), Fence: 1}, store.Settlement{
		State: store.StateCompleted, Answer: store.Answer{Status: 201, Envelope: []byte("the body")}, ReplayFor: time.Hour,
	}))
	_, _, err = s.keys.Claim(ctx, store.ClaimRequest{
		ID: number(108), Token: store.Token(number(108)), Fingerprint: store.Fingerprint{Version: 1, Sum: [32]byte{1}}, Effect: store.Opaque,
		Lease: time.Microsecond, Keep: time.Hour, Window: time.Hour, Route: "POST /orders",
	})
	require.NoError(s.tb, err)
	return ids
}

// everySaga makes a saga in each status, and returns the IDs by name.
func (s *site) everySaga() map[string]journal.ID {
	s.tb.Helper()
	ctx := context.Background()
	ids := map[string]journal.ID{
		"running": s.run("s-1", "", waiting, journal.Running), "compensating": s.run("s-2", "", undoWaiting, journal.Compensating),
		"completed": s.run("s-3", "", well, journal.Completed), "stuck": s.run("s-4", "tenant-1", refused, journal.Stuck),
		"stuck in an undo": s.run("s-5", "", undoRefused, journal.Stuck), "stuck at the pivot": s.run("s-6", "", pivotUnknown, journal.Stuck),
		"compensated": s.run("s-7", "", undoRefused, journal.Stuck), "abandoned": s.run("s-8", "", refused, journal.Stuck), "absent": {1},
	}
	by := journal.Audit{Actor: "ada", Reason: "asked the depot"}
	_, err := s.engine.ForceUndone(ctx, ids["compensated"], "stock.reserve", by)
	require.NoError(s.tb, err)
	s.until(ids["compensated"], journal.Compensated)
	_, err = s.engine.Abandon(ctx, ids["abandoned"], by)
	require.NoError(s.tb, err)
	return ids
}

// axe-core sees a key in each state, and a saga in each status.
func TestPages_accessibleInEachState(t *testing.T) {
	t.Parallel()
	browser(t)
	axe := axeCore(t)
	s := newSite(t, nil)
	keys, sagas := s.everyKey(), s.everySaga()
	b := open(t, s, look{user: "ada", script: true})
	for name, id := range keys {
		require.Equal(t, statusOf(name), b.visit(prefix+"/key?in=orders&id="+id.String()), name)
		b.accessible(axe, "a key "+name)
	}
	for name, id := range sagas {
		require.Equal(t, statusOf(name), b.visit(prefix+"/saga?in=checkouts&id="+id.String()), name)
		b.accessible(axe, "a saga that is "+name)
	}
	for _, at := range []string{
		"/keys?in=orders&state=any", "/sagas?in=checkouts&status=any", "/request?in=orders&id=" + keys["in progress"].String(),
		"/request?id=" + sagas["stuck"].String(), "/id/" + keys["released"].String(),
	} {
		require.Equal(t, http.StatusOK, b.visit(prefix+at), at)
		b.accessible(axe, at)
	}
	b.quiet()
}

func statusOf(name string) int {
	if name == "absent" {
		return http.StatusNotFound
	}
	return http.StatusOK
}

// axe-core sees the pages of a verb from the confirmation to the result.
func TestPages_accessibleVerbs(t *testing.T) {
	t.Parallel()
	browser(t)
	axe := axeCore(t)
	s := newSite(t, nil)
	keys, sagas := s.everyKey(), s.everySaga()
	b := open(t, s, look{user: "ada", script: true})
	b.visit(prefix + "/key?in=orders&id=" + keys["unknown"].String())
	b.click(button("It happened"))
	b.accessible(axe, "a confirmation with an answer")
	b.do(chromedp.Evaluate[chromedp.Void](`document.querySelector("form[action$='/do']").noValidate = true`))
	require.Equal(t, http.StatusBadRequest, b.load(press(send)))
	b.accessible(axe, "a confirmation without a reason")

	b.visit(prefix + "/saga?in=checkouts&id=" + sagas["stuck"].String())
	b.click(button("Force OK"))
	b.accessible(axe, "a confirmation with an output")
	b.visit(prefix + "/saga?in=checkouts&id=" + sagas["stuck"].String())
	b.click(button("Cancel"))
	b.confirmed("too late")
	require.Contains(t, b.main(), "Refused")
	b.accessible(axe, "a result with a refusal")

	b.visit(prefix + "/keys?in=orders&state=attention")
	b.click(`//main//button[@name="which"][@value="all"]`)
	b.accessible(axe, "a confirmation for all")
	b.confirmed("looked at them")
	b.accessible(axe, "the result of a batch")
	b.quiet()
}

// axe-core sees the progress of a verb, while the console works on it.
func TestPages_accessibleProgress(t *testing.T) {
	t.Parallel()
	browser(t)
	axe := axeCore(t)
	b := atWork(t)
	b.setLook(look{script: true}) // axe-core is a script
	b.accessible(axe, "the progress of a batch")
	require.Contains(t, b.main(), ": at work")
}

// axe-core sees the pages without data, and those of errors.
func TestPages_accessibleWithoutData(t *testing.T) {
	t.Parallel()
	browser(t)
	axe := axeCore(t)
	s := newSite(t, nil)
	b := open(t, s, look{user: "ada", script: true})
	for at, status := range map[string]int{
		"/": 200, "/keys": 200, "/keys?state=any": 200, "/sagas": 200, "/letters": 200, "/audit": 200,
		"/nothing-here": 404, "/id/" + number(1).String(): 404, "/request?id=" + number(1).String(): 404, "/keys?state=purple": 400,
	} {
		require.Equal(t, status, b.visit(prefix+at), at)
		b.accessible(axe, at)
	}
	id := s.plant(1, 0, store.StateUnknown, "POST /charges")
	b.visit(prefix + "/key?in=orders&id=" + id.String())
	b.do(chromedp.Evaluate[chromedp.Void](`document.querySelector("form[action$='/confirm'] [name=token]").value = "old"`))
	require.Equal(t, http.StatusForbidden, b.load(press(button("Abandon"))))
	b.accessible(axe, "a form that is too old")

	// Here the readers fail, and there are banners.
	b = open(t, evilSite(t), look{user: "olaf", script: true})
	failing := "&in=failing" + url.QueryEscape(evil("store.name"))
	for _, at := range []string{"/", "/keys?state=any" + failing, "/key?id=" + number(9).String() + failing, "/request?id=" + number(9).String()} {
		b.visit(prefix + at)
		b.accessible(axe, at)
	}
}
