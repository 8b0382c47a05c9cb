package console

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/fanonce/fanonce/server/store"
)

// How one request works on a job. The time is short enough for every proxy, and the parts are small enough that a
// person sees progress.
const (
	partTime    = 3 * time.Second
	partTargets = 64
	partWorkers = 8
	moveTimeout = 10 * time.Second
)

// A target is one thing that a verb changes.
type target struct {
	ID      store.ID
	Version int64
	Text    string // for people
}

// A workshop does the work of the jobs of one kind.
type workshop interface {
	// page returns the next targets of a list, and the cursor after them. The cursor is empty at the end.
	page(ctx context.Context, j *job, cursor string, limit int) ([]target, string, error)
	// show reads the named targets. A target that is gone has its Text, and keeps its version.
	show(ctx context.Context, t named) (target, error)
	// move changes one target. refused says why the target does not allow it; err means that nothing is known.
	move(ctx context.Context, j *job, t target, actor string) (refused string, err error)
}

// nextTargets returns the next targets of the job, and the cursor after them.
func (j *job) nextTargets(ctx context.Context, w workshop, limit int) ([]target, string, error) {
	if j.All() {
		return w.page(ctx, j, j.Cursor, limit)
	}
	at, _ := strconv.Atoi(j.Cursor) // the empty cursor is 0
	if at < 0 || at >= len(j.Targets) {
		return nil, "", nil
	}
	end := min(at+limit, len(j.Targets))
	targets := make([]target, 0, end-at)
	for _, t := range j.Targets[at:end] {
		targets = append(targets, target{ID: t.ID, Version: t.Version, Text: t.ID.String()})
	}
	if end == len(j.Targets) {
		return targets, "", nil
	}
	return targets, strconv.Itoa(end), nil
}

// work does a part of the job, and reports whether the job is at its end. After an error the cursor is where the
// failed part began. Its targets that are done refuse the verb now, or do not match any more.
func (j *job) work(ctx context.Context, w workshop, actor string) (ended bool, err error) {
	for begin := time.Now(); ; {
		targets, cursor, err := j.nextTargets(ctx, w, partTargets)
		if err != nil {
			return false, err
		}
		if err := j.moveAll(ctx, w, targets, actor); err != nil {
			return false, err
		}
		j.Cursor = cursor
		switch {
		case cursor == "":
			return true, nil
		case ctx.Err() != nil:
			return false, ctx.Err()
		case time.Since(begin) > partTime:
			return false, nil
		}
	}
}

// moveAll moves the targets, some at a time. It returns an error of one of them.
func (j *job) moveAll(ctx context.Context, w workshop, targets []target, actor string) error {
	var (
		all   sync.WaitGroup
		mu    sync.Mutex
		first error
	)
	queue := make(chan target, len(targets))
	for _, t := range targets {
		queue <- t
	}
	close(queue)
	for range min(partWorkers, len(targets)) {
		all.Go(func() {
			for t := range queue {
				if ctx.Err() != nil { // the person closed the page: no further change begins
					return
				}
				refused, err := moveOne(ctx, w, j, t, actor)
				mu.Lock()
				switch {
				case err != nil:
					first = err
				case refused != "":
					j.Refused++
					j.refuse(t.Text + ": " + refused)
				default:
					j.Done++
				}
				failed := first != nil
				mu.Unlock()
				if failed {
					return
				}
			}
		})
	}
	all.Wait()
	if first == nil {
		return ctx.Err()
	}
	return first
}

// moveOne gives one change its time, also if the person closes the page: its fate would be unknown.
func moveOne(ctx context.Context, w workshop, j *job, t target, actor string) (string, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), moveTimeout)
	defer cancel()
	return w.move(ctx, j, t, actor)
}

// maxCount bounds the count of a confirmation.
const (
	maxCount  = 10_000
	countTime = 2 * time.Second
)

// count counts the targets of a job for all that match, up to a bound. atLeast says that there may be more.
func (j *job) count(ctx context.Context, w workshop) (sample []target, n int64, atLeast bool, err error) {
	cursor := ""
	for begin := time.Now(); ; {
		targets, next, err := w.page(ctx, j, cursor, 1000)
		if err != nil {
			return nil, 0, false, err
		}
		if sample == nil {
			sample = targets[:min(len(targets), 10)]
		}
		n += int64(len(targets))
		switch {
		case next == "":
			return sample, n, false, nil
		case n >= maxCount || time.Since(begin) > countTime:
			return sample, n, true, nil
		}
		cursor = next
	}
}
