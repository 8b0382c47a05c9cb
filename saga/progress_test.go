package saga_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/saga/sagatest"
)

// progressOf returns "name: status" for each step, without the service.
func progressOf(t *testing.T, d interface {
	Progress(r journal.Record) ([]saga.StepState, error)
}, r journal.Record) string {
	t.Helper()
	states, err := d.Progress(r)
	require.NoError(t, err)
	var words []string
	for _, s := range states {
		_, operation, _ := strings.Cut(s.Name, ".")
		words = append(words, operation+" "+s.Status.String())
	}
	return strings.Join(words, ", ")
}

// A record of each kind, for a saga of reserve and charge, then the pivot book, then receipt.
func TestProgress_records(t *testing.T) {
	t.Parallel()
	const reserve, charge, book, receipt = "inventory.reserve", "payment.charge", "shipping.book", "mail.receipt"
	done := func(step string) journal.Entry {
		return journal.Entry{Step: step, Outcome: retry.Completed, Attempts: 1}
	}
	ended := func(step string, o retry.Outcome) journal.Entry { return journal.Entry{Step: step, Outcome: o} }
	pending := func(e journal.Entry) journal.Entry {
		e.Pending = true
		return e
	}
	undo := func(e journal.Entry) journal.Entry {
		e.Undo = true
		return e
	}
	const goes, back, stuck = journal.Running, journal.Compensating, journal.Stuck
	for _, tt := range []struct {
		name    string
		status  journal.Status
		clean   bool
		entries []journal.Entry
		want    string
	}{
		{"new", goes, false, nil, "reserve running, charge running, book waiting, receipt waiting"},
		{"nobody runs it", goes, true, nil, "reserve waiting, charge waiting, book waiting, receipt waiting"},
		{"one is done", goes, false, []journal.Entry{done(reserve)}, "reserve completed, charge running, book waiting, receipt waiting"},
		{"tried again", goes, true, []journal.Entry{done(reserve), pending(ended(charge, retry.NotSent))},
			"reserve completed, charge running, book waiting, receipt waiting"},
		{"the pivot is not written", goes, false, []journal.Entry{done(reserve), done(charge)}, "reserve completed, charge completed, book waiting, receipt waiting"},
		{"the pivot is opened", goes, false, []journal.Entry{done(reserve), done(charge), pending(ended(book, retry.Unknown))},
			"reserve completed, charge completed, book running, receipt waiting"},
		{"behind the pivot", goes, false, []journal.Entry{done(reserve), done(charge), done(book)}, "reserve completed, charge completed, book completed, receipt running"},
		{"skipped", goes, false, []journal.Entry{done(reserve), {Step: charge, Outcome: retry.NotSent, Skipped: true}},
			"reserve completed, charge skipped, book waiting, receipt waiting"},
		{"goes back", back, false, []journal.Entry{done(reserve), ended(charge, retry.Rejected)}, "reserve undoing, charge failed, book never ran, receipt never ran"},
		{"goes back, unknown", back, false, []journal.Entry{done(reserve), pending(ended(charge, retry.Unknown))},
			"reserve undoing, charge unknown, book never ran, receipt never ran"},
		{"goes back, given up", back, false, []journal.Entry{ended(reserve, retry.Unknown), ended(charge, retry.NotSent)},
			"reserve undoing, charge failed, book never ran, receipt never ran"},
		{"an undo is tried again", back, true, []journal.Entry{done(reserve), ended(charge, retry.Rejected), pending(undo(ended(reserve, retry.Unknown)))},
			"reserve undoing, charge failed, book never ran, receipt never ran"},
		{"an undo is refused, and another goes on", back, false, []journal.Entry{done(reserve), done(charge), ended(book, retry.Rejected), undo(ended(reserve, retry.Rejected))},
			"reserve undo failed, charge undoing, book failed, receipt never ran"},
		{"undone", journal.Compensated, false, []journal.Entry{done(reserve), ended(charge, retry.Rejected), undo(done(reserve))},
			"reserve undone, charge failed, book never ran, receipt never ran"},
		{"stuck on its way back", stuck, true, []journal.Entry{done(reserve), done(charge), ended(book, retry.Rejected), pending(undo(ended(charge, retry.Unknown)))},
			"reserve completed, charge undo failed, book failed, receipt never ran"},
		{"stuck at the pivot", stuck, true, []journal.Entry{done(reserve), done(charge), pending(ended(book, retry.Unknown))},
			"reserve completed, charge completed, book unknown, receipt waiting"},
		{"stuck behind the pivot", stuck, true, []journal.Entry{done(reserve), done(charge), done(book), pending(ended(receipt, retry.NotSent))},
			"reserve completed, charge completed, book completed, receipt failed"},
		{"stuck, and what was sent is not written", stuck, false, []journal.Entry{done(reserve)}, "reserve completed, charge unknown, book waiting, receipt waiting"},
		{"abandoned with an open call", journal.Abandoned, false, []journal.Entry{done(reserve), pending(ended(charge, retry.NotSent))},
			"reserve completed, charge unknown, book never ran, receipt never ran"},
		{"abandoned", journal.Abandoned, false, []journal.Entry{done(reserve)}, "reserve completed, charge unknown, book never ran, receipt never ran"},
	} {
		r := journal.Record{
			Name: "checkout", Version: 1, Plan: checkout.Plan().Hash, Key: childkey.MustNew(), Status: tt.status, Clean: tt.clean, Entries: tt.entries,
			Times: journal.Times{FirstClaimedAt: time.Now()},
		}
		if back := strings.Contains(tt.want, "receipt never") && tt.status != journal.Abandoned; back {
			r.FailedAt = time.Now()
		}
		require.Equal(t, tt.want, progressOf(t, checkout, r), tt.name)
	}
}

