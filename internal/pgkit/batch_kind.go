package pgkit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
)

// A BatchKindConfig says how writes of one kind, or reads, are sent: each asks a Q, and is
// answered by at most one row, an A.
type BatchKindConfig[Q, A any] struct {
	// One returns the statement that does q alone, and ScanOne reads its row. It must not wait long
	// for a lock, because it keeps a connection, and others wait. A lock_timeout of a few
	// milliseconds bounds the wait. If it fails with [FailureLockTimeout] the caller sends it again
	// by [BatchKind.DoAlone], for as long as it likes; see [RetryLocked].
	One     func(q Q) Statement
	ScanOne pgx.RowToFunc[A]

	// Many returns one statement, with arrays for arguments, that does the work of One for all of
	// qs. These are of one shard if there is a Place. It also returns a function that reads a row
	// of the result: the index in qs that the row answers, and the answer. A q without a row has no
	// answer. Two of qs can mean the same row, for example when a caller asks again. Each must get
	// the answer that it would get if they came one after the other.
	//
	// The statement must lock rows in an order that is the same for all processes; the order of qs
	// is the easiest. It must not wait long for a lock: the writes behind it wait as well. If it
	// fails, the flush sends One for each.
	Many func(qs []Q) (Statement, func(pgx.CollectableRow) (int, A, error))

	// Asynchronous reports whether q may be answered before it is durable. A crash of the server then
	// forgets q together with each later write. The commit of a flush is asynchronous if this holds
	// for all of its writes, and if the pool has lost no connection for ten minutes. Then a write that
	// is sent alone is the statement of OneAsynchronous: One with an asynchronous commit. nil means
	// never.
	Asynchronous    func(q Q) bool
	OneAsynchronous func(q Q) Statement

	// Finishes says that each write of this kind ends work that a write of another kind began. It goes before those,
	// and is never refused because the queue is full: there are no more of them than writes that began work.
	Finishes bool

	// Compare is the order of qs, for example by key. Equal qs stay in the order in which they
	// came. With nil all of them stay in that order. Sorting them costs the server several times as
	// much.
	Compare func(a, b Q) int

	// Place says where the row of q is. A flush has the writes of one node, and each shard has a
	// statement of its own. All kinds of a combiner have the same shards. nil means that it is not
	// known, and all writes go together.
	Place func(q Q) Place

	// Bytes returns about how large q is; nil means that all are small. It keeps many large qs from
	// going in one statement.
	Bytes func(q Q) int
}

// Numbers returns 1 to n. As one more array they let a statement's rows tell which of qs they
// answer.
func Numbers(n int) []int32 {
	numbers := make([]int32, n)
	for i := range numbers {
		numbers[i] = int32(i) + 1 //nolint:gosec // a flush has few
	}
	return numbers
}

// A BatchKind sends writes of one kind, or reads, through a [Combiner].
type BatchKind[Q, A any] struct {
	combiner *Combiner
	cfg      BatchKindConfig[Q, A]
}

// NewBatchKind adds a kind to c. In a flush the statements of kinds follow each other
// in the order in which the kinds were made. It must be the same in all
// processes, for the sake of the order in which rows are locked.
func NewBatchKind[Q, A any](c *Combiner, cfg BatchKindConfig[Q, A]) *BatchKind[Q, A] {
	k := &BatchKind[Q, A]{c, cfg}
	c.kinds = append(c.kinds, k)
	return k
}

// Do is [Row] for q, which may share its transaction with writes of other
// callers. It blocks until the outcome is known or ctx ends.
//
// If ctx ends before q was sent, or once the flush of q is known to have changed nothing, Do
// returns ctx's error, and q will never be sent. If ctx ends later, Do returns an error wrapping
// [ErrFateUnknown], and the callers that share the transaction do not notice. Other errors are
// those of [Row], and [ErrQueueFull].
func (k *BatchKind[Q, A]) Do(ctx context.Context, q Q) (none A, ok bool, err error) {
	c := k.combiner
	if c.cfg.Separate {
		return k.sendSeparately(ctx, q)
	}
	if err := c.arrive(ctx); err != nil {
		return none, false, err
	}
	defer c.leave()
	r := k.request(q)
	e := &r.entry
	lead, err := c.enter(e)
	for ended := false; err == nil && !ended; {
		left := false
		if lead {
			err = c.lead(ctx, e)
		}
		if err == nil && e.wake != nil {
			select {
			case <-e.wake:
			case <-ctx.Done():
				if left = !stays(ctx) || !c.isSent(e); !left {
					<-e.wake
				}
			}
		}
		switch {
		case err != nil:
		case left:
			ended, err = true, blamePool(c.pool, c.abandon(ctx, e))
		default:
			lead, ended, err = c.progress(e)
		}
	}
	switch {
	case err == errAlone: //nolint:errorlint // it never leaves this package, and is never wrapped
		return k.sendAlone(ctx, q)
	case err != nil:
		return none, false, err
	}
	return r.answer, r.ok, nil
}

