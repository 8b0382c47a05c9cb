package pgstore_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/store"
)

// These constants are the failures of a handler that writes one row. A Transactional handler writes the row in its
// transaction, a Keyed one in a completion hook, an Opaque one on its own connection. The handler answers 201 unless
// the name says otherwise.
const (
	refusedAnswered409  = "a statement is refused, and the handler answers 409"
	refusedAnswered500  = "a statement is refused, and the handler answers 500"
	refusedUnnoticed    = "a statement is refused, and the handler does not look"
	diskFull            = "a statement fails as the disk is full, and the handler answers 409"
	connectionOnce      = "the connection breaks once"
	connectionEachTime  = "the connection breaks each time"
	commitLost          = "the answer to COMMIT is lost"
	deferredConstraint  = "a deferred constraint refuses the COMMIT"
	deferredAnswered409 = "a deferred constraint refuses the COMMIT, and the route answers 409"
	flushes             = "the handler flushes"
	flushesRefused      = "the handler flushes, and the route refuses"
	flushesThrough      = "the handler flushes, and the route lets it through"
	hijacks             = "the handler hijacks first"
	oversize            = "the answer is too large to be stored"
	oversizeRefused     = "the answer is too large to be stored, and the route refuses"
	oversizeUnserved    = "the answer is too large to be served"
	panics              = "the handler panics"
)

var handlerFailures = []string{
	refusedAnswered409, refusedAnswered500, refusedUnnoticed, diskFull, connectionOnce, connectionEachTime, commitLost,
	deferredConstraint, deferredAnswered409,
	flushes, flushesRefused, flushesThrough, hijacks, oversize, oversizeRefused, oversizeUnserved, panics,
}

// An outcomeRow is the outcome of one failure in one effect class.
type outcomeRow struct {
	effect  server.Effect
	failure string

	first    string // the answer: its status, or its code
	headers  string // Idempotent-Replayed, Idempotency-Should-Retry, and Retry-After if there is one
	log      string // the highest level
	state    string // of the record, with the fate that an undo is told
	rows     int
	runs     int    // of the handler, in the first call
	retry    string // the answer to the next call, without the failure
	allRows  int    // after it
	rejected bool   // the route cannot be made
}

// TestOutcomes checks that the table is complete, with one row for each effect class and failure, and that each
// outcome is right.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	rows := make(map[string]outcomeRow)
	for _, row := range outcomeRows {
		name := row.effect.String() + ": " + row.failure
		require.NotContains(t, rows, name, "a second row")
		rows[name] = row
	}
	for _, effect := range []server.Effect{server.Transactional, server.Keyed, server.Opaque} {
		for _, failure := range handlerFailures {
			name := effect.String() + ": " + failure
			require.Contains(t, rows, name, "no row")
			want := rows[name]
			delete(rows, name)
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				require.Equal(t, want, outcomeOf(t, effect, failure))
			})
		}
	}
	require.Empty(t, rows)
}

// outcomeOf makes a first call, which fails, and a second one.
func outcomeOf(t *testing.T, effect server.Effect, failure string) outcomeRow {
	t.Helper()
	row := outcomeRow{effect: effect, failure: failure}
	s := newFailingService(t, effect, failure)
	if s.route == nil {
		row.rejected = true
		return row
	}
	first := s.post()
	row.first, row.headers = answerText(first), headersText(first)
	row.log, row.runs = s.log.highest(), s.runs
	row.state, row.rows = s.record(t), queryRow[int](t, s.look, countUsers, "bob")
	s.failing.Store(false)
	exec(t, s.look, "update idempotency set lease_until = clock_timestamp() where state = 1") // nobody waits for it
	row.retry = answerText(s.post())
	row.allRows = queryRow[int](t, s.look, countUsers, "bob")
	return row
}

// A failingService is a handler in which one thing goes wrong while failing is set.
type failingService struct {
	look    *pgxpool.Pool
	own     *pgxpool.Pool // an Opaque handler's
	route   http.Handler
	failure string
	effect  server.Effect
	t       *testing.T
	log     *levels
	deaf    *deafness
	failing atomic.Bool
	runs    int
	broken  int // connections
}

func newFailingService(t *testing.T, effect server.Effect, failure string) *failingService {
	t.Helper()
	s := &failingService{t: t, effect: effect, failure: failure, log: new(levels), deaf: new(deafness)}
	s.failing.Store(true)
	var under *pgstore.Store
	under, s.look = open(t, pgstore.Config{}, s.deaf.under)
	exec(t, s.look, "create table users (name text constraint one_name unique, late int constraint one_late unique deferrable initially deferred)")
	exec(t, s.look, "insert into users values ('ann', 1)")
	own := s.look.Config()
	s.deaf.under(own)
	var err error
	s.own, err = pgxpool.NewWithConfig(t.Context(), own)
	require.NoError(t, err)
	t.Cleanup(s.own.Close)
	g, err := server.NewGuard(under, server.Unscoped, server.Config{
		Logger: slog.New(s.log), MaxResponseBytes: 100, SettleTimeout: time.Second,
	})
	require.NoError(t, err)
	route := server.Route{Effect: effect}
	switch failure {
	case deferredAnswered409:
		route.OnCommitError = func(context.Context, *store.TxError) (server.Response, error) {
			return server.Response{Status: http.StatusConflict}, nil
		}
	case flushesRefused:
		route.Stream = server.StreamRefuse
	case flushesThrough:
		route.Stream = server.StreamTombstone
	case oversizeRefused:
		route.Stream = server.StreamRefuse
	}
	s.route, err = g.Route(route, http.HandlerFunc(s.handle))
	if err != nil {
		require.ErrorAs(t, err, new(*server.ConfigError))
		s.route = nil
	}
	return s
}

