package natsstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/fanonce/fanonce/server/store"
)

// Open returns the store of an existing bucket, after it has checked the bucket and the servers. The caller closes the
// Store first, then conn. conn should reconnect for ever (nats.MaxReconnects(-1)). It blocks until the
// servers have answered, but not when ctx has ended or a question had no answer for Config.Timeout.
//
// The errors wrap [ErrConfig], [ErrServer], [ErrNoBucket], [ErrBucket] or [ErrDurability].
func Open(ctx context.Context, conn *nats.Conn, cfg Config) (*Store, error) {
	cfg, err := cfg.filled()
	if err != nil {
		return nil, err
	}
	if _, err := connected(ctx, conn); err != nil {
		return nil, err
	}
	st := &stream{conn: conn, bucket: bucket(cfg.Bucket), timeout: cfg.Timeout}
	if err := checkBucket(ctx, st, cfg); err != nil {
		return nil, err
	}
	if err := checkDurability(ctx, cfg); err != nil {
		return nil, err
	}
	return start(ctx, st, cfg)
}

// start makes the store and reads the leader's clock.
func start(ctx context.Context, st *stream, cfg Config) (*Store, error) {
	alive, stop := context.WithCancel(context.Background())
	s := &Store{
		stream: st,
		log:    cfg.Logger,
		runs:   &runs{entries: make(map[store.ID]entry)},
		limit:  int(st.conn.MaxPayload()),
		cfg:    cfg,
		stop:   stop,
	}
	s.waits = &waits{store: s, ctx: alive, most: mostSubscriptions, runs: make(map[waited]*wait)}
	s.clock = &clock{ctx: alive, probe: func(ctx context.Context) (time.Time, error) {
		st, err := s.stream.state(ctx)
		return st.Now, err
	}}
	if err := s.clock.set(ctx); err != nil {
		stop()
		return nil, fmt.Errorf("natsstore: reading the leader's clock: %w", err)
	}
	return s, nil
}

// connected checks the connection, the server's version and JetStream.
func connected(ctx context.Context, conn *nats.Conn) (jetstream.JetStream, error) {
	if conn == nil {
		return nil, fmt.Errorf("%w: no connection", ErrConfig)
	}
	var major, minor int
	_, err := fmt.Sscanf(conn.ConnectedServerVersion(), "%d.%d", &major, &minor)
	if err != nil || major < 2 || major == 2 && minor < 11 {
		return nil, fmt.Errorf("%w: version %q, want 2.11 or later: earlier ones have no TTL for a message", ErrServer, conn.ConnectedServerVersion())
	}
	js, err := jetstream.New(conn)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrServer, err)
	}
	if _, err := js.AccountInfo(ctx); err != nil {
		if errors.Is(err, jetstream.ErrJetStreamNotEnabled) || errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount) {
			return nil, fmt.Errorf("%w: %w", ErrServer, err)
		}
		return nil, fmt.Errorf("natsstore: asking for JetStream: %w", err)
	}
	return js, nil
}
