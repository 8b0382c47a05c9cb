package main

import (
	"context"
	"flag"
	"net"
	"net/url"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var outage = flag.Duration("consumer.outage", 2*time.Second, "how long TestLedger_outage is without its database, and then without its broker")

// The database goes away while ledgers are in the middle of their runs, and later the broker goes away. Messages arrive
// all the time. Each one is booked once, and none is a dead letter, however long an outage is. The long form:
//
//	go test -run TestLedger_outage -consumer.outage 60s -timeout 30m
func TestLedger_outage(t *testing.T) {
	t.Parallel()
	eachBroker(t, func(t *testing.T, at *place) {
		database := startDatabaseProxy(t, at)
		jobs, _ := startJobs(t, at)
		ledgers := []*process{at.start(t, "ledger"), at.start(t, "ledger")}
		arrived := arrive(t, at, jobs)
		at.untilBooked(t, 20)

		holdRuns(t, at, database.shut)
		time.Sleep(*outage)
		database.open()
		recovered := at.timeToBook(t, 20)
		at.gate.shut()
		time.Sleep(*outage)
		at.gate.open()
		reconnected := at.timeToBook(t, 20)

		n := arrived()
		at.untilBooked(t, n)
		at.untilQuiet(t)
		for _, l := range ledgers {
			l.stop(t)
		}
		requireOnce(t, at, n)
		require.Zero(t, at.waiting(t), "messages that are not acknowledged")
		require.Zero(t, count(t, at.pool, "select count(*) from dead_letter"))
		require.Empty(t, at.dead(t))
		t.Logf("%d payments, outages of %v; booking again %v after the database's and %v after the broker's", n, *outage, recovered, reconnected)
	})
}

// startDatabaseProxy puts a proxy between the database and the processes that the test starts from now on.
func startDatabaseProxy(t *testing.T, at *place) *proxy {
	t.Helper()
	cfg := at.pool.Config().ConnConfig
	p := startProxy(t, net.JoinHostPort(cfg.Host, strconv.Itoa(int(cfg.Port))))
	u, err := url.Parse(cfg.ConnString())
	require.NoError(t, err)
	u.Host = p.address
	at.proxied = u.String()
	return p
}

// holdRuns calls do when runs of the ledgers wait for the table of entries.
func holdRuns(t *testing.T, at *place, do func()) {
	t.Helper()
	tx, err := at.pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "lock table entry")
	require.NoError(t, err)
	require.Eventually(t, func() bool { return countTx(t, tx, blocked) > 0 }, time.Minute, 5*time.Millisecond, "runs have begun")
	do()
	require.NoError(t, tx.Rollback(t.Context()))
}

// timeToBook waits until n more payments are booked.
func (p *place) timeToBook(t *testing.T, n int) time.Duration {
	t.Helper()
	began := time.Now()
	p.untilBooked(t, n+count(t, p.pool, "select count(*) from entry"))
	return time.Since(began).Round(10 * time.Millisecond)
}

// arrive commits payments, with the jobs that publish them, until the result is called. It returns how many they were.
func arrive(t *testing.T, at *place, jobs *river.Client[pgx.Tx]) (stop func() int) {
	t.Helper()
	ctx, end, n := context.WithoutCancel(t.Context()), make(chan struct{}), 0
	var running sync.WaitGroup
	running.Go(func() {
		for ; ; n++ {
			select {
			case <-end:
				return
			case <-time.After(20 * time.Millisecond):
			}
			err := pgx.BeginFunc(ctx, at.pool, func(tx pgx.Tx) error {
				m, err := writePayment(ctx, tx, at, n)
				if err != nil {
					return err
				}
				_, err = jobs.InsertTx(ctx, tx, m, nil)
				return err
			})
			if !assert.NoError(t, err) {
				return
			}
		}
	})
	stop = sync.OnceValue(func() int {
		close(end)
		running.Wait()
		return n
	})
	t.Cleanup(func() { stop() })
	return stop
}
