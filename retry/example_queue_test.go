package retry_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/retry"
)

// A broker keeps one message for each id, as JetStream does by Nats-Msg-Id.
type broker struct {
	messages map[string]string // by id
	lose     int               // so many acknowledgements get lost
}

var (
	errTooLong = errors.New("broker: message too long")
	errNoAck   = errors.New("broker: no acknowledgement")
)

func (b *broker) publish(_ context.Context, id, text string) (kept int, err error) {
	if len(text) > 20 {
		return 0, errTooLong
	}
	b.messages[id] = text
	if b.lose > 0 {
		b.lose--
		return 0, errNoAck
	}
	return len(b.messages), nil
}

// published says what the end of an attempt means. Only what proves that the
// broker kept nothing is Rejected.
func published(kept int, err error) retry.Verdict {
	if errors.Is(err, errTooLong) {
		return retry.Verdict{Outcome: retry.Rejected, Action: retry.Stop, Evidence: "the broker refused it"}
	}
	return retry.Classify(kept, err) // no connection: NotSent; no acknowledgement: Unknown, and retried
}

// A call that is not HTTP: a message that is published under its key. An
// acknowledgement that is lost is retried; where all are, the outcome is Unknown
// and the remedy the same call under the same key.
func ExampleDo_queue() {
	client, err := retry.New(retry.Config{MaxAttempts: 2})
	if err != nil {
		panic(err)
	}
	b := &broker{messages: make(map[string]string)}
	for _, mail := range []struct {
		order, text string
		lose        int
		again       bool // an earlier run ended as Unknown
	}{
		{"order-1", "thank you", 1, false},
		{"order-2", "thank you, thank you, thank you", 0, false},
		{"order-3", "thank you", 2, false},
		{"order-3", "thank you", 0, true},
	} {
		b.lose = mail.lose
		key, err := childkey.Derive(childkey.MustParse(mail.order), "mails", "publish")
		if err != nil {
			panic(err)
		}
		task := retry.Task{Service: "mails", Operation: "publish", Key: key, Resumed: mail.again}
		_, err = retry.Do(context.Background(), client, task, func(ctx context.Context, _ retry.Attempt) (int, error) {
			return b.publish(ctx, key.String(), mail.text)
		}, published)
		outcome := retry.Completed
		var failed *retry.Error
		if errors.As(err, &failed) {
			outcome = failed.Outcome
		}
		fmt.Println(mail.order, outcome, "messages kept:", len(b.messages))
	}
	// Output:
	// order-1 Completed messages kept: 1
	// order-2 Rejected messages kept: 1
	// order-3 Unknown messages kept: 2
	// order-3 Completed messages kept: 2
}
