package browsertest_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/server/store"
)

// Each verb for a saga does what it says, and is audited. It works without JavaScript.
func TestVerbs_ofASaga(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	for i, tt := range []struct {
		verb, input string
		from, to    journal.Status
	}{
		{"Retry", refused, journal.Stuck, journal.Stuck}, // it is refused again
		{"Retry now", waiting, journal.Running, journal.Running},
		{"Cancel", refused, journal.Stuck, journal.Stuck}, // it is past its pivot
		{"Abandon", refused, journal.Stuck, journal.Abandoned},
		{"Force OK", refused, journal.Stuck, journal.Completed},
		{"Force undone", undoRefused, journal.Stuck, journal.Compensated},
		{"Force rejected", pivotUnknown, journal.Stuck, journal.Compensated},
	} {
		t.Run(tt.verb, func(t *testing.T) {
			b := open(t, s, look{user: "ada"})
			id := s.run(fmt.Sprint("order-", i), "", tt.input, tt.from)
			if tt.input == waiting {
				s.untilItWaits(id)
			}
			b.visit(prefix + "/saga?in=checkouts&id=" + id.String())
			b.click(button(tt.verb + " …"))
			require.Contains(t, b.main(), "1 saga", "the confirmation names the count")
			if tt.verb == "Force OK" {
				b.write(`//*[@id="output"]`, "{}")
			}
			b.confirmed("asked about " + tt.verb)
			s.until(id, tt.to)
			log, err := s.engine.Reader().AuditPage(context.Background(), journal.AuditRequest{ID: id, Limit: 10})
			require.NoError(t, err)
			if tt.verb == "Cancel" {
				require.Empty(t, log)
				require.Contains(t, b.main(), "Refused")
				return
			}
			require.Len(t, log, 1)
			require.Equal(t, "ada: asked about "+tt.verb, log[0].Actor+": "+log[0].Reason)
			b.quiet()
		})
	}
}

// A person who is woken finds the stuck saga and the unknown key from the overview, and settles both.
func TestNight(t *testing.T) {
	t.Parallel()
	s := newSiteOn(t, inMemory(), nil)
	for n := 1; n <= 20; n++ {
		s.plant(n, 0, store.StateCompleted, "POST /orders")
	}
	key := s.plant(21, 0, store.StateUnknown, "POST /charges")
	for n := range 5 {
		s.run(fmt.Sprint("order-", n), "", well, journal.Completed)
	}
	stuck := s.run("order-9", "", refused, journal.Stuck)

	b := open(t, s, look{user: "ada", script: true})
	b.visit(prefix + "/")
	b.click(`//*[@data-kind="stuck"]//a[contains(@href, "/saga?")]`)
	require.Contains(t, b.main(), stuck.String())
	require.Contains(t, b.main(), "no parcel", "the page says why")
	b.click(button("Force OK"))
	b.write(`//*[@id="output"]`, "{}")
	b.confirmed("the parcel was booked by phone")
	s.until(stuck, journal.Completed)

	b.click(`//nav//a[@data-go="o"]`)
	b.click(`//*[@data-kind="unknown"]//a[contains(@href, "/key?")]`)
	require.Contains(t, b.main(), key.String())
	b.click(button("It happened"))
	b.do(chromedp.SetValue(`//*[@id="status"]`, "201"))
	b.confirmed("the bank has the charge")
	require.Equal(t, store.StateCompleted, s.state(key))
	require.Less(t, b.clicks, 8, "clicks")

	b.visit(prefix + "/")
	require.Equal(t, 0, eval[int](b, `document.querySelectorAll("[data-kind]").length`), "nothing needs a person any more")
	b.quiet()
}
