package pgkit

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
)

// A LaneConfig says how writes of one kind are sent: each asks a Q, and is
// answered by at most one row, an A.
type LaneConfig[Q, A any] struct {
	// One returns the statement that does q alone, and ScanOne reads its row. It must not
	// wait long for a lock, as by a lock_timeout of a few milliseconds: it keeps a
	// connection, and others wait. Where it fails with [FailureLockTimeout] the caller
	// comes again by [Lane.Alone], for as long as it likes; see [RetryLocked].
	One     func(q Q) Statement
	ScanOne pgx.RowToFunc[A]

	// Many returns one statement that does for all of qs what One does for each,
	// with arrays for arguments, and a function that reads a row of it: to which of
	// qs it is the answer, and the answer. A q without a row has none. Two of qs can
	// mean the same row, as where a caller asks again; each must get what it
	// would get if they came one after the other.
	//
	// The statement must lock rows in an order that is the same for all
	// processes, which is easiest in that of qs, and must not wait long for a lock:
	// those behind it wait as well. Where it fails the flush sends One for each, or does as
	// Again says.
	Many func(qs []Q) (Statement, func(pgx.CollectableRow) (int, A, error))

	// Compare is the order of qs, as by key; those that are equal stay in the order
	// in which they came. nil leaves all of them so. It costs the server several
	// times as much to sort them.
	Compare func(a, b Q) int

	// Again is told how a flush with writes of this lane failed, if it was of several
	// and has changed nothing. Where it reports true all writes of the flush come once
	// more, as if they were new, before it sends One for each: for a Many that makes another
	// statement from then on. nil: never. It must be quick, and safe for concurrent use.
	Again func(err error) bool

	// Bytes returns about how large q is; nil means that all are small. It keeps
	// many large ones from going in one statement.
	Bytes func(q Q) int
}

// Numbers returns 1 to n. As one more array it lets a statement's rows tell to which
// of qs they are the answer.
func Numbers(n int) []int32 {
	numbers := make([]int32, n)
	for i := range numbers {
		numbers[i] = int32(i) + 1 //nolint:gosec // a flush has few
	}
	return numbers
}

// A Lane sends writes of one kind through a [Combiner].
type Lane[Q, A any] struct {
	combiner *Combiner
	cfg      LaneConfig[Q, A]
}

// NewLane adds a lane to c. In a flush the statements of lanes follow each other
// in the order in which the lanes were made. It must be the same in all
// processes, for the sake of the order in which rows are locked.
func NewLane[Q, A any](c *Combiner, cfg LaneConfig[Q, A]) *Lane[Q, A] {
	l := &Lane[Q, A]{c, cfg}
	c.lanes = append(c.lanes, l)
	return l
}

// Do is [Row] for q, which may share its transaction with writes of other
// callers. It blocks until the outcome is known or ctx ends.
//
// If ctx ends before q was sent, or after what it was sent with is known to have
// changed nothing, Do returns ctx's error and q never will be sent;
// later it returns an error wrapping [ErrFateUnknown], and those who share the
// transaction do not notice. Other errors are those of [Row], and
// [ErrQueueFull].
func (l *Lane[Q, A]) Do(ctx context.Context, q Q) (A, bool, error) {
	var none A
	if err := ctx.Err(); err != nil {
		return none, false, err
	}
	if err := l.combiner.arrive(); err != nil {
		return none, false, err
	}
	defer l.combiner.leave()
	r := &request[Q, A]{q: q}
	err := l.combiner.share(ctx, l.entry(r, false))
	if err == errAgain { //nolint:errorlint // it never leaves this package, and is never wrapped
		if err := ctx.Err(); err != nil {
			return none, false, err
		}
		r = &request[Q, A]{q: q} // a statement before the one that failed may have answered the other
		err = l.combiner.share(ctx, l.entry(r, true))
	}
	switch {
	case err == errAlone: //nolint:errorlint // as above
		return l.alone(ctx, q)
	case err != nil:
		return none, false, err
	}
	return r.answer, r.ok, nil
}

// Alone is [Lane.Do] for a q that is likely to fail, or to wait for a lock: it shares its transaction
// with no other. It waits until few others of the combiner do the same.
func (l *Lane[Q, A]) Alone(ctx context.Context, q Q) (A, bool, error) {
	if err := l.combiner.arrive(); err != nil {
		var none A
		return none, false, err
	}
	defer l.combiner.leave()
	return l.alone(ctx, q)
}

func (l *Lane[Q, A]) alone(ctx context.Context, q Q) (A, bool, error) {
	var none A
	if err := ctx.Err(); err != nil {
		return none, false, err
	}
	r := &request[Q, A]{q: q}
	e := l.entry(r, true)
	e.alone = true
	if err := l.combiner.share(ctx, e); err != nil {
		if err == errAlone { //nolint:errorlint // its statement could not be made
			err = l.cfg.One(q).Err()
		}
		return none, false, err
	}
	return r.answer, r.ok, nil
}

func (l *Lane[Q, A]) entry(r *request[Q, A], again bool) *entry {
	e := &entry{lane: l, of: r, again: again, wake: make(chan struct{}, 1)}
	if l.cfg.Bytes != nil {
		e.bytes = l.cfg.Bytes(r.q)
	}
	return e
}

// A request is what a lane knows of an entry. Its caller reads the answer after
// the flush has ended well, and not before.
type request[Q, A any] struct {
	q      Q
	answer A
	ok     bool
}

// A flusher is a [Lane] of whatever types.
type flusher interface {
	one(e *entry) (func(context.Context, *pgx.Conn) error, error)
	many(entries []*entry) part
	each(e *entry) part
	again(err error) bool
}

var errStrayRow = errors.New("pgkit: a row answers no write of its flush")

func (l *Lane[Q, A]) request(e *entry) *request[Q, A] {
	return e.of.(*request[Q, A]) //nolint:errcheck,forcetypeassert // the lane made it
}

func (l *Lane[Q, A]) one(e *entry) (func(context.Context, *pgx.Conn) error, error) {
	r := l.request(e)
	st := l.cfg.One(r.q)
	return func(ctx context.Context, conn *pgx.Conn) (err error) {
		r.answer, r.ok, err = rowAlone(ctx, conn, st, l.cfg.ScanOne)
		return err
	}, st.Err()
}

func (l *Lane[Q, A]) again(err error) bool { return l.cfg.Again != nil && l.cfg.Again(err) }

// many may sort entries.
func (l *Lane[Q, A]) many(entries []*entry) part {
	if compare := l.cfg.Compare; compare != nil {
		slices.SortStableFunc(entries, func(a, b *entry) int { return compare(l.request(a).q, l.request(b).q) })
	}
	qs := make([]Q, len(entries))
	for i, e := range entries {
		qs[i] = l.request(e).q
	}
	st, scan := l.cfg.Many(qs)
	return part{st, func(rows pgx.Rows) error {
		for rows.Next() {
			i, answer, err := scan(rows)
			if err != nil {
				return err
			}
			if i < 0 || i >= len(entries) {
				return fmt.Errorf("%w: %d of %d", errStrayRow, i, len(entries))
			}
			r := l.request(entries[i])
			r.answer, r.ok = answer, true
		}
		return rows.Err()
	}}
}
