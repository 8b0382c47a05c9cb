package console_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/saga/memjournal"
	"github.com/fanonce/fanonce/saga/sagatest"
	"github.com/fanonce/fanonce/server/console"
)

type (
	order   struct{ SKU string }
	hold    struct{ ID string }
	nothing struct{}
)

var (
	reserve = contract.Post[order, hold]("inventory", "reserve", "/reservations")
	release = contract.Post[contract.Undo[order, hold], nothing]("inventory", "release", "/reservations/release")
	charge  = contract.Post[order, hold]("payment", "charge", "/charges")
	refund  = contract.Post[contract.Undo[order, hold], nothing]("payment", "refund", "/charges/refund")
	book    = contract.Post[hold, nothing]("shipping", "book", "/parcels")
)

var checkout = saga.MustDefine("checkout", 1, func(b *saga.Builder[order, nothing]) {
	b.UndoBudget(150 * time.Millisecond) // then the saga is stuck
	held := saga.Step(b, reserve, b.Input()).Undo(release)
	paid := saga.Step(b, charge, b.Input()).Undo(refund)
	booked := saga.Step(b, book, saga.Map2(held.Output(), paid.Output(), func(h, _ hold) hold { return h })).
		Retry(saga.RetryPolicy{Attempts: 2, Backoff: retry.Backoff{Base: time.Millisecond, Cap: time.Millisecond}}).Pivot()
	saga.Return(b, booked.Output())
})

// A shop is a journal with its engine and the services that it calls.
type shop struct {
	journal  *memjournal.Journal
	engine   *saga.Engine
	services *sagatest.Services
}

// inBubble plays a test in virtual time: the attempts of a saga wait for seconds.
func inBubble(t *testing.T, play func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, play)
}

// newShop opens a shop with its checkout, and further definitions.
func newShop(tb testing.TB, further ...saga.AnyDefinition) *shop {
	tb.Helper()
	s := &shop{journal: memjournal.New(), services: sagatest.NewServices()}
	client, err := s.services.Client("inventory", "payment", "shipping")
	require.NoError(tb, err)
	s.engine, err = saga.Open(context.Background(), s.journal, saga.Config{Client: client, Definitions: append(further, checkout)})
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, s.engine.Close(context.Background())) })
	return s
}

// run plays one saga to its end, and returns its ID.
func (s *shop) run(tb testing.TB, key string, want error) journal.ID {
	tb.Helper()
	_, err := checkout.Run(context.Background(), s.engine, childkey.MustParse(key), order{SKU: "secret input"})
	require.ErrorIs(tb, err, want)
	return journal.IDOf("", "checkout", childkey.MustParse(key))
}

// stuckUndo plays a saga that is stuck on the undo of its payment.
func (s *shop) stuckUndo(tb testing.TB, key string) journal.ID {
	tb.Helper()
	s.services.Script("shipping.book", sagatest.Always(sagatest.Reject(409)))
	s.services.ScriptUndo("payment.charge", sagatest.Always(sagatest.Unavailable()))
	return s.run(tb, key, saga.ErrStuck)
}

// stuckForward plays a saga whose pivot was refused again and again, so that nobody knows what it did.
func (s *shop) stuckForward(tb testing.TB, key string) journal.ID {
	tb.Helper()
	s.services.Script("shipping.book", sagatest.LoseRequest(), sagatest.Always(sagatest.Unavailable()))
	return s.run(tb, key, saga.ErrStuck)
}

func (s *shop) site(tb testing.TB) *site {
	tb.Helper()
	return newSite(tb, console.Config{Sagas: []console.Sagas{{Name: "shop", Reader: s.journal.Reader(), Operator: s.engine}}})
}

// requireStatus waits for the status of a saga: its engine works beside the test.
func (s *shop) requireStatus(tb testing.TB, id journal.ID, want journal.Status) {
	tb.Helper()
	var rec journal.Record
	for range 600 { // seconds in a bubble
		var err error
		rec, err = s.journal.Read(context.Background(), id)
		require.NoError(tb, err)
		if rec.Status == want {
			return
		}
		time.Sleep(time.Second)
	}
	require.Equal(tb, want, rec.Status)
}

