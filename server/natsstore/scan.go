package natsstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
)

// scanBatch is how many messages a scan asks for at once.
const scanBatch = 512

// errStop ends a scan early, without an error.
var errStop = errors.New("stop")

// scan calls visit for each message of the filter from rev on, in the order of the stream. A message that is written
// during the scan comes at the end.
//
// Any replica may answer a batch, and a follower may not have the last messages yet. A message never changes, so a
// follower can only lack the end. The scan asks the leader for that.
func (s *stream) scan(ctx context.Context, filter string, rev uint64, visit func(message) error) error {
	rev = max(rev, 1)
	for {
		messages, err := s.batch(ctx, filter, rev)
		if err != nil {
			return err
		}
		if len(messages) == 0 {
			m, err := s.next(ctx, filter, rev)
			if err != nil || m.rev == 0 {
				return err
			}
			messages = []message{m}
		}
		for _, m := range messages {
			if err := visit(m); err != nil {
				if errors.Is(err, errStop) {
					return nil
				}
				return err
			}
			rev = m.rev + 1
		}
	}
}

// batch returns some messages from rev on, from any replica.
func (s *stream) batch(ctx context.Context, filter string, rev uint64) (messages []message, err error) {
	request, err := json.Marshal(map[string]any{"seq": rev, "next_by_subj": filter, "batch": scanBatch, "max_bytes": 8 << 20})
	if err != nil {
		return nil, err
	}
	err = s.persist(ctx, func(ctx context.Context) (bool, error) {
		messages, err = s.batchOnce(ctx, request)
		return true, err
	})
	return messages, err
}

func (s *stream) batchOnce(ctx context.Context, request []byte) (messages []message, err error) {
	inbox := s.conn.NewRespInbox()
	sub, err := s.conn.SubscribeSync(inbox)
	if err != nil {
		return nil, err
	}
	defer func() { _ = sub.Unsubscribe() }()
	if err := s.conn.PublishRequest("$JS.API.DIRECT.GET."+s.bucket.stream(), inbox, request); err != nil {
		return nil, err
	}
	for {
		msg, err := sub.NextMsgWithContext(ctx)
		if err != nil {
			return nil, err
		}
		switch status := field(msg.Header, "Status"); status {
		case "":
		case "204": // the end of the batch
			return messages, nil
		case "404":
			return nil, nil
		case "503":
			return nil, nats.ErrNoResponders
		default:
			return nil, fmt.Errorf("natsstore: batch: status %s %s", status, field(msg.Header, "Description"))
		}
		m, err := delivered(msg)
		if err != nil {
			return nil, err
		}
		messages = append(messages, m)
	}
}

// delivered reads a message of a batch.
func delivered(msg *nats.Msg) (message, error) {
	rev, err := strconv.ParseUint(field(msg.Header, sequenceHeader), 10, 64)
	if err != nil {
		return message{}, fmt.Errorf("natsstore: batch: %w", err)
	}
	at, err := time.Parse(time.RFC3339Nano, field(msg.Header, timeHeader))
	if err != nil {
		return message{}, fmt.Errorf("natsstore: batch: %w", err)
	}
	return message{
		subject: field(msg.Header, subjectHeader), rev: rev, at: at, data: msg.Data, deleted: field(msg.Header, operationHeader) != "",
	}, nil
}
