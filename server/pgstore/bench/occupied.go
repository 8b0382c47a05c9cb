package main

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
)

// An occupation is the number of a server's busy connections in each state, summed over many looks
// at them.
type occupation struct {
	Running int // They have, or want, a processor.
	Log     int // They flush the log, or wait for a flush.
	Others  int // They wait for another's row, page or lock, or for the disk.
	Client  int // In a transaction, they wait for the next statement.
}

func (o occupation) sum() int { return o.Running + o.Log + o.Others + o.Client }

func (o *occupation) add(more occupation) {
	o.Running += more.Running
	o.Log += more.Log
	o.Others += more.Others
	o.Client += more.Client
}

// occupationQuery leaves out the connection that looks, and idle connections. WALWrite is both the
// lock that flushes take and the write before them.
const occupationQuery = `select count(*) filter (where state = 'active' and wait_event is null) as running,
	count(*) filter (where state = 'active' and wait_event in ('WALWrite', 'WALSync')) as log,
	count(*) filter (where state = 'active' and wait_event not in ('WALWrite', 'WALSync', 'ClientRead', 'ClientWrite')) as others,
	count(*) filter (where state like 'idle in transaction%' or wait_event in ('ClientRead', 'ClientWrite') and state = 'active') as client
from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid()`

// betweenLooks is the pause between two looks.
const betweenLooks = 5 * time.Millisecond

// measureConnections makes a figure of the mean number of the server's connections in each state, while a
// variant has a turn of its own. If the variant falls short of a goal, the figure says whether the
// processor is short, or the disk, or neither. Callers that the server does not know of are on
// their way, or being served in this process.
func measureConnections(ctx context.Context, e effort, open func() (*variant, error)) (f figure, err error) {
	v, err := warm(ctx, e, open)
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, v.close()) }()
	var all occupation
	looks := 0
	over, looked := make(chan struct{}), make(chan error, 1)
	go func() { looked <- look(ctx, v.server, over, func(now occupation) { all.add(now); looks++ }) }()
	_, err = v.turn(ctx, time.Duration(e.slices)*e.slice)
	close(over)
	if err = errors.Join(err, <-looked); err != nil {
		return f, err
	}
	share := func(n int) float64 { return float64(n) / float64(looks) }
	return figure{Name: "… " + v.name + ", what its connections are at", Measures: []measure{
		number("busy", share(all.sum()), "", nil),
		number("running", share(all.Running), "", nil),
		number("flush the log", share(all.Log), "", nil),
		number("wait for others", share(all.Others), "", nil),
		number("wait for the client", share(all.Client), "", nil),
	}}, nil
}

// look tells what the server's connections are at, again and again until it is over.
func look(ctx context.Context, on *postgres, over <-chan struct{}, tell func(occupation)) error {
	for {
		rows, err := on.look.Query(ctx, occupationQuery)
		if err != nil {
			return err
		}
		now, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[occupation])
		if err != nil {
			return err
		}
		tell(now)
		select {
		case <-over:
			return nil
		case <-time.After(betweenLooks):
		}
	}
}
