package outbox

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fanonce/fanonce/internal/pgkit"
)

// step publishes one batch of each lane, and returns how many messages the broker took.
func (w *work) step(ctx context.Context) (published int, err error) {
	if err := w.hold(ctx); err != nil {
		return 0, err
	}
	messages, err := w.next(ctx)
	if err != nil {
		return 0, err
	}
	held := make(map[string]bool) // aggregates of which a message failed in this step
	for _, round := range rounds(messages, w.cfg.BatchSize) {
		if err := w.hold(ctx); err != nil {
			return published, err
		}
		if ctx.Err() != nil || !w.holds() {
			return published, nil
		}
		round = w.ready(round, held)
		if len(round) == 0 {
			continue
		}
		n, err := w.publish(ctx, round, held)
		published += n
		if err != nil {
			return published, err
		}
	}
	return published, nil
}

// next reads the oldest messages of the lanes.
func (w *work) next(ctx context.Context) ([]Message, error) {
	if len(w.lanes) == 0 {
		return nil, nil
	}
	aggregates, positions := w.delays.putOff(time.Now())
	st := w.query.next.Bind(named{"lanes": w.lanes, "put_off": aggregates, "skipped": positions, "limit": w.cfg.BatchSize})
	messages, err := pgkit.All(ctx, w.pool, st, scanMessage)
	if err != nil {
		return nil, fmt.Errorf("read messages: %w", err)
	}
	return messages, nil
}

// rounds divides messages, which are in order. A round has at most one message of an aggregate, and the next one of
// that aggregate is in a later round.
func rounds(messages []Message, size int) (all [][]Message) {
	after := make(map[string]int) // an aggregate's first round that is free for it
	for i := range messages {
		m := messages[i]
		n := after[m.Aggregate]
		for n < len(all) && len(all[n]) >= size {
			n++
		}
		if n >= len(all) {
			all = append(all, nil)
			n = len(all) - 1
		}
		all[n] = append(all[n], m)
		if m.Aggregate != "" {
			after[m.Aggregate] = n + 1
		}
	}
	return all
}

// ready leaves out the messages of aggregates that are held, and of lanes that are another relay's now.
func (w *work) ready(round []Message, held map[string]bool) []Message {
	return slices.DeleteFunc(round, func(m Message) bool { return held[m.Aggregate] || !slices.Contains(w.lanes, m.lane) })
}

// publish sends one round, and notes what became of it. It adds to held the aggregates whose messages failed.
func (w *work) publish(ctx context.Context, round []Message, held map[string]bool) (published int, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.cfg.PublishTimeout) // the end of Run leaves nothing half done
	failures := w.send(ctx, round)
	cancel()
	var done, failed outcome
	for i := range round {
		m := &round[i]
		if failures[i] == nil {
			done.add(m, "")
			w.delays.published(m)
			continue
		}
		failed.add(m, failures[i].Error())
		w.delays.failed(m, time.Now())
		if m.Aggregate != "" {
			held[m.Aggregate] = true
		}
		w.cfg.Logger.Warn("outbox: not published", "topic", m.Topic, "attempts", m.Attempts+1, "error", failures[i])
	}
	return len(done.lanes), w.note(context.WithoutCancel(ctx), &done, &failed)
}

// note deletes the messages that the broker has, and counts the failures of the others.
func (w *work) note(ctx context.Context, done, failed *outcome) (err error) {
	ctx, cancel := context.WithTimeout(ctx, w.cfg.PublishTimeout)
	defer cancel()
	if len(done.lanes) > 0 {
		st := w.query.published.Bind(named{"lanes": done.lanes, "positions": done.positions})
		if _, err = w.pool.Exec(ctx, st.SQL, st.Args...); err != nil {
			return fmt.Errorf("delete published messages: %w", err)
		}
	}
	if len(failed.lanes) > 0 {
		st := w.query.failed.Bind(named{"lanes": failed.lanes, "positions": failed.positions, "errors": failed.errors})
		if _, err = w.pool.Exec(ctx, st.SQL, st.Args...); err != nil {
			return fmt.Errorf("note failures: %w", err)
		}
	}
	return nil
}

// send calls Publish, and returns an error or nil for each message.
func (w *work) send(ctx context.Context, round []Message) []error {
	failures := w.cfg.Publish(ctx, round)
	switch len(failures) {
	case len(round):
		return failures
	case 0:
		return make([]error, len(round))
	}
	failures = make([]error, len(round))
	for i := range failures {
		failures[i] = errResults
	}
	return failures
}

// An outcome has the messages of a round that ended alike, as arrays for a statement.
type outcome struct {
	lanes     []int16
	positions []int64
	errors    []string
}

// maxErrorBytes bounds what a row keeps of an error.
const maxErrorBytes = 500

func (o *outcome) add(m *Message, text string) {
	if len(text) > maxErrorBytes {
		text = text[:maxErrorBytes]
	}
	o.lanes = append(o.lanes, m.lane)
	o.positions = append(o.positions, m.position)
	o.errors = append(o.errors, strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", ""), ""))
}
