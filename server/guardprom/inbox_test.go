package guardprom_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/guardprom"
	"github.com/fanonce/fanonce/server/inbox"
	"github.com/fanonce/fanonce/server/memstore"
)

// The collector of a guard counts the deliveries of its inboxes, and knows how old messages were and how many attempts
// they took.
func TestCollector_inbox(t *testing.T) {
	t.Parallel()
	c, r := newCollector(t, guardprom.Config{Name: "a"})
	guard, err := server.NewGuard(memstore.New(), server.Unscoped, server.Config{Observer: c})
	require.NoError(t, err)
	mails, err := inbox.New(guard, inbox.Config{Consumer: "mails", Effect: server.Keyed, MaxAttempts: 3})
	require.NoError(t, err)
	for _, m := range []inbox.Message{
		{ID: "1", Published: time.Now().Add(-time.Minute)}, {ID: "1", Published: time.Now()}, {ID: "2"},
		{ID: "bad"}, {ID: "bad"}, {ID: "bad"}, {ID: "bad"},
	} {
		_, _ = mails.Handle(t.Context(), m, func(context.Context, []byte) error {
			if m.ID == "bad" {
				return errors.New("no address")
			}
			return nil
		})
	}
	text := scrape(t, r)
	for _, line := range []string{
		`fanonce_guard_events_total{event="message_ran",guard="a",route="inbox mails"} 2`,
		`fanonce_guard_events_total{event="message_duplicate",guard="a",route="inbox mails"} 2`,
		`fanonce_guard_events_total{event="message_failed",guard="a",route="inbox mails"} 2`,
		`fanonce_guard_events_total{event="message_dead",guard="a",route="inbox mails"} 1`,
		`fanonce_guard_message_age_seconds_bucket{guard="a",route="inbox mails",le="30.0"} 0`,
		`fanonce_guard_message_age_seconds_bucket{guard="a",route="inbox mails",le="300.0"} 1`,
		`fanonce_guard_message_age_seconds_count{guard="a",route="inbox mails"} 1`,
		`fanonce_guard_message_attempts_bucket{guard="a",route="inbox mails",le="1.0"} 2`,
		`fanonce_guard_message_attempts_bucket{guard="a",route="inbox mails",le="3.0"} 3`,
	} {
		require.Contains(t, text, line)
	}
}
