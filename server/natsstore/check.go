package natsstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// checkBucket refuses a stream that could lose or change a key by itself.
func checkBucket(ctx context.Context, st *stream, cfg Config) error {
	got, err := st.settings(ctx)
	var refused *apiError
	switch {
	case errors.As(err, &refused) && refused.ErrCode == codeNoStream:
		return fmt.Errorf("%w: %q", ErrNoBucket, cfg.Bucket)
	case err != nil:
		return fmt.Errorf("natsstore: reading bucket %q: %w", cfg.Bucket, err)
	}
	if got.PersistMode == "default" {
		got.PersistMode = ""
	}
	return unsafeSetting(cfg, got.StreamConfig, got.PersistMode)
}

// A rule is one setting that a bucket needs.
type rule struct {
	setting   string
	got, want any
	why       string
}

// unsafeSetting returns a [*BucketError] for the first setting that is not as it must be.
func unsafeSetting(cfg Config, c jetstream.StreamConfig, persist string) error {
	for _, r := range []rule{
		{"num_replicas", c.Replicas, cfg.Replicas, "the number decides how many servers may fail"},
		{"storage", c.Storage, jetstream.FileStorage, "a restart forgets every key"},
		{"retention", c.Retention, jetstream.LimitsPolicy, "the server deletes keys that somebody has consumed"},
		{"discard", c.Discard, jetstream.DiscardNew, "a full bucket drops its oldest keys, and they run a second time"},
		{"discard_new_per_subject", c.DiscardNewPerSubject, false, "the server refuses every write of an existing key"},
		{"max_age", c.MaxAge, time.Duration(0), "keys are forgotten before their retention"},
		{"max_msgs_per_subject", c.MaxMsgsPerSubject, int64(1), "old values of a key stay for ever"},
		{"max_msgs", unlimited(c.MaxMsgs), int64(-1), "a full bucket refuses the answers of runs that have happened"},
		{"max_bytes", unlimited(c.MaxBytes), int64(-1), "a full bucket refuses the answers of runs that have happened"},
		{"max_msg_size", unlimited(int64(c.MaxMsgSize)), int64(-1), "the answers of runs that have happened are refused"},
		{"no_ack", c.NoAck, false, "no write is acknowledged"},
		{"sealed", c.Sealed, false, "no write is possible"},
		{"allow_direct", c.AllowDirect, true, "sweeps and lists read in batches"},
		{"allow_msg_ttl", c.AllowMsgTTL, true, "keys have no retention on the server"},
		{"mirror", c.Mirror == nil, true, "a mirror takes no writes"},
		{"sources", len(c.Sources), 0, "another stream's messages come between"},
		{"republish", c.RePublish == nil, true, "answers are sent to other subjects"},
		{"subject_transform", c.SubjectTransform == nil, true, "the keys' subjects change"},
		{"subjects", strings.Join(c.Subjects, " "), bucket(cfg.Bucket).subjects(), "other messages share the stream"},
		{"persist_mode", persist, "", "writes are acknowledged before they are written"},
	} {
		if r.got != r.want {
			return &BucketError{
				Bucket: cfg.Bucket, Setting: r.setting, Got: fmt.Sprint(r.got), Want: fmt.Sprint(r.want), Why: r.why,
			}
		}
	}
	return nil
}

// unlimited returns -1 for both forms of no limit, else n.
func unlimited(n int64) int64 {
	if n <= 0 {
		return -1
	}
	return n
}

// reportWait is how long the servers have for their answers.
const reportWait = 2 * time.Second

// checkDurability asks the servers when they flush, and compares.
func checkDurability(ctx context.Context, cfg Config) error {
	switch {
	case cfg.Durability == FlushPeriodically:
		return nil
	case cfg.System != nil:
		return checkFlushes(ctx, cfg.System, cfg.Replicas)
	case cfg.Durability == FlushReported:
		return fmt.Errorf("%w: neither Durability nor System is set: the servers do not tell a normal account", ErrDurability)
	}
	return nil
}

// checkFlushes asks every server. It needs the answers of as many servers with JetStream as the bucket has replicas.
func checkFlushes(ctx context.Context, system *nats.Conn, replicas int) error {
	inbox := system.NewRespInbox()
	sub, err := system.SubscribeSync(inbox)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrDurability, err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	if err := system.PublishRequest("$SYS.REQ.SERVER.PING.VARZ", inbox, nil); err != nil {
		return fmt.Errorf("%w: %w", ErrDurability, err)
	}
	ctx, cancel := context.WithTimeout(ctx, reportWait)
	defer cancel()
	for told := 0; ; {
		msg, err := sub.NextMsgWithContext(ctx)
		if err != nil {
			if told >= replicas { // there may be more servers, but the bucket has no more replicas
				return nil
			}
			return fmt.Errorf("%w: %d servers with JetStream answered, want %d: %w", ErrDurability, told, replicas, err)
		}
		server, err := flushes(msg.Data)
		if err != nil {
			return err
		}
		if server {
			told++
		}
	}
}

// flushes reads one server's answer. It returns false for a server without JetStream, and an error for a server that
// does not flush each write.
func flushes(data []byte) (bool, error) {
	var varz struct {
		Server struct {
			Name string `json:"name"`
		} `json:"server"`
		Data struct {
			JetStream struct {
				Config *struct {
					SyncAlways   bool          `json:"sync_always"`
					SyncInterval time.Duration `json:"sync_interval"`
				} `json:"config"`
			} `json:"jetstream"`
		} `json:"data"`
	}
	if err := json.Unmarshal(data, &varz); err != nil {
		return false, fmt.Errorf("%w: %w", ErrDurability, err)
	}
	c := varz.Data.JetStream.Config
	if c == nil {
		return false, nil
	}
	if !c.SyncAlways {
		return false, fmt.Errorf("%w: server %q has sync_interval %v, want always", ErrDurability, varz.Server.Name, c.SyncInterval)
	}
	return true, nil
}
