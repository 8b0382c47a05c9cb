package pgjournal_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/internal/pgkit"
	"github.com/fanonce/fanonce/internal/pgkittest"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/saga/pgjournal"
	"github.com/fanonce/fanonce/server/pgtest"
)

// A newcomer is a service that starts to run sagas, as its main function does.
type newcomer struct {
	cfg     *pgxpool.Config
	callees *callees
	lease   time.Duration

	waits  atomic.Bool // the journal has said that it waits for the server
	failed failures
}

func newcomerAt(t *testing.T, c *callees, url string) *newcomer {
	t.Helper()
	cfg, err := pgxpool.ParseConfig(url)
	require.NoError(t, err)
	return &newcomer{cfg: cfg, callees: c, lease: 3 * time.Second}
}

// Handle looks for the journal's warning.
func (s *newcomer) Handle(_ context.Context, r slog.Record) error {
	if strings.Contains(r.Message, "waiting for the server") {
		s.waits.Store(true)
	}
	return nil
}

func (s *newcomer) Enabled(context.Context, slog.Level) bool { return true }
func (s *newcomer) WithAttrs([]slog.Attr) slog.Handler       { return s }
func (s *newcomer) WithGroup(string) slog.Handler            { return s }

// open brings the tables up to date, opens the journal and an engine, and has that run a saga.
func (s *newcomer) open(t *testing.T, ctx context.Context) error { //nolint:revive // t comes first in tests
	pool, err := pgxpool.NewWithConfig(ctx, s.cfg.Copy())
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := pgjournal.Migrate(ctx, pool, ""); err != nil {
		return err
	}
	j, err := pgjournal.Open(ctx, s.cfg, pgjournal.Config{AllowNonDurable: true, Logger: slog.New(s)})
	if err != nil {
		return err
	}
	defer j.Close()
	return s.runOn(t, ctx, j)
}

// runOn opens an engine, and has it run a saga.
func (s *newcomer) runOn(t *testing.T, ctx context.Context, j journal.Journal) error { //nolint:revive // t comes first in tests
	e, err := saga.Open(ctx, j, saga.Config{
		Client:      client(t, s.callees.url, nil),
		Definitions: []saga.AnyDefinition{idle}, Lease: s.lease, Observer: &s.failed,
	})
	if err != nil {
		return err
	}
	defer closeEngine(t, e)
	_, err = idle.Run(ctx, e, childkey.MustNew(), journey{Trip: "t"})
	return err
}

// failures counts what an engine's journal failed at.
type failures struct {
	mu   sync.Mutex
	errs []error
}

func (j *failures) Observe(_ context.Context, e saga.Event) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if e.Kind == saga.EventJournalError {
		j.errs = append(j.errs, e.Err)
	}
}

func (j *failures) all() []error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return append([]error(nil), j.errs...)
}

// A service that is started before its database waits for it, in whatever it does first, and
// is up once the database is.
func TestOpen_serverStartsLater(t *testing.T) {
	t.Parallel()
	cluster, err := pgtest.Start(t.Context(), pgtest.Config{Private: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cluster.Stop()) })
	url, err := cluster.CreateDatabase(t.Context(), "sagas")
	require.NoError(t, err)
	c := newCallees(t)
	fresh := newcomerAt(t, c, url)
	require.NoError(t, cluster.Kill())

	migrating := inBackground(func() error { return fresh.open(t, t.Context()) })
	short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	err = newcomerAt(t, c, url).open(t, short)
	require.ErrorIs(t, err, context.DeadlineExceeded, "it waits no longer than its ctx")
	require.Empty(t, migrating, "it waits")
	require.NoError(t, cluster.Restart(t.Context()))
	require.NoError(t, <-migrating)

	require.NoError(t, cluster.Kill())
	opened := newcomerAt(t, c, url)
	j, err := pgjournal.New(preparedPool(t, opened.cfg), pgjournal.Config{AllowNonDurable: true})
	require.NoError(t, err)
	t.Cleanup(j.Close)
	started := inBackground(func() error { return opened.runOn(t, t.Context(), j) })
	checked := newcomerAt(t, c, url)
	opening := inBackground(func() error {
		j, err := pgjournal.Open(t.Context(), checked.cfg, pgjournal.Config{AllowNonDurable: true, Logger: slog.New(checked)})
		if err == nil {
			j.Close()
		}
		return err
	})
	until(t, "the engine has failed some times, and the journal waits", func() bool {
		return len(opened.failed.all()) > 2 && checked.waits.Load()
	})
	require.Empty(t, started)
	require.Empty(t, opening)
	require.NoError(t, cluster.Restart(t.Context()))
	require.NoError(t, <-started)
	require.NoError(t, <-opening)
}

func preparedPool(t *testing.T, cfg *pgxpool.Config) *pgxpool.Pool {
	t.Helper()
	cfg = cfg.Copy()
	pgjournal.Prepare(cfg)
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool
}

