package main

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgstore"
)

// payments counts payments and jobs.
const payments = "select (select count(*) from payment) * 100 + (select count(*) from river_job)"

// guardPay guards a handler like the shop's, and returns a function that sends it one request.
func guardPay(t *testing.T, at *place, work func(context.Context, Request) (Receipt, error)) (send func(key string) (status int, body string)) {
	t.Helper()
	mux := http.NewServeMux()
	ready, stop, ended := make(chan struct{}), make(chan struct{}), make(chan error)
	o := at.options()
	o.lease = time.Minute // nothing is killed, and a busy machine must not end a run
	go func() {
		ended <- o.withGuard(t.Context(), "shop", func(_ *pgxpool.Config, guard *server.Guard) error {
			err := server.Handle(mux, guard, pay, server.Transactional, work)
			close(ready)
			<-stop
			return err
		})
	}()
	<-ready
	t.Cleanup(func() {
		close(stop)
		require.NoError(t, <-ended)
	})
	return func(key string) (int, string) {
		req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/payments", strings.NewReader(`{"Account":"ann","Cents":1300}`))
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Idempotency-Key", `"`+key+`"`)
		answer := httptest.NewRecorder()
		mux.ServeHTTP(answer, req)
		return answer.Code, answer.Body.String()
	}
}

// A run that fails leaves neither payment nor job, whatever it did before. Its repeat makes one of each, and a replay
// makes none. The job's message has the same key in each attempt.
func TestPay_oneJob(t *testing.T) {
	t.Parallel()
	at := newPlace(t)
	jobs, err := at.options().newJobs(at.pool, nil)
	require.NoError(t, err)
	c := checkout{jobs, at.topic}
	var ids []string
	fail := errors.New("no more")
	send := guardPay(t, at, func(ctx context.Context, in Request) (Receipt, error) {
		receipt, err := c.pay(ctx, in)
		require.NoError(t, err)
		require.Equal(t, 1, countTx(t, pgstore.Tx(ctx), "select count(*) from river_job"), "the run sees its job")
		ids = append(ids, receipt.ID)
		return receipt, fail
	})
	status, _ := send("order-1")
	require.Equal(t, http.StatusInternalServerError, status)
	require.Zero(t, count(t, at.pool, payments))
	fail = nil
	status, first := send("order-1")
	require.Equal(t, http.StatusOK, status, first)
	require.Equal(t, 101, count(t, at.pool, payments))
	status, replay := send("order-1")
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, first, replay)
	require.Equal(t, 101, count(t, at.pool, payments))
	require.Len(t, ids, 2, "runs")
	require.Equal(t, ids[0], ids[1])
	require.Equal(t, 1, count(t, at.pool, "select count(*) from river_job where args->>'Key' = $1", ids[0]))
}

// Each way in which River inserts works in the run's transaction: in a savepoint, several jobs with one statement, and
// with COPY. A savepoint that is rolled back takes its jobs along.
func TestPay_waysToInsert(t *testing.T) {
	t.Parallel()
	at := newPlace(t)
	jobs, err := at.options().newJobs(at.pool, nil)
	require.NoError(t, err)
	m := newMessage(at.topic)
	send := guardPay(t, at, func(ctx context.Context, _ Request) (Receipt, error) {
		run := pgstore.Tx(ctx)
		for _, end := range []func(pgx.Tx, context.Context) error{pgx.Tx.Rollback, pgx.Tx.Commit} {
			savepoint, err := run.Begin(ctx)
			require.NoError(t, err)
			_, err = jobs.InsertTx(ctx, savepoint, m, nil)
			require.NoError(t, err)
			require.NoError(t, end(savepoint, ctx))
		}
		two := []river.InsertManyParams{{Args: m}, {Args: m}}
		_, err := jobs.InsertManyTx(ctx, run, two)
		require.NoError(t, err)
		_, err = jobs.InsertManyFastTx(ctx, run, two)
		require.NoError(t, err)
		return Receipt{}, nil
	})
	status, body := send("order-1")
	require.Equal(t, http.StatusOK, status, body)
	require.Equal(t, 5, count(t, at.pool, payments))
}

// A shop that listens sends a NOTIFY with its job. A shop that only polls sends none, and works its jobs.
func TestPay_pollOnly(t *testing.T) {
	t.Parallel()
	at := newPlace(t)
	listener, err := at.pool.Acquire(t.Context())
	require.NoError(t, err)
	defer listener.Release()
	_, err = listener.Exec(t.Context(), `listen "public.river_insert"`)
	require.NoError(t, err)
	for _, pollOnly := range []bool{true, false} {
		o := at.options()
		o.pollOnly = pollOnly
		published := make(chan Message, 1)
		jobs, err := o.newJobs(at.pool, func(_ context.Context, m Message) error {
			published <- m
			return nil
		})
		require.NoError(t, err)
		require.NoError(t, jobs.Start(context.WithoutCancel(t.Context())))
		_, err = jobs.Insert(t.Context(), newMessage(at.topic), nil)
		require.NoError(t, err)
		<-published
		require.NoError(t, jobs.Stop(context.WithoutCancel(t.Context())))
		notice := takeNotice(t, listener.Conn())
		require.Equal(t, !pollOnly, notice != nil, "poll only: %v, notice: %v", pollOnly, notice)
	}
}

// takeNotice returns a notification that is there, or nil.
func takeNotice(t *testing.T, conn *pgx.Conn) *pgconn.Notification {
	t.Helper()
	_, err := conn.Exec(t.Context(), "select") // the server sends what is due before its answer
	require.NoError(t, err)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	notice, err := conn.WaitForNotification(ended)
	if err != nil {
		require.ErrorIs(t, err, context.Canceled)
	}
	return notice
}