// DoAlone is [BatchKind.Do] for a q that is likely to fail, or to wait for a lock: it shares its transaction
// with no other. It waits until few others of the combiner do the same.
func (k *BatchKind[Q, A]) DoAlone(ctx context.Context, q Q) (none A, ok bool, err error) {
	c := k.combiner
	if c.cfg.Separate {
		return k.sendSeparately(ctx, q)
	}
	if err := c.arrive(ctx); err != nil {
		return none, false, err
	}
	defer c.leave()
	return k.sendAlone(ctx, q)
}

// sendAlone sends q by itself. Few do so at once, because each takes a connection.
func (k *BatchKind[Q, A]) sendAlone(ctx context.Context, q Q) (none A, ok bool, err error) {
	c := k.combiner
	select {
	case c.singles <- struct{}{}:
		defer func() { <-c.singles }()
		return k.sendSeparately(ctx, q)
	case <-c.refused:
		return none, false, ErrClosed
	case <-ctx.Done():
		return none, false, blamePool(c.pool, ctx.Err())
	}
}

// sendSeparately sends q by itself, on whatever connection the pool has.
func (k *BatchKind[Q, A]) sendSeparately(ctx context.Context, q Q) (A, bool, error) {
	if k.combiner.writer != nil {
		return Row(ctx, k.combiner.writer, k.cfg.One(q), k.cfg.ScanOne)
	}
	answer, err := One(ctx, k.combiner.pool, k.cfg.One(q), k.cfg.ScanOne)
	if errors.Is(err, pgx.ErrNoRows) {
		return answer, false, nil
	}
	return answer, err == nil, err
}

func (k *BatchKind[Q, A]) request(q Q) *request[Q, A] {
	r := &request[Q, A]{q: q}
	r.kind, r.of, r.finishes = k, r, k.cfg.Finishes
	if k.cfg.Bytes != nil {
		r.bytes = k.cfg.Bytes(q)
	}
	if k.cfg.Place != nil {
		r.place = k.cfg.Place(q)
	}
	return r
}

// A request is an entry with the part that a kind knows. Its caller reads the answer after the
// flush has ended well, and not before.
type request[Q, A any] struct {
	entry

	q      Q
	answer A
	ok     bool
}

// flusher is the part of a BatchKind that does not depend on its types.
type flusher interface {
	one(e *entry, asynchronous bool) part
	many(entries []*entry) []part
	isAsynchronous(e *entry) bool
}

var errStrayRow = errors.New("a row answers no write of its flush")

func (k *BatchKind[Q, A]) requestOf(e *entry) *request[Q, A] {
	return e.of.(*request[Q, A]) //nolint:errcheck,forcetypeassert // the kind made it
}

// one returns the statement of e alone.
func (k *BatchKind[Q, A]) one(e *entry, asynchronous bool) part {
	r := k.requestOf(e)
	var none A
	r.answer, r.ok = none, false // the statement for several may have answered, and was rolled back
	statement := k.cfg.One
	if asynchronous {
		statement = k.cfg.OneAsynchronous
	}
	return part{statement(r.q), func(rows pgx.Rows) error {
		answer, err := pgx.CollectOneRow(rows, k.cfg.ScanOne)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err == nil {
			r.answer, r.ok = answer, true
		}
		return err
	}}
}

func (k *BatchKind[Q, A]) isAsynchronous(e *entry) bool {
	return k.cfg.Asynchronous != nil && k.cfg.Asynchronous(k.requestOf(e).q)
}

// many returns a statement for each shard. It may sort entries.
func (k *BatchKind[Q, A]) many(entries []*entry) (parts []part) {
	slices.SortStableFunc(entries, func(a, b *entry) int {
		if c := cmp.Compare(a.place.Shard, b.place.Shard); c != 0 || k.cfg.Compare == nil {
			return c
		}
		return k.cfg.Compare(k.requestOf(a).q, k.requestOf(b).q)
	})
	for len(entries) > 0 {
		n := 1
		for n < len(entries) && entries[n].place.Shard == entries[0].place.Shard {
			n++
		}
		parts = append(parts, k.ofShard(entries[:n:n]))
		entries = entries[n:]
	}
	return parts
}

// ofShard returns the statement for entries, all of one shard.
func (k *BatchKind[Q, A]) ofShard(entries []*entry) part {
	if len(entries) == 1 && entries[0].place != (Place{}) {
		return k.one(entries[0], false)
	}
	qs := make([]Q, len(entries))
	for i, e := range entries {
		qs[i] = k.requestOf(e).q
	}
	st, scan := k.cfg.Many(qs)
	return part{st, func(rows pgx.Rows) error {
		for rows.Next() {
			i, answer, err := scan(rows)
			if err != nil {
				return err
			}
			if i < 0 || i >= len(entries) {
				return fmt.Errorf("%w: %d of %d", errStrayRow, i, len(entries))
			}
			r := k.requestOf(entries[i])
			r.answer, r.ok = answer, true
		}
		return rows.Err()
	}}
}
