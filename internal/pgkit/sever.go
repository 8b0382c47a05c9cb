package pgkit

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"
)

// maxSevered is how many writes a flush loses one after the other before it is taken apart. Each
// costs it a round trip.
const maxSevered = 16

// severable reports whether err is the server's refusal of one of several statements, so that the
// others can do without that one.
func severable(err error) bool {
	switch Classify(err) {
	case FailureRefused, FailureLockTimeout:
		return true
	default:
		return false
	}
}

// sever sends the writes of f, which the server refused with cause, as their single statements in
// one transaction: the first that fails shows the write that caused the refusal. Its caller gets
// the error at once, and the others go again without it.
func (c *Combiner) sever(ctx context.Context, conn *pgx.Conn, f *flush, cause error) error {
	for range maxSevered {
		if conn.PgConn().TxStatus() != 'I' {
			if _, err := conn.Exec(ctx, "rollback"); err != nil {
				return &nothingChanged{err}
			}
		}
		failed, err := oneByOne(ctx, conn, f.entries)
		if failed == nil || !severable(err) {
			return err
		}
		if !c.drop(f, failed, err) {
			return nil
		}
		cause = err
	}
	return cause
}

// oneByOne sends the statements of the entries in one transaction. It returns the entry whose
// statement failed, if that is why it returns an error.
func oneByOne(ctx context.Context, conn *pgx.Conn, entries []*entry) (failed *entry, err error) {
	parts := make([]part, len(entries))
	answered := 0
	for i, e := range entries {
		parts[i] = e.kind.one(e, false)
		read := parts[i].read
		parts[i].read = func(rows pgx.Rows) error {
			answered = i
			err := read(rows)
			if err == nil {
				answered++
			}
			return err
		}
	}
	err = together(ctx, conn, parts)
	if err != nil && answered < len(entries) {
		failed = entries[answered]
	}
	return failed, err
}

// drop takes e, which failed with err, out of f, and tells its caller. It returns false if that was the last.
func (c *Combiner) drop(f *flush, e *entry, err error) bool {
	c.mu.Lock()
	f.entries = slices.DeleteFunc(f.entries, func(other *entry) bool { return other == e })
	e.stage, e.err = stageEnded, err
	if !e.gone {
		f.live--
	}
	if f.live == 0 && len(f.entries) > 0 {
		c.writer.detach(&f.write)
	}
	more := len(f.entries) > 0
	c.mu.Unlock()
	e.awake()
	return more
}