func TestSagas_pages(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		shop := newShop(t)
		done := shop.run(t, "order-1", nil)
		stuck := shop.stuckUndo(t, "order-2")
		s := shop.site(t)
		for _, tt := range []struct {
			at    string
			wants []string
		}{
			{"/", []string{"A saga checkout is stuck", "undo of payment.charge Unknown"}},
			{"/sagas", []string{stuck.String(), "undo of payment.charge", "checkout"}},
			{"/sagas?status=completed", []string{done.String()}},
			{"/sagas?stuckon=payment.charge", []string{stuck.String()}},
			{"/saga?in=shop&id=" + stuck.String(), []string{"stuck", "<svg", "undo of payment.charge", "Force undone", "503"}},
			{"/saga?in=shop&id=" + done.String(), []string{"completed", "<svg", "inventory.reserve", "pivot"}},
			{"/request?id=" + stuck.String(), []string{"shop, checkout", "stuck"}},
		} {
			a := s.get(tt.at)
			require.Equal(t, http.StatusOK, a.Code, "%s: %s", tt.at, a.Body)
			for _, want := range tt.wants {
				require.Contains(t, a.text(), want, tt.at)
			}
			require.NotContains(t, a.Body.String(), "secret input", tt.at)
			require.NotContains(t, a.Body.String(), " style=", tt.at)
		}
		require.NotContains(t, s.get("/sagas?stuckon=inventory.reserve").Body.String(), stuck.String())
		require.NotContains(t, s.get("/sagas?name=other").Body.String(), stuck.String())

		time.Sleep(5 * time.Minute)
		require.Contains(t, s.get("/").text(), "<b>5 min</b> ago")
	})
}

// A step that the saga goes on without is shown as skipped, and no verb is offered for it.
func TestSaga_skippedStep(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		choosy := saga.MustDefine("choosy", 1, func(b *saga.Builder[order, nothing]) {
			held := saga.Step(b, reserve, b.Input()).Undo(release).When(saga.Map(b.Input(), func(order) bool { return false }))
			saga.Return(b, saga.Step(b, book, held.Or(saga.Const(b, hold{}))).Pivot().Output())
		})
		shop := newShop(t, choosy)
		shop.services.Script("shipping.book", sagatest.LoseRequest(), sagatest.Always(sagatest.Unavailable()))
		_, err := choosy.Run(context.Background(), shop.engine, childkey.MustParse("order-1"), order{})
		require.ErrorIs(t, err, saga.ErrStuck)
		page := shop.site(t).get("/saga?in=shop&id=" + journal.IDOf("", "choosy", childkey.MustParse("order-1")).String())
		require.Contains(t, page.text(), "state-skipped")
		require.Equal(t, 1, strings.Count(page.text(), "Force rejected"), "of the step that is stuck")
	})
}

// The items of an Each are steps of their own, with verbs of their own, and the Each itself has none.
func TestSaga_items(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		many := saga.MustDefine("many", 1, func(b *saga.Builder[order, nothing]) {
			lines := saga.Map(b.Input(), func(o order) []order { return []order{o, o} })
			n := 0
			held := saga.Each(b, reserve, lines, func(order) string { n++; return []string{"tea", "milk"}[n%2] }).Undo(release)
			saga.Return(b, saga.Step(b, book, saga.Map(held.Output(), func([]hold) hold { return hold{} })).Pivot().Output())
		})
		shop := newShop(t, many)
		shop.services.Script("shipping.book", sagatest.Reject(409))
		shop.services.ScriptUndo("inventory.reserve[tea]", sagatest.Reject(422))
		_, err := many.Run(context.Background(), shop.engine, childkey.MustParse("order-1"), order{})
		require.ErrorIs(t, err, saga.ErrStuck)
		page := shop.site(t).get("/saga?in=shop&id=" + journal.IDOf("", "many", childkey.MustParse("order-1")).String())
		for _, want := range []string{"inventory.reserve[*]", "inventory.reserve[tea]", "inventory.reserve[milk]", "2 items"} {
			require.Contains(t, page.text(), want)
		}
		require.Equal(t, 1, strings.Count(page.text(), "Force undone"), "of the item that is stuck")
	})
}

