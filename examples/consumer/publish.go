package main

import (
	"context"
	"math"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
)

// publishers is how many messages a shop publishes at the same time.
const publishers = 16

// Kind implements [river.JobArgs]: the arguments of a job are the message that it publishes.
func (Message) Kind() string { return "publish" }

// A publisher is River's worker. It brings messages to the broker.
type publisher struct {
	river.WorkerDefaults[Message]

	publish func(ctx context.Context, m Message) error
}

// Work publishes a message. River records a little later that the job is done. If the process is killed before that, the
// message is published again, with the same key.
func (p *publisher) Work(ctx context.Context, job *river.Job[Message]) error {
	return p.publish(ctx, job.Args)
}

// NextRetry waits one second longer after each failure, up to a minute.
func (p *publisher) NextRetry(job *river.Job[Message]) time.Time {
	return time.Now().Add(min(time.Duration(job.Attempt)*time.Second, time.Minute))
}

// newJobs returns the River client that inserts the jobs and, once it is started, works them.
func (o *options) newJobs(pool *pgxpool.Pool, publish func(context.Context, Message) error) (*river.Client[pgx.Tx], error) {
	workers := river.NewWorkers()
	if err := river.AddWorkerSafely(workers, &publisher{publish: publish}); err != nil {
		return nil, err
	}
	var driver riverdriver.Driver[pgx.Tx] = riverpgxv5.New(pool)
	if o.pollOnly {
		driver = silentDriver{riverpgxv5.New(pool)}
	}
	return river.NewClient(driver, &river.Config{
		Queues:            map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: publishers}},
		Workers:           workers,
		PollOnly:          o.pollOnly,
		FetchPollInterval: 100 * time.Millisecond,
		JobTimeout:        5 * time.Second,
		// The jobs of a killed process are published again after this time.
		RescueStuckJobsAfter: 10 * time.Second,
		// River deletes a job whose attempts are spent. A payment must not be lost, however long the broker is away.
		MaxAttempts:                 math.MaxInt16,
		DiscardedJobRetentionPeriod: -1,
		Logger:                      o.log,
	})
}

// A silentDriver sends no NOTIFY. Config.PollOnly alone only leaves out LISTEN. An insert would still notify, and at its
// COMMIT a transaction that notifies takes a lock which all databases of the server share.
type silentDriver struct{ *riverpgxv5.Driver }

// SupportsListenNotify implements [riverdriver.Driver].
func (silentDriver) SupportsListenNotify() bool { return false }