// A service starts after its primary has died, and before the standby is promoted. It comes up
// with the new primary.
func TestOpen_duringAFailover(t *testing.T) {
	t.Parallel()
	primary, err := pgtest.Start(t.Context(), pgtest.Config{Private: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, primary.Stop()) })
	_, err = primary.CreateDatabase(t.Context(), "sagas")
	require.NoError(t, err)
	standby, err := primary.StartStandby(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, standby.Stop()) })
	url, err := pgtest.FailoverURL("sagas", primary, standby)
	require.NoError(t, err)
	c := newCallees(t)
	require.NoError(t, newcomerAt(t, c, url).open(t, t.Context()))
	require.NoError(t, primary.Kill())

	direct := newcomerAt(t, c, standby.URL("sagas")) // as through a proxy that chooses the server
	j, err := pgjournal.New(preparedPool(t, direct.cfg), pgjournal.Config{AllowNonDurable: true})
	require.NoError(t, err)
	t.Cleanup(j.Close)
	waiting := newcomerAt(t, c, url)
	opening := inBackground(func() error { return waiting.open(t, t.Context()) })
	refused := inBackground(func() error { return direct.runOn(t, t.Context(), j) })
	until(t, "the standby has refused some writes", func() bool { return len(direct.failed.all()) > 2 })
	for _, err := range direct.failed.all() {
		require.Equal(t, pgkit.FailureReadOnly, pgkit.Classify(err), "%v", err)
	}
	require.Empty(t, opening)
	require.Empty(t, refused)
	require.NoError(t, standby.Promote(t.Context()))
	require.NoError(t, <-refused)
	require.NoError(t, <-opening)
}

// The COMMIT of the first heartbeat arrives, and its answer does not. The engine is up when
// answers arrive again, under the lease that it has already.
func TestOpen_answerOfTheFirstBeatIsLost(t *testing.T) {
	t.Parallel()
	look := pgtest.NewPool(t, pgjournal.Migrate)
	proxy := pgkittest.NewProxy(t, look.Config().ConnString())
	s := newcomerAt(t, newCallees(t), proxy.URL())
	s.lease = 12 * time.Second // a busy machine does not lose it
	inner, err := pgjournal.New(preparedPool(t, s.cfg), pgjournal.Config{AllowNonDurable: true})
	require.NoError(t, err)
	t.Cleanup(inner.Close)
	beat(t, inner, time.Hour) // the next beat on this connection is one packet
	engines := func() int {
		return queryRow[int](t, look, "select count(*) from saga_engine where lease_until < clock_timestamp() + interval '1 minute'")
	}
	j := &holding{Journal: inner, hold: proxy.HoldAnswers}
	opening := inBackground(func() error { return s.runOn(t, t.Context(), j) })
	until(t, "the first beat is given up", func() bool { return len(s.failed.all()) > 0 })
	require.ErrorIs(t, s.failed.all()[0], journal.ErrFateUnknown)
	require.Equal(t, 1, engines(), "it arrived")
	require.Empty(t, opening)
	proxy.Release()
	require.NoError(t, <-opening)
	require.Equal(t, 1, engines(), "it is the same lease")
}

// A holding journal calls hold before its first beat.
type holding struct {
	journal.Journal
	hold  func()
	beats atomic.Int32
}

func (h *holding) Heartbeat(ctx context.Context, engine journal.EngineID, lease time.Duration) error {
	if h.beats.Add(1) == 1 {
		h.hold()
	}
	return h.Journal.Heartbeat(ctx, engine, lease)
}

// Whatever becomes of any round trip, an engine opens.
func TestInjection_open(t *testing.T) {
	t.Parallel()
	i := new(pgkittest.Injector)
	j, _ := open(t, pgjournal.Config{}, i.Under)
	c := newCallees(t)
	var e *saga.Engine
	var failed, gone error
	i.EveryFault(t, func() {}, func(ctx context.Context) {
		e, failed = saga.Open(ctx, j, saga.Config{Client: client(t, c.url, nil), Definitions: []saga.AnyDefinition{trip, idle}, Poll: time.Hour})
		gone = ctx.Err()
		if failed == nil {
			closeEngine(t, e)
		}
	}, func(t *testing.T, at string) {
		if gone != nil {
			require.True(t, failed == nil || errors.Is(failed, gone), "%s: %v", at, failed)
			return
		}
		require.NoError(t, failed, at)
	})
}

// Open returns an error at once if waiting does not change it: nobody ends the ctx here.
func TestOpen_doesNotWaitForWhatStaysSo(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	look := pgtest.NewPool(t, nil)
	s := newcomerAt(t, newCallees(t), look.Config().ConnString())
	bare, err := pgjournal.New(preparedPool(t, s.cfg), pgjournal.Config{AllowNonDurable: true})
	require.NoError(t, err)
	err = s.runOn(t, ctx, bare)
	require.ErrorIs(t, err, journal.ErrRefused, "there are no tables")
	require.ErrorIs(t, err, pgjournal.ErrSchemaMissing, "and its text says what to do")
	bare.Close()
	require.ErrorIs(t, s.runOn(t, ctx, bare), journal.ErrRefused, "the journal is closed")

	elsewhere := s.cfg.Copy()
	elsewhere.ConnConfig.Database = "nosuch"
	pool := preparedPool(t, elsewhere)
	require.ErrorContains(t, pgjournal.Migrate(ctx, pool, ""), "nosuch")
	var log bytes.Buffer
	_, err = pgjournal.Open(ctx, elsewhere, pgjournal.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	require.ErrorIs(t, err, journal.ErrRefused)
	require.Empty(t, log.String())
	j, err := pgjournal.New(pool, pgjournal.Config{})
	require.NoError(t, err)
	t.Cleanup(j.Close)
	require.ErrorIs(t, s.runOn(t, ctx, j), journal.ErrRefused)
}