// A saga that sleeps says until when, in its row, its picture and its timeline.
func TestSaga_asleep(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		trial := saga.MustDefine("trial", 1, func(b *saga.Builder[order, struct{}]) {
			saga.Step(b, reserve, b.Input()).Undo(release).After(saga.Sleep(b, "trial.ends", saga.Const(b, 48*time.Hour)))
		})
		shop := newShop(t, trial)
		ends := time.Now().Add(48 * time.Hour)
		r, err := trial.Start(context.Background(), shop.engine, childkey.MustParse("order-1"), order{})
		require.NoError(t, err)
		time.Sleep(time.Second)
		page := shop.site(t).get("/saga?in=shop&id=" + r.ID.String()).text()
		require.Contains(t, page, "state-asleep")
		require.Contains(t, page, "sleeps until <time datetime=\""+ends.UTC().Format(time.RFC3339))
		require.Contains(t, page, "sleeps until then")
		require.NotContains(t, page, "next attempt")
	})
}

// verb goes from the page of a saga over the confirmation to the end, as a browser does.
func (s *site) sagaVerb(id journal.ID, verb, step, output string) answer {
	s.tb.Helper()
	form := s.get("/saga?in=shop&id=" + id.String()).form("/confirm")
	form.Set("verb", verb)
	form.Set("step", step)
	confirmation := s.post("/confirm", form)
	require.Equal(s.tb, http.StatusOK, confirmation.Code, confirmation.Body.String())
	form = confirmation.form("/do")
	form.Set("reason", "done by hand, ticket 78")
	form.Set("output", output)
	return s.post("/do", form)
}

func TestVerbs_sagas(t *testing.T) {
	t.Parallel()
	tests := []struct {
		verb, step, output string
		stuck              func(*shop, testing.TB, string) journal.ID
		want               journal.Status
	}{
		{"retry", "", "", (*shop).stuckUndo, journal.Compensated},
		{"force-undone", "payment.charge", "", (*shop).stuckUndo, journal.Compensated},
		{"abandon", "", "", (*shop).stuckUndo, journal.Abandoned},
		{"force-ok", "shipping.book", "{}", (*shop).stuckForward, journal.Completed},
		{"force-rejected", "shipping.book", "", (*shop).stuckForward, journal.Compensated},
		{"abandon", "", "", (*shop).stuckForward, journal.Abandoned},
	}
	for i, tt := range tests {
		t.Run(fmt.Sprintf("%s %d", tt.verb, i), func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T) {
				shop := newShop(t)
				id := tt.stuck(shop, t, "order-1")
				shop.services.ScriptUndo("payment.charge") // it is back
				s := shop.site(t)
				page := s.sagaVerb(id, tt.verb, tt.step, tt.output).follow()
				require.Contains(t, page.text(), "done by hand, ticket 78")
				shop.requireStatus(t, id, tt.want)
				entries, err := shop.engine.Reader().AuditPage(context.Background(), journal.AuditRequest{ID: id, Limit: 10})
				require.NoError(t, err)
				require.Len(t, entries, 1)
				require.Equal(t, "ada", entries[0].Actor)
				require.Equal(t, tt.step, entries[0].Step)
			})
		})
	}
}

// A transfer is a saga whose last step waits for an hour after a failure.
type transfer struct {
	bankIsUp, stockIsFree atomic.Bool
}

func (t *transfer) definition() *saga.Definition[order, nothing] {
	return saga.MustDefine("transfer", 1, func(b *saga.Builder[order, nothing]) {
		b.Timeout(100 * time.Hour)
		held := saga.StepFunc(b, "stock.hold", b.Input(), func(context.Context, saga.Call[order]) (order, error) { return order{}, nil }).
			UndoFunc("stock.free", func(context.Context, saga.UndoCall[order, order]) error {
				t.stockIsFree.Store(true)
				return nil
			})
		sent := saga.StepFunc(b, "bank.transfer", held.Output(), func(context.Context, saga.Call[order]) (nothing, error) {
			if !t.bankIsUp.Load() {
				return nothing{}, errors.New("no connection")
			}
			return nothing{}, nil
		}).UndoFunc("bank.recall", func(context.Context, saga.UndoCall[order, nothing]) error { return nil }).
			Retry(saga.RetryPolicy{Backoff: retry.Backoff{Base: 2 * time.Hour, Cap: 2 * time.Hour}}) // half of it is random
		saga.Return(b, sent.Output())
	})
}

