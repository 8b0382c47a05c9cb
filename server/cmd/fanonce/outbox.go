package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/fanonce/fanonce/server/outbox"
)

func newOutbox(a *app) *cobra.Command {
	cmd := group(&cobra.Command{Use: "outbox", Short: "Look at messages that wait to be published"})
	cmd.AddCommand(newOutboxStats(a), newOutboxList(a))
	return cmd
}

// outboxStatsOut is the JSON of outbox stats.
type outboxStatsOut struct {
	Waiting       int64 `json:"waiting"`
	Failing       int64 `json:"failing"`
	OldestSeconds int64 `json:"oldest_seconds"`
	Relays        int   `json:"relays"`
}

func newOutboxStats(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "stats", Short: "Count the messages that wait, and the relays at work", Args: takes(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			pool, err := a.pool(cmd.Context())
			if err == nil {
				err = a.ready(cmd.Context(), "outbox")
			}
			if err != nil {
				return err
			}
			box, err := outbox.New(outbox.Config{Schema: a.schema})
			if err != nil {
				return err
			}
			ctx, cancel := a.bounded(cmd.Context())
			defer cancel()
			s, err := box.Stats(ctx, pool)
			if err != nil {
				return err
			}
			if a.json {
				return writeJSON(a.stdout, outboxStatsOut{s.Waiting, s.Failing, int64(s.Oldest / time.Second), s.Relays})
			}
			t := newTable(a.stdout, "WAITING", "FAILING", "OLDEST", "RELAYS")
			t.row(s.Waiting, s.Failing, ago(s.Oldest), s.Relays)
			return t.flush()
		},
	}
}

// messageRow is one message in JSON, without its key, headers and payload.
type messageRow struct {
	Lane         int    `json:"lane"`
	Position     int64  `json:"position"`
	Topic        string `json:"topic"`
	Attempts     int    `json:"attempts"`
	PayloadBytes int    `json:"payload_bytes"`
	CreatedAt    string `json:"created_at"`
	LastError    string `json:"last_error,omitempty"`
}

type outboxListOut struct {
	Messages []messageRow `json:"messages"`
	Next     string       `json:"next,omitempty"`
}

func newOutboxList(a *app) *cobra.Command {
	var p page
	var failing bool
	cmd := &cobra.Command{
		Use: "list", Short: "List messages that wait, lane by lane, in the order in which they go", Args: takes(0, 0),
		Example: "  fanonce outbox list --failing",
		RunE: func(cmd *cobra.Command, _ []string) error {
			lane, position, err := messageCursor(p.after)
			if err := errors.Join(err, p.check()); err != nil {
				return err
			}
			return a.outboxList(cmd.Context(), lane, position, p.limit, failing)
		},
	}
	p.flags(cmd)
	cmd.Flags().BoolVar(&failing, "failing", false, "only those that the broker refused at least once")
	return cmd
}

func messageCursor(text string) (lane int, position int64, err error) {
	if text == "" {
		return -1, 0, nil
	}
	if n, err := fmt.Sscanf(text, "%d/%d", &lane, &position); n != 2 || err != nil {
		return 0, 0, errors.New("--after is not where a page ended: copy what the previous page says")
	}
	return lane, position, nil
}

func (a *app) outboxList(ctx context.Context, lane int, position int64, limit int, failing bool) error {
	pool, err := a.pool(ctx)
	if err == nil {
		err = a.ready(ctx, "outbox")
	}
	if err != nil {
		return err
	}
	ctx, cancel := a.bounded(ctx)
	defer cancel()
	rows, err := pool.Query(ctx, `select lane, position, topic, attempts, octet_length(payload), created_at, coalesce(last_error, '')
		from `+qualified(a.schema, "outbox")+` where (lane, position) > ($1::int, $2::bigint) and (attempts > 0 or not $3)
		order by lane, position limit $4`, lane, position, failing, limit)
	if err != nil {
		return err
	}
	out := outboxListOut{Messages: []messageRow{}}
	t := newTable(a.stdout, "LANE", "POSITION", "TOPIC", "ATTEMPTS", "BYTES", "CREATED", "LAST ERROR")
	var m messageRow
	var at time.Time
	_, err = pgx.ForEachRow(rows, []any{&m.Lane, &m.Position, &m.Topic, &m.Attempts, &m.PayloadBytes, &at, &m.LastError}, func() error {
		m.CreatedAt = stamp(at)
		out.Messages = append(out.Messages, m)
		t.row(m.Lane, m.Position, m.Topic, m.Attempts, m.PayloadBytes, m.CreatedAt, m.LastError)
		return nil
	})
	if err != nil {
		return err
	}
	if n := len(out.Messages); n == limit {
		out.Next = fmt.Sprintf("%d/%d", out.Messages[n-1].Lane, out.Messages[n-1].Position)
	}
	if a.json {
		return writeJSON(a.stdout, out)
	}
	a.more(out.Next)
	return t.flush()
}