// What an engine writes while a saga goes forward and back.
func TestProgress_ofARun(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		s.services.Script("payment.charge", sagatest.Reject(402))
		e := s.open(checkout)
		id := enqueue(s, checkout, "k", basket)
		require.Equal(s, "reserve waiting, charge waiting, book waiting, receipt waiting", progressOf(s.T, checkout, s.read("k")))
		s.until("k", journal.Compensated)
		r, err := e.Lookup(s.Context(), id)
		require.NoError(s, err)
		require.Equal(s, "reserve undone, charge failed, book never ran, receipt never ran", progressOf(s.T, checkout, r))
		states, err := checkout.Progress(r)
		require.NoError(s, err)
		require.Positive(s, states[0].Attempts)
		require.False(s, states[0].At.IsZero())
		require.True(s, states[2].At.IsZero())
	})
}

func TestProgress_skipped(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		d := forked(func(order) bool { return false })
		_, err := d.Run(s.Context(), s.open(d), key(s.T, "k"), basket)
		require.NoError(s, err)
		require.Equal(s, "charge completed, reserve skipped, weigh skipped, ring completed, book completed", progressOf(s.T, d, s.read("k")))
		r := s.read("k")
		r.Status = journal.Running
		r.Entries = slices.DeleteFunc(r.Entries, func(e journal.Entry) bool { return e.Step == "mail.ring" || e.Step == "shipping.book" })
		require.Equal(s, "charge completed, reserve skipped, weigh skipped, ring running, book waiting", progressOf(s.T, d, r), "behind a skipped step")
	})
}

func TestProgress_badRecord(t *testing.T) {
	t.Parallel()
	var step *saga.StepRef[int, int]
	define := func(version int) *saga.Definition[int, int] {
		return saga.MustDefine("count", version, func(b *saga.Builder[int, int]) {
			step = saga.StepFunc(b, "a.count", b.Input(), func(context.Context, saga.Call[int]) (int, error) { return 0, nil }).ReadOnly()
			saga.Return(b, step.Output())
		})
	}
	_, d := define(2), define(1)
	r := journal.Record{Name: "count", Version: 1, Plan: d.Plan().Hash, Key: childkey.MustNew(), Status: journal.Completed}
	of, damaged := step, fmt.Errorf("%w: entries", journal.ErrCorrupt)
	for _, tt := range []struct {
		name   string
		change func(r *journal.Record)
		want   error
	}{
		{"another version", func(r *journal.Record) { r.Plan = define(2).Plan().Hash }, saga.ErrNoDefinition},
		{"another saga", func(r *journal.Record) { r.Plan = checkout.Plan().Hash }, saga.ErrNoDefinition},
		{"no saga", func(r *journal.Record) { *r = journal.Record{} }, saga.ErrNoDefinition},
		{"damaged", func(r *journal.Record) { r.Corrupt = damaged }, damaged},
	} {
		changed := r
		tt.change(&changed)
		_, err := d.Progress(changed)
		require.ErrorIs(t, err, tt.want, tt.name)
		_, _, err = of.ReadOutput(changed)
		require.ErrorIs(t, err, tt.want, tt.name)
	}
	r.Key = childkey.Key{}
	_, err := d.Progress(r)
	require.ErrorContains(t, err, "without entries")
	_, err = new(saga.Definition[int, int]).Progress(r)
	require.ErrorIs(t, err, saga.ErrNoDefinition)
	_, err = saga.Define("bad", 1, func(b *saga.Builder[int, int]) { step = saga.StepFunc[int, int, int, int](b, "bad", b.Input(), nil) })
	require.Error(t, err)
	_, _, err = step.ReadOutput(journal.Record{})
	require.ErrorIs(t, err, saga.ErrNoDefinition, "of a definition that was refused")
}

func TestReadOutput(t *testing.T) {
	t.Parallel()
	var step *saga.StepRef[int, order]
	d := saga.MustDefine("count", 1, func(b *saga.Builder[int, order]) {
		step = saga.StepFunc(b, "a.order", b.Input(), func(context.Context, saga.Call[int]) (order, error) { return order{}, nil }).
			UndoFunc("a.forget", func(context.Context, saga.UndoCall[int, order]) error { return nil })
		saga.Return(b, step.Output())
	})
	entry := journal.Entry{Step: "a.order", Outcome: retry.Completed, Result: []byte(`{"sku":"a-1","cents":7}`)}
	r := journal.Record{Plan: d.Plan().Hash, Key: childkey.MustNew(), Status: journal.Running, Entries: []journal.Entry{entry}}
	out, done, err := step.ReadOutput(r)
	require.NoError(t, err)
	require.True(t, done)
	require.Equal(t, order{SKU: "a-1", Cents: 7}, out)

	r.Status = journal.Compensating
	out, done, err = step.ReadOutput(r)
	require.NoError(t, err)
	require.False(t, done, "it is being undone")
	require.Zero(t, out)

	r.Status = journal.Running
	for stored, want := range map[string]error{"": saga.ErrNoResult, `{"sku":"a-1","colour":"red"}`: saga.ErrNewer, `{`: saga.ErrCorrupt} {
		r.Entries[0].Result = []byte(stored)
		if stored == "" {
			r.Entries[0].Result = nil
		}
		_, done, err = step.ReadOutput(r)
		require.ErrorIs(t, err, want, stored)
		require.True(t, done)
	}
}