// A running saga is cancelled, or retried at once, long before its backoff is over.
func TestVerbs_runningSaga(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		verb string
		want journal.Status
	}{{"cancel", journal.Compensated}, {"retry-now", journal.Completed}} {
		t.Run(tt.verb, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T) {
				tr := &transfer{}
				definition := tr.definition()
				shop := newShop(t, definition)
				key := childkey.MustParse("order-1")
				var run sync.WaitGroup
				defer run.Wait()
				run.Go(func() { _, _ = definition.Run(context.Background(), shop.engine, key, order{}) })
				time.Sleep(10 * time.Second)
				id := journal.IDOf("", "transfer", key)
				s := shop.site(t)
				require.Contains(t, s.get("/saga?in=shop&id="+id.String()).text(), "next attempt")
				tr.bankIsUp.Store(true)
				begin := time.Now()
				page := s.sagaVerb(id, tt.verb, "", "").follow()
				require.Contains(t, page.text(), "done by hand, ticket 78")
				shop.requireStatus(t, id, tt.want)
				require.Less(t, time.Since(begin), 5*time.Minute)
				require.Equal(t, tt.verb == "cancel", tr.stockIsFree.Load())
				entries, err := shop.engine.Reader().AuditPage(context.Background(), journal.AuditRequest{ID: id, Limit: 10})
				require.NoError(t, err)
				require.Len(t, entries, 1)
				require.Equal(t, tt.verb, string(entries[0].Verb))
			})
		})
	}
}

// A verb that a saga does not allow is refused, with the reason, and a form that is sent twice does nothing more.
func TestVerbs_sagaRefusals(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		shop := newShop(t)
		id := shop.stuckUndo(t, "order-1")
		s := shop.site(t)
		require.Contains(t, s.sagaVerb(id, "force-undone", "nosuch.step", "").text(), "Refused")
		require.Contains(t, s.sagaVerb(id, "retry-now", "", "").text(), "Refused")
		require.Equal(t, http.StatusBadRequest, s.sagaVerb(id, "force-ok", "payment.charge", "{").Code)

		form := s.get("/saga?in=shop&id=" + id.String()).form("/confirm")
		form.Set("verb", "abandon")
		done := s.post("/confirm", form).form("/do")
		done.Set("reason", "first")
		require.Equal(t, http.StatusSeeOther, s.post("/do", done).Code)
		require.Contains(t, s.post("/do", done).text(), "Refused")
		entries, err := shop.engine.Reader().AuditPage(context.Background(), journal.AuditRequest{ID: id, Limit: 10})
		require.NoError(t, err)
		require.Len(t, entries, 1)
	})
}

// A decision is about the saga that the person saw. If it got stuck anew meanwhile, the old form is refused.
func TestVerbs_staleSaga(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		shop := newShop(t)
		id := shop.stuckUndo(t, "order-1")
		s := shop.site(t)
		form := s.get("/saga?in=shop&id=" + id.String()).form("/confirm")
		form.Set("verb", "retry")
		done := s.post("/confirm", form).form("/do")
		done.Set("reason", "first")
		require.Equal(t, http.StatusSeeOther, s.post("/do", done).Code)
		time.Sleep(10 * time.Minute) // the refund fails again
		shop.requireStatus(t, id, journal.Stuck)
		require.Contains(t, s.post("/do", done).text(), "Refused")
		entries, err := shop.engine.Reader().AuditPage(context.Background(), journal.AuditRequest{ID: id, Limit: 10})
		require.NoError(t, err)
		require.Len(t, entries, 1)
	})
}

