package pgstore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/fanonce/fanonce/internal/pgkit"
	"github.com/fanonce/fanonce/server/store"
)

const (
	// pollFirst is the shortest time from one poll to the next.
	pollFirst = 5 * time.Millisecond
	// pollLast is the longest, and that for a run whose end will be notified: the
	// notification may get lost.
	pollLast = 250 * time.Millisecond
	// pollShare: the end of a run is noticed late by 1/pollShare of the time that the run took.
	pollShare = 32
	// pollTimeout bounds one poll.
	pollTimeout = 5 * time.Second
	// pollFailures is how many polls in a row may fail before all are told to look
	// for themselves.
	pollFailures = 3
)

// A poller waits for the ends of runs in other processes, of all that this process
// waits for, and asks about them together. It has a goroutine while somebody waits.
type poller struct {
	store    *Store
	listener *listener       // nil without Config.Listen
	ctx      context.Context //nolint:containedctx // it is the poller's life
	stop     context.CancelFunc
	news     chan struct{} // something is due sooner than it was

	mu      sync.Mutex
	watches map[store.ID][]*watched
	polling bool // there is a goroutine
	hears   bool // the listener is connected
	closed  bool
	ended   sync.WaitGroup
}

func newPoller(s *Store, listen *pgx.ConnConfig) *poller {
	p := &poller{store: s, news: make(chan struct{}, 1), watches: make(map[store.ID][]*watched)}
	p.ctx, p.stop = context.WithCancel(context.Background())
	if listen != nil {
		p.listener = &listener{cfg: listen, store: s}
	}
	return p
}

// start starts the goroutines that do not run yet. p.mu is held.
func (p *poller) start() {
	if !p.polling {
		p.polling = true
		p.ended.Go(p.run)
	}
	if p.listener != nil && !p.listener.started {
		p.listener.started = true
		p.ended.Go(func() { p.listener.run(p.ctx, p) })
	}
	p.poke()
}

func (p *poller) poke() {
	select {
	case p.news <- struct{}{}:
	default:
	}
}

// close wakes everybody, and waits for the goroutines.
func (p *poller) close() {
	p.mu.Lock()
	p.closed = true
	p.tellAll()
	p.poke()
	p.mu.Unlock()
	p.stop()
	p.ended.Wait()
}

// run polls until nobody waits. The database has as long to itself as a poll took.
func (p *poller) run() {
	failures := 0
	notBefore := time.Now().Add(pollFirst)
	for {
		next, ok := p.nextPoll()
		if !ok {
			return
		}
		if next.Before(notBefore) {
			next = notBefore
		}
		if wait := time.Until(next); wait > 0 {
			p.rest(wait)
			continue
		}
		began := time.Now()
		if err := p.poll(began); err == nil {
			failures = 0
			notBefore = began.Add(max(pollFirst, 2*time.Since(began)))
			continue
		}
		notBefore = time.Now().Add(pollLast)
		if failures++; failures == pollFailures {
			failures = 0
			p.giveUp()
		}
	}
}

// nextPoll returns when the next poll is due. It returns false if there is none, and the
// goroutine must end.
func (p *poller) nextPoll() (next time.Time, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.all() {
		if !ok || w.due.Before(next) {
			next, ok = w.due, true
		}
	}
	p.polling = ok
	return next, ok
}

func (p *poller) rest(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-p.news:
	}
}

// giveUp makes all waiters look for themselves: they get the error then.
func (p *poller) giveUp() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tellAll()
}

// poll looks at the runs that are due. On records without a note it notes that somebody listens.
func (p *poller) poll(now time.Time) error {
	ctx, cancel := context.WithTimeout(p.ctx, pollTimeout)
	defer cancel()
	known, unknown := p.take(now)
	if err := p.expect(ctx, now, unknown); err != nil {
		return err
	}
	return p.look(ctx, known)
}

