package sagatest

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/sdk"
)

func skuOf(o order) string { return o.SKU }

func idOf(m made) string { return m.ID }

func twoLines(o order) []order { return []order{o, {"b-2"}} }

// filled is a saga that pays, holds each line that lines says, sends one parcel, and tells of each hold.
func filled(lines func(order) []order) *saga.Definition[order, []made] {
	return saga.MustDefine("filled", 1, func(b *saga.Builder[order, []made]) {
		paid := saga.Step(b, charge, b.Input()).Undo(refund)
		held := saga.Each(b, reserve, saga.Map2(b.Input(), paid.Output(), func(o order, _ made) []order { return lines(o) }), skuOf).Undo(unhold)
		sent := saga.Step(b, book, saga.Map(held.Output(), func(held []made) booking { return booking{Hold: held[0].ID} })).Pivot()
		saga.Each(b, notify, held.Output(), idOf).Retriable().After(sent)
		saga.Return(b, held.Output())
	})
}

func holds(edit ...func(*explorer)) []Option {
	options := []Option{Answer("inventory.reserve[*]", made{"h-1"}), Answer("inventory.reserve[b-2]", made{"h-2"})}
	for _, e := range edit {
		options = append(options, e)
	}
	return options
}

func TestExplore_each(t *testing.T) {
	t.Parallel()
	e := newExplorer(filled(twoLines), order{"a-1"}, holds(sampled, func(e *explorer) { e.every = max(e.every, 3) * 3 }))
	e.test(t)
	var names []string
	for _, s := range e.steps {
		names = append(names, s.Name)
	}
	require.Equal(t, []string{
		"payment.charge", "inventory.reserve[*]", "inventory.reserve[a-1]", "inventory.reserve[b-2]",
		"shipping.book", "mail.receipt[*]", "mail.receipt[h-1]", "mail.receipt[h-2]",
	}, names)
}

// A list without items has no calls, and a list that is refused leaves nothing behind.
func TestExplore_eachWithoutCalls(t *testing.T) {
	t.Parallel()
	for name, lines := range map[string]func(order) []order{
		"no items":    func(order) []order { return nil },
		"equal names": func(o order) []order { return []order{o, o} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			Explore(t, saga.MustDefine("few", 1, func(b *saga.Builder[order, nothing]) {
				paid := saga.Step(b, charge, b.Input()).Undo(refund)
				held := saga.Each(b, reserve, saga.Map2(b.Input(), paid.Output(), func(o order, _ made) []order { return lines(o) }), skuOf).Undo(unhold)
				saga.Step(b, book, saga.Map(held.Output(), func([]made) booking { return booking{} })).Undo(unbook)
			}), order{"a-1"}, sampled)
		})
	}
}

// inAnotherBuild makes the defect that the second process of a run computes another list.
func inAnotherBuild(lines func(order) []order) func(e *explorer) {
	return func(e *explorer) {
		processes := 0
		e.build = func(*sdk.Client) (saga.AnyDefinition, runFunc) {
			of := twoLines
			if processes++; processes%2 == 0 {
				of = lines
			}
			d := filled(of)
			return d, runOf(d, order{"a-1"})
		}
	}
}

func isNames(e *journal.Entry) bool { return e.Step == "inventory.reserve[*]" }

const besideRefused = "inventory.reserve[a-1] takes long, and inventory.reserve[b-2] is refused beside it"

// eachDefects are mistakes about items.
var eachDefects = []planted{
	{"calls an item before its name is written", "all goes well", writes(func(_ journal.Record, w *journal.Write) {
		drop(w, func(e journal.Entry) bool { return isNames(&e) })
	})},
	{"computes its items in another order in another process", "all goes well", inAnotherBuild(func(o order) []order { return []order{{"b-2"}, o} })},
	{"computes other items in another process", "all goes well", inAnotherBuild(func(o order) []order { return []order{o, {"c-3"}} })},
	{"computes fewer items in another process", "all goes well", inAnotherBuild(func(o order) []order { return []order{o} })},
	{"forgets the items once it has taken over", "all goes well", claims(func(_ *journal.Record, e *journal.Entry) {
		if isNames(e) {
			e.Result = []byte(`[]`)
		}
	})},
	{"believes that its list is in another order once it has taken over", "all goes well", claims(func(_ *journal.Record, e *journal.Entry) {
		if isNames(e) {
			e.Result = []byte(`["b-2","a-1"]`)
		}
	})},
	{"goes on behind the first item", "all goes well", writes(func(_ journal.Record, w *journal.Write) {
		for _, e := range w.Entries {
			if e.Step == "mail.receipt[h-1]" && e.Outcome == retry.Completed {
				w.Status, w.Keep = journal.Completed, 1
			}
		}
	})},
	{"undoes only one item", "shipping.book is refused", writes(func(_ journal.Record, w *journal.Write) {
		for i, e := range w.Entries {
			if e.Step == "inventory.reserve[b-2]" && !e.Undo && e.Outcome == retry.Completed {
				w.Entries[i].Outcome, w.Entries[i].Result = retry.Rejected, nil
			}
		}
	})},
	{"does not find out about the items beside one that was refused", besideRefused, writes(func(_ journal.Record, w *journal.Write) {
		if w.Status == journal.Compensating {
			drop(w, func(e journal.Entry) bool { return e.Pending })
		}
	})},
	{"takes the refusal of one item for that of all", besideRefused, writes(func(_ journal.Record, w *journal.Write) {
		for i, e := range w.Entries {
			if w.Status == journal.Compensating && e.Pending {
				w.Entries[i].Pending, w.Entries[i].Outcome = false, retry.Rejected
			}
		}
	})},
	{"takes an item whose answer is lost for one that was not sent", "inventory.reserve[a-1] loses its answer, and shipping.book is refused", claims(func(r *journal.Record, e *journal.Entry) {
		if e.Step == "inventory.reserve[a-1]" && !e.Undo && r.Status == journal.Compensating {
			e.Pending, e.Outcome, e.Result = false, retry.NotSent, nil
		}
	})},
	{"gives the undo of one item to another", "shipping.book is refused", func(e *explorer) {
		e.breakNetwork = func(network roundTripper) roundTripper {
			return tripFunc(func(req *http.Request) (*http.Response, error) {
				if info, _ := saga.FromContext(req.Context()); info.Undo && info.Step == "inventory.reserve[b-2]" {
					return (answer{status: http.StatusOK, body: []byte(`{}`), replayed: "false"}).response(req), nil
				}
				return network.RoundTrip(req)
			})
		}
	}},
}

func TestExplore_catchesDefectsOfEach(t *testing.T) {
	t.Parallel()
	for _, d := range eachDefects {
		t.Run(d.name, func(t *testing.T) {
			catch(t, d, func() *explorer { return newExplorer(filled(twoLines), order{"a-1"}, holds()) })
		})
	}
}