// handle writes the row as its effect class does, and makes the failure happen.
func (s *failingService) handle(w http.ResponseWriter, r *http.Request) {
	s.runs++
	failing := s.failing.Load()
	if failing && s.failure == hijacks {
		_, _, err := http.NewResponseController(w).Hijack()
		require.Error(s.t, err)
		http.Error(w, "no upgrade", http.StatusInternalServerError)
		return
	}
	status, body := http.StatusCreated, "made"
	if err := s.write(r.Context()); err != nil {
		status = map[string]int{refusedAnswered409: 409, diskFull: 409, refusedUnnoticed: 201}[s.failure]
		if s.failure == deferredConstraint || s.failure == deferredAnswered409 {
			status = http.StatusConflict // its own COMMIT has told it
		}
		if status == 0 {
			status = http.StatusInternalServerError
		}
	}
	if failing {
		body = s.misbehave(w)
	}
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

// misbehave makes the failures of the answer happen.
func (s *failingService) misbehave(w http.ResponseWriter) (body string) {
	switch s.failure {
	case flushes, flushesRefused, flushesThrough:
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, "half")
		_ = http.NewResponseController(w).Flush()
	case oversize, oversizeRefused:
		return strings.Repeat("x", 150)
	case oversizeUnserved:
		return strings.Repeat("x", 1650)
	case panics:
		panic("boom")
	}
	return "made"
}

func (s *failingService) write(ctx context.Context) error {
	switch s.effect {
	case server.Transactional:
		return s.insert(ctx, pgstore.Tx(ctx))
	case server.Keyed:
		return pgstore.OnComplete(ctx, func(ctx context.Context, tx pgx.Tx) error {
			err := s.insert(ctx, tx)
			if s.failure == refusedUnnoticed {
				return nil
			}
			return err
		})
	default:
		return pgx.BeginFunc(ctx, s.own, func(tx pgx.Tx) error { return s.insert(ctx, tx) })
	}
}

// insert writes the row, and makes the failures of the transaction happen.
func (s *failingService) insert(ctx context.Context, tx pgx.Tx) error {
	statement := insertBob
	if s.failing.Load() {
		switch s.failure {
		case refusedAnswered409, refusedAnswered500, refusedUnnoticed:
			statement = insertAnn
		case diskFull:
			statement = raise("53100")
			ctx = context.WithoutCancel(ctx) // the statement is sent, even if the time to settle is over now
		case deferredConstraint, deferredAnswered409:
			statement = insertLate
		case connectionOnce, connectionEachTime:
			if s.broken++; s.broken == 1 || s.failure == connectionEachTime {
				ctx = context.WithoutCancel(ctx) // the connection breaks, even if the time to settle is over now
				kill(ctx, s.t, tx, s.look)
			}
		case commitLost:
			s.deaf.armed.Store(true)
		}
	}
	_, err := tx.Exec(ctx, statement)
	return err
}

func (s *failingService) post() (w *httptest.ResponseRecorder) {
	defer func() {
		if v := recover(); v != nil {
			require.Equal(s.t, "boom", v)
			w = nil
		}
	}()
	return postTo(s.route, "k")
}

func (s *failingService) record(t *testing.T) string {
	t.Helper()
	states := map[int]string{1: "in progress", 2: "completed", 3: "released", 4: "unknown", 5: "quarantined"}
	text := states[queryRow[int](t, s.look, "select state from idempotency")]
	if text == "in progress" && queryRow[bool](t, s.look, "select lease_until <= clock_timestamp() from idempotency") {
		text = "dead"
	}
	if queryRow[bool](t, s.look, "select maybe_ran from idempotency") {
		text += ", may have run"
	}
	return text
}

func answerText(w *httptest.ResponseRecorder) string {
	if w == nil {
		return "panic"
	}
	text := fmt.Sprint(w.Code)
	if code := w.Header().Get(wire.HeaderCode); code != "" {
		text += " " + code
	}
	if w.Header().Get(wire.HeaderReplayed) == "true" {
		text += " replayed"
	}
	return text
}

func headersText(w *httptest.ResponseRecorder) string {
	if w == nil {
		return ""
	}
	var parts []string
	for _, h := range []struct{ name, short string }{
		{wire.HeaderReplayed, "replayed"}, {wire.HeaderShouldRetry, "retry"}, {wire.HeaderRetryAfter, "after"},
	} {
		if v := w.Header().Get(h.name); v != "" {
			parts = append(parts, h.short+"="+v)
		}
	}
	return strings.Join(parts, " ")
}
