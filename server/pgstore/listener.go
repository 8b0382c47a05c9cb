package pgstore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/fanonce/fanonce/internal/pgkit"
)

const (
	// listenFirst and listenLast bound the time from one attempt to connect to the
	// next.
	listenFirst = 100 * time.Millisecond
	listenLast  = 10 * time.Second
	// listenTimeout bounds what the listener asks the server.
	listenTimeout = 5 * time.Second
	hangUpTimeout = time.Second
	// listenSilence is how long nothing is heard until the listener asks whether the
	// server is still there.
	listenSilence = 30 * time.Second
)

// A listener hears of the ends of runs on a connection of its own. The poller finds all ends too: a
// notification only saves time.
type listener struct {
	cfg     *pgx.ConnConfig
	channel pgkit.Query
	started bool // the poller's mutex guards it
}

// run listens until ctx ends, again after each failure.
func (l *listener) run(ctx context.Context, p *poller) {
	pause := listenFirst
	for ctx.Err() == nil {
		conn, err := l.connect(ctx)
		if err == nil {
			pause = listenFirst
			p.hear(true)
			l.listen(ctx, conn, p)
			p.hear(false)
		}
		select {
		case <-time.After(pause/2 + rand.N(pause/2)):
		case <-ctx.Done():
		}
		pause = min(2*pause, listenLast)
	}
}

// connect returns a connection that hears everything from now on.
func (l *listener) connect(ctx context.Context) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, listenTimeout)
	defer cancel()
	conn, err := pgx.ConnectConfig(ctx, l.cfg)
	if err != nil {
		return nil, err
	}
	channel, err := pgkit.One(ctx, conn, l.channel.Bind(nil), pgx.RowTo[string])
	if err == nil {
		_, err = conn.Exec(ctx, "listen "+pgx.Identifier{channel}.Sanitize())
	}
	if err != nil {
		hangUp(conn)
		return nil, err
	}
	return conn, nil
}

// listen passes on what it hears, until the connection breaks or ctx ends.
func (l *listener) listen(ctx context.Context, conn *pgx.Conn, p *poller) {
	defer hangUp(conn)
	for {
		payload, err := next(ctx, conn)
		if err != nil {
			return
		}
		var key pgtype.UUID
		if err := key.Scan(payload); err == nil {
			p.notified(key.Bytes)
		}
	}
}

// next returns the next notification. If nothing comes for long it asks whether the
// server is there: a connection that a network lost without a word stays silent.
func next(ctx context.Context, conn *pgx.Conn) (payload string, err error) {
	for {
		n, err := within(ctx, listenSilence, conn.WaitForNotification)
		switch {
		case err == nil:
			return n.Payload, nil
		case ctx.Err() != nil || !pgconn.Timeout(err):
			return "", err
		}
		_, err = within(ctx, listenTimeout, func(ctx context.Context) (struct{}, error) { return struct{}{}, conn.Ping(ctx) })
		if err != nil {
			return "", err
		}
	}
}

func within[T any](ctx context.Context, d time.Duration, do func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	return do(ctx)
}

// hangUp closes the connection, also if the server does not answer any more.
func hangUp(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), hangUpTimeout)
	defer cancel()
	_ = conn.Close(ctx) // nothing was written on it
}

// checkListen sends a notification through the pool, and returns an error if it is
// not heard: another server or database, a pooler in between, another search_path.
func (s *Store) checkListen(ctx context.Context) error {
	if s.poller.listener == nil {
		return nil
	}
	conn, err := s.poller.listener.connect(ctx)
	if err != nil {
		return wrap("listen", err)
	}
	defer hangUp(conn)
	if _, err := s.db.Pool.Exec(ctx, s.query.notify.SQL()); err != nil {
		return wrap("listen", err)
	}
	if _, err := within(ctx, listenTimeout, conn.WaitForNotification); err != nil {
		return fmt.Errorf("%w: Listen: what the pool's connections notify is not heard: %w", ErrConfig, err)
	}
	return nil
}
