package natsstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Create makes the bucket if it does not exist. It leaves an existing bucket as it is: [Open] says if that is not safe.
// Only Bucket and Replicas of cfg count. The error wraps [ErrConfig], [ErrServer], or what the server says.
func Create(ctx context.Context, conn *nats.Conn, cfg Config) error {
	cfg, err := cfg.filled()
	if err != nil {
		return err
	}
	js, err := connected(ctx, conn)
	if err != nil {
		return err
	}
	_, err = js.CreateStream(ctx, cfg.streamConfig())
	if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("natsstore: creating bucket %q: %w", cfg.Bucket, err)
	}
	return nil
}

// streamConfig is that of a NATS key-value bucket with one value a key, which the server never discards by itself.
func (cfg Config) streamConfig() jetstream.StreamConfig {
	b := bucket(cfg.Bucket)
	return jetstream.StreamConfig{
		Name:              b.stream(),
		Description:       "idempotency records of fanonce",
		Subjects:          []string{b.subjects()},
		Storage:           jetstream.FileStorage,
		Replicas:          cfg.Replicas,
		Discard:           jetstream.DiscardNew,
		MaxMsgsPerSubject: 1,
		MaxMsgs:           -1,
		MaxBytes:          -1,
		MaxConsumers:      -1,
		MaxMsgSize:        -1,
		DenyDelete:        true,
		AllowDirect:       true,
		AllowRollup:       true,
		AllowMsgTTL:       true,
	}
}
