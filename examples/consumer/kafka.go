package consumer

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/fanonce/fanonce/server/inbox"
	"github.com/fanonce/fanonce/server/outbox"
)

// keyHeader is the header in which a Kafka record carries its message's key.
const keyHeader = "Idempotency-Key"

// Kafka books the records of a client of a consumer group until ctx ends. The client must not commit by itself
// (kgo.DisableAutoCommit). Each partition is handled in its order, and the partitions at the same time. An offset is
// committed when the rows before it are. Kafka returns ctx's error, or the broker's.
func Kafka(ctx context.Context, client *kgo.Client, box *inbox.Inbox) error {
	for {
		fetches := client.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := fetches.Err0(); err != nil {
			return fmt.Errorf("consumer: poll: %w", err)
		}
		var partitions sync.WaitGroup
		fetches.EachPartition(func(p kgo.FetchTopicPartition) {
			partitions.Go(func() { handlePartition(ctx, client, p.Records, box) })
		})
		partitions.Wait()
	}
}

// handlePartition books records in order. Kafka has no refusal of one record: a record that failed is tried again
// here, until it is booked or a dead letter.
func handlePartition(ctx context.Context, client *kgo.Client, records []*kgo.Record, box *inbox.Inbox) {
	for _, r := range records {
		for pause := 10 * time.Millisecond; ; pause = min(2*pause, time.Second) {
			delivery, _ := box.Handle(context.WithoutCancel(ctx), kafkaMessage(r), Book) // the guard logs its errors
			if delivery.Ack() {
				break
			}
			select {
			case <-time.After(pause):
			case <-ctx.Done():
				return // not committed: another consumer gets it
			}
		}
	}
	_ = client.CommitRecords(context.WithoutCancel(ctx), records...) // a lost commit brings them again
}

// kafkaMessage names a record by its producer's key, which is the same in a copy. Without one it is the record's place.
func kafkaMessage(r *kgo.Record) inbox.Message {
	id := strconv.Itoa(int(r.Partition)) + "/" + strconv.FormatInt(r.Offset, 10)
	for _, h := range r.Headers {
		if h.Key == keyHeader {
			id = string(h.Value)
		}
	}
	return inbox.Message{Source: r.Topic, ID: id, Payload: r.Value}
}

// PublishKafka is an [outbox.RelayConfig].Publish for Kafka. The aggregate is the record's key: records of one aggregate
// are in one partition, in order.
func PublishKafka(client *kgo.Client) func(ctx context.Context, batch []outbox.Message) []error {
	return func(ctx context.Context, batch []outbox.Message) []error {
		failures := make([]error, len(batch))
		var acks sync.WaitGroup
		acks.Add(len(batch))
		for i, m := range batch {
			record := &kgo.Record{Topic: m.Topic, Key: []byte(m.Aggregate), Value: m.Payload}
			record.Headers = append(record.Headers, kgo.RecordHeader{Key: keyHeader, Value: []byte(m.Key.String())})
			for name, value := range m.Headers {
				record.Headers = append(record.Headers, kgo.RecordHeader{Key: name, Value: []byte(value)})
			}
			client.Produce(ctx, record, func(_ *kgo.Record, err error) {
				failures[i] = err
				acks.Done()
			})
		}
		acks.Wait()
		return failures
	}
}