// take returns the runs that are due: those that only have to be looked at, and those that are to
// be noted. Runs that are due soon are taken as well, so that runs come to be polled together.
func (p *poller) take(now time.Time) (known, unknown []*watched) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.all() {
		if w.due.After(now.Add(pollFirst / 2)) {
			continue
		}
		w.due = now.Add(w.interval(now, p.hears))
		if p.hears && !w.noted {
			unknown = append(unknown, w)
		} else {
			known = append(known, w)
		}
	}
	return known, unknown
}

// look asks which runs have ended.
func (p *poller) look(ctx context.Context, runs []*watched) error {
	if len(runs) == 0 {
		return nil
	}
	st := p.store.query().Ended.Bind(runArgs(runs))
	ended, err := pgkit.RetryConflict(ctx, func() ([]int, error) { return pgkit.All(ctx, p.store.db.Pool, st, pgx.RowTo[int]) })
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, n := range ended {
		p.tell(runs[n-1])
	}
	return nil
}

// expect notes on the records that somebody waits. A run whose record is locked has neither ended
// nor been noted: it is due again.
func (p *poller) expect(ctx context.Context, now time.Time, runs []*watched) error {
	if len(runs) == 0 {
		return nil
	}
	type answer struct {
		n     int
		ended bool
	}
	st := p.store.query().Expect.Bind(runArgs(runs))
	answers, err := pgkit.RetryConflict(ctx, func() ([]answer, error) {
		return pgkit.Rows(ctx, p.store.db.Writer, st, func(row pgx.CollectableRow) (a answer, err error) {
			return a, row.Scan(&a.n, &a.ended)
		})
	})
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, a := range answers {
		w := runs[a.n-1]
		if a.ended {
			p.tell(w)
			continue
		}
		w.noted = true
		w.due = now.Add(w.interval(now, p.hears))
	}
	return nil
}

func runArgs(runs []*watched) pgx.NamedArgs {
	keys, fences := make(pgkit.Array[pgtype.UUID], len(runs)), make([]int64, len(runs))
	for i, w := range runs {
		keys[i], fences[i] = toUUID(w.id), w.fence
	}
	return pgx.NamedArgs{"keys": keys, "fences": fences}
}

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
	store   *Store
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
	channel, err := pgkit.One(ctx, conn, l.store.query().Channel.Bind(nil), pgx.RowTo[string])
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
		payload, err := receive(ctx, conn)
		if err != nil {
			return
		}
		var key pgtype.UUID
		if err := key.Scan(payload); err == nil {
			p.tellOf(key.Bytes)
		}
	}
}

// receive returns the next notification. If nothing comes for long it asks whether the
// server is there: a connection that a network lost without a word stays silent.
func receive(ctx context.Context, conn *pgx.Conn) (payload string, err error) {
	for {
		n, err := doWithin(ctx, listenSilence, conn.WaitForNotification)
		switch {
		case err == nil:
			return n.Payload, nil
		case ctx.Err() != nil || !pgconn.Timeout(err):
			return "", err
		}
		_, err = doWithin(ctx, listenTimeout, func(ctx context.Context) (struct{}, error) { return struct{}{}, conn.Ping(ctx) })
		if err != nil {
			return "", err
		}
	}
}

func doWithin[T any](ctx context.Context, d time.Duration, do func(context.Context) (T, error)) (T, error) {
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
// not heard: another server or database, a pooler in between.
func (s *Store) checkListen(ctx context.Context) error {
	if s.poller.listener == nil {
		return nil
	}
	conn, err := s.poller.listener.connect(ctx)
	if err != nil {
		return wrap("listen", err)
	}
	defer hangUp(conn)
	if _, err := s.db.Pool.Exec(ctx, s.query().Notify.SQL()); err != nil {
		return wrap("listen", err)
	}
	if _, err := doWithin(ctx, listenTimeout, conn.WaitForNotification); err != nil {
		return fmt.Errorf("%w: Listen: what the pool's connections notify is not heard: %w", ErrConfig, err)
	}
	return nil
}
