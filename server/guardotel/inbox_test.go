package guardotel_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/inbox"
	"github.com/fanonce/fanonce/server/memstore"
)

// The metrics of a guard have the deliveries of its inboxes. The run of a message is in the trace of Handle's ctx.
func TestInbox(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	guard, err := server.NewGuard(memstore.New(), server.Unscoped, server.Config{Observer: l.observe})
	require.NoError(t, err)
	mails, err := inbox.New(guard, inbox.Config{Consumer: "mails", Effect: server.Keyed, MaxAttempts: 1})
	require.NoError(t, err)
	ctx, delivery := l.traces.Tracer("test").Start(t.Context(), "delivery")
	for _, id := range []string{"1", "1", "bad"} {
		_, _ = mails.Handle(ctx, inbox.Message{ID: id, Published: time.Now().Add(-time.Minute)}, func(context.Context, []byte) error {
			if id == "bad" {
				return errors.New("no address")
			}
			return nil
		})
	}
	run := l.span(t, "run inbox mails", 1)
	require.Equal(t, delivery.SpanContext().TraceID(), run.SpanContext().TraceID())
	numbers, _ := l.numbers(t)
	byName := make(map[string]float64)
	for name, n := range numbers {
		byName[strings.Split(name, "fanonce.guard=")[0]] += n
	}
	require.EqualValues(t, 1, byName["fanonce.guard.message.age{"])
	require.EqualValues(t, 1, byName["fanonce.guard.events{fanonce.event=message_ran,"])
	require.EqualValues(t, 1, byName["fanonce.guard.events{fanonce.event=message_duplicate,"])
	require.EqualValues(t, 1, byName["fanonce.guard.events{fanonce.event=message_dead,"])
}
