package main

import (
	"context"
	"errors"
	"fmt"
	"time"

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
		Long: "Count the messages that wait, and the relays at work. A count of 10000 means that many, or more.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := a.outboxReader(cmd.Context())
			if err != nil {
				return err
			}
			s, err := r.Stats(cmd.Context())
			if err != nil {
				return err
			}
			if a.json {
				return writeJSON(a.stdout, outboxStatsOut{s.Waiting, s.Failing, int64(s.Oldest / time.Second), s.Relays})
			}
			t := newTable(a.stdout, "WAITING", "FAILING", "OLDEST", "RELAYS")
			t.row(capped(s.Waiting), capped(s.Failing), ago(s.Oldest), s.Relays)
			return t.flush()
		},
	}
}

// outboxReader returns a reader whose statements end with --timeout.
func (a *app) outboxReader(ctx context.Context) (*outbox.Reader, error) {
	pool, err := a.pool(ctx)
	if err == nil {
		err = a.ready(ctx, "outbox")
	}
	if err != nil {
		return nil, err
	}
	return outbox.NewReader(pool, outbox.ReaderConfig{Schema: a.schema, StatementTimeout: min(a.timeout, time.Hour)})
}

// capped returns a count for people. The highest count means that many, or more.
func capped(n int64) string {
	if n >= outbox.StatsLimit {
		return fmt.Sprint(n, "+")
	}
	return fmt.Sprint(n)
}

// messageRow is one message in JSON, without its key, headers and payload.
type messageRow struct {
	Lane         int    `json:"lane"`
	Position     int64  `json:"position"`
	Topic        string `json:"topic"`
	Aggregate    string `json:"aggregate,omitempty"`
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
			after, err := messageCursor(p.after)
			if err := errors.Join(err, p.check()); err != nil {
				return err
			}
			return a.outboxList(cmd.Context(), outbox.ListRequest{Failing: failing, After: after, Limit: p.limit})
		},
	}
	p.flags(cmd)
	cmd.Flags().BoolVar(&failing, "failing", false, "only those that the broker refused at least once")
	return cmd
}

func messageCursor(text string) (c outbox.Cursor, err error) {
	if text == "" {
		return c, nil
	}
	if n, err := fmt.Sscanf(text, "%d/%d", &c.Lane, &c.Position); n != 2 || err != nil {
		return c, errors.New("--after is not where a page ended: copy what the previous page says")
	}
	return c, nil
}

func (a *app) outboxList(ctx context.Context, req outbox.ListRequest) error {
	r, err := a.outboxReader(ctx)
	if err != nil {
		return err
	}
	page, err := r.List(ctx, req)
	if err != nil {
		return err
	}
	out := outboxListOut{Messages: []messageRow{}}
	t := newTable(a.stdout, "LANE", "POSITION", "TOPIC", "ATTEMPTS", "BYTES", "CREATED", "LAST ERROR")
	for _, m := range page {
		row := messageRow{m.Lane, m.Position, m.Topic, m.Aggregate, m.Attempts, m.PayloadBytes, stamp(m.Created), m.LastError}
		out.Messages = append(out.Messages, row)
		t.row(row.Lane, row.Position, row.Topic, row.Attempts, row.PayloadBytes, row.CreatedAt, row.LastError)
	}
	if n := len(page); n == req.Limit {
		out.Next = fmt.Sprintf("%d/%d", page[n-1].Lane, page[n-1].Position)
	}
	return a.printPage(out, t, out.Next)
}
