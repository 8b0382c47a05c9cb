package pgstore

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/fanonce/fanonce/internal/pgkit"
	"github.com/fanonce/fanonce/server/store"
)

// Answers says where the answers of completed keys are kept. The keys themselves
// are always in one table, and so each is there once.
type Answers uint8

const (
	// AnswersInline keeps an answer in its key's record: one row, one update
	// and nothing to maintain.
	AnswersInline Answers = iota
	// AnswersPartitioned keeps answers in a table of their own, in partitions by the time that they
	// are kept until. Partitions are dropped whole. It is for many or large answers.
	// [Store.MaintainPartitions] must be called regularly. An answer without a partition is kept in
	// its record.
	AnswersPartitioned
	// AnswersLeaving keeps new answers in their records, and still finds answers in partitions. It
	// is for the way back, as long as partitions hold answers.
	AnswersLeaving
)

// partitioned says when an answer may go to a partition: as far as partitions were seen to reach,
// and no nearer to their end than clocks can differ.
type partitioned struct {
	until   atomic.Int64 // Unix seconds; 0: not known to be any
	records high         // how long records were asked to be kept
	answers high         // and answers
}

// clockMargin is by how much this process's clock may be behind the server's.
const clockMargin = time.Minute

// takes reports whether there is a partition for the answer.
func (p *partitioned) takes(end store.Settlement) bool {
	if end.State != store.StateCompleted || end.Answer.Envelope == nil {
		return false
	}
	keep := end.KeepAnswer
	if keep == 0 { // as long as the record
		keep = max(p.records.get(), end.ReplayFor)
	}
	p.answers.put(keep)
	return time.Now().Add(keep + clockMargin).Before(time.Unix(p.until.Load(), 0))
}

// high is the longest duration put in. It is safe for concurrent use.
type high struct{ atomic.Int64 }

func (l *high) get() time.Duration { return time.Duration(l.Load()) }

func (l *high) put(d time.Duration) {
	for most := l.Load(); int64(d) > most; most = l.Load() {
		if l.CompareAndSwap(most, int64(d)) {
			return
		}
	}
}

// apart reports whether the answer goes to a partition.
func (s *Store) apart(end store.Settlement) bool {
	return s.cfg.Answers == AnswersPartitioned && s.partitioned.takes(end)
}

// settleRow ends the owner's run, and returns false if the owner has none. If the answer finds no
// partition, settleRow keeps it in its record. Then somebody took the partition away, or the
// server's clock is ahead of this process's clock. If a transaction, such as an undo's, holds the
// record, it waits for Config.LockTimeout, and holds no connection meanwhile.
func (s *Store) settleRow(ctx context.Context, o store.Owner, end store.Settlement) (bool, error) {
	apart, tries := s.apart(end), 0
	for wait := pgkit.WaitForLock(s.cfg.LockTimeout); ; {
		ok, err := s.settleOnce(ctx, settlement{o, end}, apart)
		if apart && s.lacksPartition(err) {
			apart = false
			continue
		}
		tries++
		if !pgkit.AgainAfterConflict(ctx, tries, err) && !wait.Again(ctx, err) {
			return ok, err
		}
	}
}

func (s *Store) settleOnce(ctx context.Context, end settlement, apart bool) (bool, error) {
	if needsAttention(end.end) {
		return s.settleNoted(ctx, end)
	}
	return s.rows.settle(ctx, end, apart)
}

// lacksPartition reports that an answer found no partition, so that nothing changed. From
// then on answers go to their records, until the next look at the partitions.
func (s *Store) lacksPartition(err error) bool {
	var pgErr *pgconn.PgError
	if errors.Is(err, pgkit.ErrFateUnknown) || !errors.As(err, &pgErr) || pgErr.Code != "23514" || pgErr.ConstraintName != "" {
		return false
	}
	if pgErr.TableName != "idempotency_answer" && !ofWorker(pgErr) {
		return false
	}
	s.partitioned.until.Store(0)
	return true
}

// An answerSweep is how far this process has come with dropping answers that are
// past their time and in their records.
type answerSweep struct {
	mu    sync.Mutex
	after time.Time
}

// answerWindow is how many records are looked at for each answer that may be
// dropped.
const answerWindow = 10

// leastWindow is more than expire at one moment, as the claims of one flush do: where a window
// holds no other moment, the next begins where it began.
const leastWindow = 1024

// seen is a window of the records.
type seen struct {
	end                     pgtype.Timestamptz
	count, dropped, waiting int64
	needy                   int64 // keys that need a person
}

// dropAnswers drops at most limit of the answers that are past their time. It looks at a window of
// the records, and the next call looks at the next window. No index could tell which answers are
// due. Every completion would have to maintain such an index, and would cost more.
func (s *Store) dropAnswers(ctx context.Context, limit int) error {
	s.answers.mu.Lock()
	defer s.answers.mu.Unlock()
	window := max(int64(limit)*answerWindow, leastWindow)
	st := s.query.dropAnswers.Bind(pgx.NamedArgs{"after": after(s.answers.after), "limit": int64(limit), "window": window})
	if s.query.distributed {
		st = s.query.answerKeys.Bind(pgx.NamedArgs{"after": after(s.answers.after), "window": window})
	}
	w, err := pgkit.RetryConflict(ctx, func() (seen, error) {
		if s.query.distributed {
			return s.dropAnswersByKey(ctx, st, limit)
		}
		w, _, err := pgkit.Row(ctx, s.db.Writer, st, func(row pgx.CollectableRow) (w seen, err error) {
			return w, row.Scan(&w.end, &w.count, &w.dropped, &w.waiting, &w.needy)
		})
		return w, err
	})
	if err == nil && w.needy > 0 {
		err = s.findAttention(ctx, after(s.answers.after), w.end)
	}
	if err != nil {
		return err
	}
	switch {
	case w.dropped == int64(limit): // perhaps there are more in this window
	case w.count < window, w.waiting == w.count: // the end, or nothing but what is too young
		s.answers.after = time.Time{}
	default:
		s.answers.after = w.end.Time
	}
	return nil
}
