package pgjournal

import (
	"fmt"
	"slices"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga/journal"
)

// A saga's entries are a log in one column: each write appends its own, and of those
// for one call the last counts. So a write need not know what there is, and the
// server's own log gets little more than what is new.

// largeResult is the length from which on a result goes into the side table: in its
// saga's row every further step would write it again.
const largeResult = 32 << 10

// A logged entry is one as it is in the log.
type logged struct {
	journal.Entry

	elsewhere place  // of a Result in the side table
	raw       []byte // as it was read
}

// A place is where in the side table a result is; the zero place is nowhere.
type place struct {
	revision int64
	position int64 // from 1
}

// The marks of an entry say which of its parts follow. They are stored: a new one
// takes the next bit.
const (
	markUndo = 1 << iota
	markPending
	markAt
	markRetryAt
	markResult
	markElsewhere
	markForced
	markSeen // Status, Code and Detail
	markNothing
	markProblem
	markBody
	markBodyTooLong
	markFirstSent
	markSkipped
	markEnd // the first bit without a meaning
)

// inline is the revision for a log whose results all stay in it: no write of that revision
// puts results aside.
const inline = 0

// logOf returns the entries as they are appended at a revision, and the results
// among them that go into the side table.
func (s sealer) logOf(id journal.ID, entries []journal.Entry, revision int64) (log []byte, large [][]byte, err error) {
	log = []byte{}
	for _, e := range entries {
		l := logged{Entry: e}
		if len(e.Result) > largeResult && revision != inline {
			l.elsewhere, l.Result = place{revision, int64(len(large) + 1)}, nil
			result, err := s.seal(e.Result, kindLarge, id, l.elsewhere.toParts(e.Step)...)
			if err != nil {
				return nil, nil, err
			}
			large = append(large, result)
		}
		data, err := s.seal(l.pack(), kindEntry, id)
		if err != nil {
			return nil, nil, err
		}
		log = (*packed)(&log).appendBytes(data)
	}
	return log, large, nil
}

// endLog appends the end of a log: an entry of no bytes. The log of a finished saga has this end.
// So a log that was cut off between two entries is recognized.
func endLog(log []byte) []byte { return (*packed)(&log).appendBytes(nil) }

// pack returns the entry as it is in a log, before it is sealed.
func (l *logged) pack() []byte {
	var marks uint64
	mark := func(bit uint64, is bool) {
		if is {
			marks |= bit
		}
	}
	mark(markUndo, l.Undo)
	mark(markPending, l.Pending)
	mark(markAt, !l.At.IsZero())
	mark(markRetryAt, !l.RetryAt.IsZero())
	mark(markResult, l.Result != nil)
	mark(markElsewhere, l.elsewhere != place{})
	mark(markForced, l.Forced != "")
	mark(markNothing, l.Nothing)
	mark(markSkipped, l.Skipped)
	mark(markProblem, l.Problem != "")
	mark(markBody, l.Body != nil)
	mark(markBodyTooLong, l.BodyTooLong)
	mark(markFirstSent, !l.FirstSent.IsZero())
	mark(markSeen, l.Status != 0 || l.Code != "" || l.Detail != "")
	b := packed{codecVersion}
	b.uint(marks)
	b.uint(uint64(l.Outcome))
	b.int(int64(l.Attempts))
	b.text(l.Step)
	if marks&markAt != 0 {
		b.time(l.At)
	}
	if marks&markRetryAt != 0 {
		b.time(l.RetryAt)
	}
	if marks&markResult != 0 {
		b.bytes(l.Result)
	}
	if marks&markElsewhere != 0 {
		b.int(l.elsewhere.revision)
		b.int(l.elsewhere.position)
	}
	if marks&markForced != 0 {
		b.text(l.Forced)
	}
	if marks&markSeen != 0 {
		b.int(int64(l.Status))
		b.text(string(l.Code))
		b.text(l.Detail)
	}
	if marks&markProblem != 0 {
		b.text(l.Problem)
	}
	if marks&markBody != 0 {
		b.bytes(l.Body)
	}
	if marks&markFirstSent != 0 {
		b.time(l.FirstSent)
	}
	return b
}

// parseLog returns the last entry of each call in a log. Their order is that of the first entries
// of the calls. ended says that the log has an end after its entries. The error wraps errNewer if
// a later build wrote the log.
func (s sealer) parseLog(id journal.ID, log []byte) (all []logged, ended bool, err error) {
	r := unpacker{rest: log}
	for len(r.rest) > 0 {
		raw := r.bytes()
		if ended = !r.broken && len(raw) == 0; ended {
			continue
		}
		if r.broken {
			raw = nil
		}
		l, err := s.parseEntry(id, raw)
		if err != nil {
			return nil, false, fmt.Errorf("entry %d, in %d bytes of entries, %w", len(all)+1, len(log), err)
		}
		i := slices.IndexFunc(all, func(have logged) bool { return have.Step == l.Step && have.Undo == l.Undo })
		if i < 0 {
			all = append(all, l)
		} else {
			all[i] = l
		}
	}
	return all, ended, nil
}

// parseEntry opens an entry and reads it.
func (s sealer) parseEntry(id journal.ID, raw []byte) (logged, error) {
	if len(raw) == 0 {
		return logged{}, errUnreadable
	}
	data, err := s.open(raw, kindEntry, id)
	if err != nil {
		return logged{}, err
	}
	l, err := unpackEntry(data)
	l.raw = raw
	return l, err
}

func unpackEntry(data []byte) (l logged, err error) {
	r := unpacker{rest: data}
	r.version()
	marks := r.uint()
	if !r.broken && marks >= markEnd {
		return l, errNewer
	}
	outcome := r.uint()
	l.Outcome, l.Attempts, l.Step = retry.Outcome(outcome), int(r.int()), r.text() //nolint:gosec // checked below
	l.Undo, l.Pending, l.Nothing = marks&markUndo != 0, marks&markPending != 0, marks&markNothing != 0
	l.BodyTooLong, l.Skipped = marks&markBodyTooLong != 0, marks&markSkipped != 0
	if marks&markAt != 0 {
		l.At = r.time()
	}
	if marks&markRetryAt != 0 {
		l.RetryAt = r.time()
	}
	if marks&markResult != 0 {
		l.Result = r.bytes()
	}
	if marks&markElsewhere != 0 {
		l.elsewhere = place{r.int(), r.int()}
	}
	if marks&markForced != 0 {
		l.Forced = r.text()
	}
	if marks&markSeen != 0 {
		l.Status, l.Code, l.Detail = int(r.int()), wire.Code(r.text()), r.text()
	}
	if marks&markProblem != 0 {
		l.Problem = r.text()
	}
	if marks&markBody != 0 {
		l.Body = r.bytes()
	}
	if marks&markFirstSent != 0 {
		l.FirstSent = r.time()
	}
	if outcome > uint64(retry.Completed) || l.Attempts < 0 {
		r.broken = true
	}
	return l, r.end()
}

// compact returns the log without the replaced entries.
func (s sealer) compact(id journal.ID, log []byte) ([]byte, error) {
	entries, ended, err := s.parseLog(id, log)
	if err != nil {
		return nil, err
	}
	short := packed{}
	for i := range entries {
		short.bytes(entries[i].raw)
	}
	if ended {
		short = endLog(short)
	}
	return short, nil
}