// A verb on all matches of a filter.
func TestVerbs_allSagas(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		shop := newShop(t)
		ids := []journal.ID{shop.stuckUndo(t, "order-1")}
		for i := range 20 {
			ids = append(ids, shop.stuckUndo(t, fmt.Sprintf("order-%d", i+2)))
		}
		s := shop.site(t)
		form := s.get("/sagas?status=stuck").form("/confirm")
		form.Set("verb", "abandon")
		form.Set("which", "all")
		confirmation := s.post("/confirm", form)
		require.Contains(t, confirmation.text(), "Abandon: 21 sagas")
		done := confirmation.form("/do")
		done.Set("reason", "the shop is closed")
		done.Set("count", done.Get("total"))
		require.Contains(t, s.post("/do", done).text(), `<dd id="done">21</dd>`)
		for _, id := range ids {
			shop.requireStatus(t, id, journal.Abandoned)
		}
	})
}

// Force OK is offered where the operator has the definition, and else the page says why it is not.
func TestSagas_withoutDefinition(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		shop := newShop(t)
		at := "/saga?in=shop&id=" + shop.stuckForward(t, "order-1").String()
		page := shop.site(t).get(at).text()
		require.Contains(t, page, `value="force-ok"`)
		require.NotContains(t, page, "does not have the definition")
		operator, err := saga.NewOperator(shop.journal)
		require.NoError(t, err)
		page = newSite(t, console.Config{
			Sagas: []console.Sagas{{Name: "shop", Reader: shop.journal.Reader(), Operator: operator}},
		}).get(at).text()
		require.NotContains(t, page, `value="force-ok"`)
		require.Contains(t, page, "does not have the definition")
		require.Contains(t, page, `value="force-rejected"`)
	})
}

// A saga is found by its key, and the key stays in the form.
func TestSagas_find(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		shop := newShop(t)
		id := shop.run(t, "order-1", nil)
		s := shop.site(t)
		a := s.post("/find", url.Values{"token": {s.token()}, "definition": {"checkout"}, "key": {"order-1"}}).follow()
		require.Equal(t, prefix+"/saga?id="+id.String()+"&in=shop", a.Header().Get("Location"))
		require.Equal(t, http.StatusOK, a.follow().Code)
	})
}

// Observers get no forms. Nor does anybody for a journal without an operator.
func TestSagas_readOnly(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		shop := newShop(t)
		id := shop.stuckUndo(t, "order-1")
		readOnly := newSite(t, console.Config{Sagas: []console.Sagas{{Name: "shop", Reader: shop.journal.Reader()}}})
		for _, s := range []*site{shop.site(t).as("olaf"), readOnly} {
			for _, at := range []string{"/sagas", "/saga?in=shop&id=" + id.String()} {
				require.NotContains(t, s.get(at).Body.String(), `action="/ops/confirm"`)
			}
		}
		require.Equal(t, http.StatusNotFound, readOnly.post("/do", url.Values{
			"token": {readOnly.token()}, "kind": {"saga"}, "in": {"shop"}, "verb": {"abandon"}, "id": {id.String()}, "reason": {"x"},
		}).Code)
		shop.requireStatus(t, id, journal.Stuck)
	})
}

// A saga that waits for a signal says for which, since when and until when.
func TestSaga_awaits(t *testing.T) {
	t.Parallel()
	for _, timeout := range []time.Duration{0, 48 * time.Hour} {
		inBubble(t, func(t *testing.T) {
			waits := saga.MustDefine("waits", 1, func(b *saga.Builder[order, struct{}]) {
				wait := saga.Await(b, saga.NewSignal[string]("order.approved"))
				if timeout > 0 {
					wait.Timeout(timeout)
				}
				saga.Step(b, reserve, b.Input()).Undo(release).After(wait)
			})
			shop := newShop(t, waits)
			begun := time.Now()
			r, err := waits.Start(context.Background(), shop.engine, childkey.MustParse("order-1"), order{})
			require.NoError(t, err)
			time.Sleep(time.Second)
			page := shop.site(t).get("/saga?in=shop&id=" + r.ID.String()).text()
			require.Contains(t, page, "Waits for <b>order.approved</b> since <time datetime=\""+begun.UTC().Format(time.RFC3339))
			until := ", until <time datetime=\"" + begun.Add(timeout).UTC().Format(time.RFC3339)
			require.Equal(t, timeout > 0, strings.Contains(page, until))
			require.Contains(t, page, "waits for the signal")
			require.NotContains(t, page, "next attempt")
			require.NotContains(t, page, strconv.Itoa(begun.Year()+100), "no time that nobody set")
		})
	}
}
