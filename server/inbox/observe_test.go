package inbox_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/inbox"
	"github.com/fanonce/fanonce/server/memstore"
)

// A deliveries remembers the events of deliveries.
type deliveries struct {
	mu     sync.Mutex
	events []server.Event
}

func (d *deliveries) Observe(_ context.Context, e server.Event) {
	if e.Kind < server.EventMessageRan {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.events = append(d.events, e)
}

// take returns the events since it was last called.
func (d *deliveries) take() []server.Event {
	d.mu.Lock()
	defer d.mu.Unlock()
	events := d.events
	d.events = nil
	return events
}

// Each delivery is one event, with its attempt and the age of the message.
func TestInbox_events(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		seen := new(deliveries)
		b := newInbox(t, newGuard(t, memstore.New(), server.Config{Observer: seen}), inbox.Config{
			Consumer: "stock", Effect: server.Keyed, MaxAttempts: 2,
		})
		handled := message
		handled.Published = time.Now()
		time.Sleep(time.Minute)
		for _, kind := range []server.EventKind{server.EventMessageRan, server.EventMessageDuplicate} {
			d, err := b.Handle(t.Context(), handled, func(context.Context, []byte) error { return nil })
			require.NoError(t, err)
			require.Equal(t, []server.Event{{Kind: kind, Route: "inbox stock", Count: d.Attempt, Duration: time.Minute}}, seen.take())
		}
		broken := inbox.Message{ID: "broken", Published: time.Now().Add(time.Hour)} // by a clock that is fast
		for _, want := range []server.Event{
			{Kind: server.EventMessageFailed, Route: "inbox stock", Count: 1, Err: errNoStock},
			{Kind: server.EventMessageDead, Route: "inbox stock", Count: 2, Err: errNoStock},
			{Kind: server.EventMessageDuplicate, Route: "inbox stock"},
		} {
			d, err := b.Handle(t.Context(), broken, func(context.Context, []byte) error { return errNoStock })
			require.Equal(t, want.Err, err)
			require.Equal(t, want.Count, d.Attempt)
			require.Equal(t, []server.Event{want}, seen.take())
		}
		require.Panics(t, func() {
			_, _ = b.Handle(t.Context(), inbox.Message{ID: "panic"}, func(context.Context, []byte) error { panic("tea") })
		})
		require.Equal(t, []server.Event{{Kind: server.EventMessageFailed, Route: "inbox stock", Count: 1}}, seen.take())
		_, err := b.Handle(t.Context(), inbox.Message{ID: "outer"}, func(context.Context, []byte) error {
			d, err := b.Handle(t.Context(), inbox.Message{ID: "outer"}, func(context.Context, []byte) error { return nil })
			require.Equal(t, inbox.Busy, d.Result)
			events := seen.take()
			require.Len(t, events, 1)
			require.Equal(t, server.EventMessageBusy, events[0].Kind)
			require.Equal(t, err, events[0].Err)
			return nil
		})
		require.NoError(t, err)
	})
}

// A guard without an observer has nobody to tell, and an observer that panics changes no delivery.
func TestInbox_observerPanics(t *testing.T) {
	t.Parallel()
	for _, observer := range []server.Observer{nil, panicking{}} {
		b := newInbox(t, newGuard(t, memstore.New(), server.Config{Observer: observer}), inbox.Config{Consumer: "stock", Effect: server.Keyed})
		d, err := b.Handle(t.Context(), message, func(context.Context, []byte) error { return nil })
		require.NoError(t, err)
		require.Equal(t, inbox.Ran, d.Result)
	}
	(*server.Guard)(nil).Observe(t.Context(), server.Event{})
}

type panicking struct{}

func (panicking) Observe(context.Context, server.Event) { panic("tea") }

// The observer of the guard hears of its inboxes too: server.Metrics here, and guardprom or guardotel in a service.
func ExampleInbox_metrics() {
	metrics := server.NewMetrics()
	guard, err := server.NewGuard(memstore.New(), server.Unscoped, server.Config{Observer: metrics})
	if err != nil {
		panic(err)
	}
	mails, err := inbox.New(guard, inbox.Config{Consumer: "mails", Effect: server.Keyed, MaxAttempts: 2})
	if err != nil {
		panic(err)
	}
	for _, id := range []string{"1", "1", "no address", "no address"} {
		_, _ = mails.Handle(context.Background(), inbox.Message{Source: "orders", ID: id}, func(context.Context, []byte) error {
			if id == "no address" {
				return errors.New(id)
			}
			return nil
		})
	}
	counts := metrics.Snapshot()["inbox mails"].Counts
	for _, kind := range []string{"message_ran", "message_duplicate", "message_failed", "message_dead"} {
		fmt.Println(kind, counts[kind])
	}
	// Output:
	// message_ran 1
	// message_duplicate 1
	// message_failed 1
	// message_dead 1
}
