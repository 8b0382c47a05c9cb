package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/fanonce/fanonce/server/inbox"
)

// keyHeader is the header in which a Kafka record carries its message's key.
const keyHeader = "Idempotency-Key"

// connectKafka returns a broker whose topics are there, or are made by the first record.
func connectKafka(seeds []string, o *options) (*broker, error) {
	producer, err := kgo.NewClient(kgo.SeedBrokers(seeds...), kgo.AllowAutoTopicCreation())
	if err != nil {
		return nil, err
	}
	return &broker{
		publish: publishKafka(producer),
		consume: func(ctx context.Context, box *inbox.Inbox) error {
			client, err := kgo.NewClient(kgo.SeedBrokers(seeds...), kgo.ClientID(kafkaClient(os.Getpid())), kgo.ConsumerGroup(group),
				kgo.ConsumeTopics(o.topic), kgo.DisableAutoCommit(),
				kgo.SessionTimeout(o.ackWait), kgo.HeartbeatInterval(o.ackWait/12), kgo.RebalanceTimeout(max(o.ackWait, 10*time.Second)))
			if err != nil {
				return err
			}
			defer client.Close()
			return (&kafkaLedger{client: client, producer: producer, box: box, o: o}).run(ctx)
		},
		close: producer.Close,
	}, nil
}

// kafkaClient is a ledger's name in the broker's logs and tools.
func kafkaClient(pid int) string { return fmt.Sprintf("%s-%d", group, pid) }

// A kafkaLedger books the records of a consumer group's partitions.
type kafkaLedger struct {
	client, producer *kgo.Client
	box              *inbox.Inbox
	o                *options
}

// run books records until ctx ends. Each partition is handled in its order, and the partitions at the same time. An
// offset is committed when the rows before it are. The client joins the group again after an error.
func (k *kafkaLedger) run(ctx context.Context) error {
	for {
		fetches := k.client.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			return err
		}
		fetches.EachError(func(topic string, partition int32, err error) {
			k.o.log.Warn("kafka: the client tries again", "topic", topic, "partition", partition, "error", err)
		})
		var partitions sync.WaitGroup
		fetches.EachPartition(func(p kgo.FetchTopicPartition) {
			partitions.Go(func() { k.handlePartition(ctx, p.Records) })
		})
		partitions.Wait()
	}
}

// handlePartition books records in order. Kafka cannot refuse one record, so a record that failed is tried again
// here, until it is booked or a dead letter.
func (k *kafkaLedger) handlePartition(ctx context.Context, records []*kgo.Record) {
	for i, r := range records {
		v, cause := insist(inTrace(ctx, kafkaHeader(r)), k.box, kafkaMessage(r))
		for v == dead {
			if err := k.bury(ctx, r, cause); err == nil {
				break
			}
			if !sleep(ctx, time.Second) {
				v = again
			}
		}
		if v == again { // ctx has ended; another ledger gets this record, and those behind it
			records = records[:i]
			break
		}
	}
	if len(records) > 0 {
		_ = k.client.CommitRecords(context.WithoutCancel(ctx), records...) // a lost commit brings them again
	}
}

// bury writes a record into the topic of dead letters. There may be copies of it, with the same key.
func (k *kafkaLedger) bury(ctx context.Context, r *kgo.Record, cause error) error {
	letter := &kgo.Record{Topic: r.Topic + deadSuffix, Key: r.Key, Value: r.Value}
	letter.Headers = append(append(letter.Headers, r.Headers...), kgo.RecordHeader{Key: causeHeader, Value: []byte(causeOf(cause))})
	return k.producer.ProduceSync(context.WithoutCancel(ctx), letter).FirstErr()
}

// kafkaMessage names a record by its producer's key, which is the same in a copy. Without one it is the record's place.
func kafkaMessage(r *kgo.Record) inbox.Message {
	id := cmp.Or(kafkaHeader(r)(keyHeader), strconv.Itoa(int(r.Partition))+"/"+strconv.FormatInt(r.Offset, 10))
	return inbox.Message{Source: r.Topic, ID: id, Payload: r.Value, Published: r.Timestamp}
}

// kafkaHeader returns the last value of each of a record's headers, or "".
func kafkaHeader(r *kgo.Record) func(name string) string {
	return func(name string) (value string) {
		for _, h := range r.Headers {
			if h.Key == name {
				value = string(h.Value)
			}
		}
		return value
	}
}

// publishKafka returns the publish function for Kafka. Records of one account are in one partition. The client sends
// records together that are published at the same time.
//
// It returns when ctx ends. The client may still send the record then: it does not give a record up of which a broker
// may have a copy. The job runs again, and the key makes the copies one message.
func publishKafka(client *kgo.Client) func(ctx context.Context, m Message) error {
	return func(ctx context.Context, m Message) error {
		record := &kgo.Record{
			Topic: m.Topic, Key: []byte(m.Account), Value: m.Payload,
			Headers: []kgo.RecordHeader{{Key: keyHeader, Value: []byte(m.Key)}},
		}
		for name, value := range m.Trace {
			record.Headers = append(record.Headers, kgo.RecordHeader{Key: name, Value: []byte(value)})
		}
		sent := make(chan error, 1)
		client.Produce(ctx, record, func(_ *kgo.Record, err error) { sent <- err })
		select {
		case err := <-sent:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
