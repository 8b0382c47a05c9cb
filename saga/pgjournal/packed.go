package pgjournal

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga/journal"
)

// codecVersion is the first byte of all packed data. After it come numbers as varints
// (encoding/binary), bytes and texts after their length, and times in microseconds since 1970.
// Packed data has a third of the size of JSON.
const codecVersion = 1

var (
	errUnreadable = errors.New("cannot be read")
	errNewer      = errors.New("has a part that this build does not know")
)

// newestVersion is the highest first byte that a later build may write. A higher byte is not a
// version of this package.
const newestVersion = 31

// packed is the data that has been packed so far.
type packed []byte

func (p *packed) uint(n uint64)    { *p = binary.AppendUvarint(*p, n) }
func (p *packed) int(n int64)      { *p = binary.AppendVarint(*p, n) }
func (p *packed) time(t time.Time) { p.int(t.UnixMicro()) }

func (p *packed) bytes(data []byte) {
	p.uint(uint64(len(data)))
	*p = append(*p, data...)
}

func (p *packed) text(s string) {
	p.uint(uint64(len(s)))
	*p = append(*p, s...)
}

// appendBytes returns p with the length of data and data added.
func (p *packed) appendBytes(data []byte) []byte {
	p.bytes(data)
	return *p
}

// An unpacker reads packed data. After data that it cannot read it is broken, and reads only
// zeros.
type unpacker struct {
	rest   []byte
	broken bool
	newer  bool // broken, because a later build packed it
}

func (u *unpacker) version() {
	if len(u.rest) == 0 || u.rest[0] != codecVersion {
		u.newer = len(u.rest) > 0 && u.rest[0] > codecVersion && u.rest[0] <= newestVersion
		u.broken, u.rest = true, nil
		return
	}
	u.rest = u.rest[1:]
}

func (u *unpacker) uint() uint64 {
	n, size := binary.Uvarint(u.rest)
	return takeNumber(u, n, size)
}

func (u *unpacker) int() int64 {
	n, size := binary.Varint(u.rest)
	return takeNumber(u, n, size)
}

func takeNumber[T int64 | uint64](r *unpacker, n T, size int) T {
	if size <= 0 {
		r.broken, r.rest = true, nil
		return 0
	}
	r.rest = r.rest[size:]
	return n
}

func (u *unpacker) bytes() []byte {
	n := u.uint()
	if n > uint64(len(u.rest)) {
		u.broken, u.rest = true, nil
	}
	if u.broken {
		return nil
	}
	data := u.rest[:n:n]
	u.rest = u.rest[n:]
	return data
}

func (u *unpacker) text() string { return string(u.bytes()) }

func (u *unpacker) time() time.Time {
	t := time.UnixMicro(u.int()).UTC()
	if y := t.Year(); y < 1 || y > 9999 {
		u.broken = true
	}
	if u.broken {
		return time.Time{}
	}
	return t
}

// end returns an error unless all the data was read.
func (u *unpacker) end() error {
	if u.newer {
		return errNewer
	}
	if u.broken || len(u.rest) > 0 {
		return errUnreadable
	}
	return nil
}

// packFailure returns nil for nil.
func packFailure(f *journal.Failure) []byte {
	if f == nil {
		return nil
	}
	b := packed{codecVersion}
	b.text(string(f.Reason))
	b.text(f.Step)
	b.uint(toUint(f.Undo))
	b.uint(uint64(f.Outcome))
	b.int(int64(f.Status))
	b.text(string(f.Code))
	b.text(f.Detail)
	if f.Problem != "" || f.Body != nil || f.BodyTooLong {
		b.text(f.Problem)
	}
	switch {
	case f.BodyTooLong:
		b.uint(bodyTooLong)
	case f.Body != nil:
		b.uint(bodyFollows)
		b.bytes(f.Body)
	}
	return b
}

// One of these follows the problem in a packed failure, if there was a body. They are stored.
const (
	bodyFollows = 1
	bodyTooLong = 2
)

func unpackFailure(data []byte) (*journal.Failure, error) {
	if data == nil {
		return nil, nil //nolint:nilnil // no failure is no error
	}
	r := unpacker{rest: data}
	r.version()
	f := &journal.Failure{Reason: journal.Reason(r.text()), Step: r.text(), Undo: r.uint() == 1}
	outcome := r.uint()
	if outcome > uint64(retry.Completed) {
		r.broken = true
	}
	f.Outcome = retry.Outcome(outcome) //nolint:gosec // checked above
	f.Status, f.Code, f.Detail = int(r.int()), wire.Code(r.text()), r.text()
	if !r.broken && len(r.rest) > 0 {
		f.Problem = r.text()
	}
	if !r.broken && len(r.rest) > 0 {
		r.failureBody(f)
	}
	return f, r.end()
}

// failureBody reads the end of a failure. The end describes the body of the answer.
func (u *unpacker) failureBody(f *journal.Failure) {
	switch u.uint() {
	case bodyFollows:
		f.Body = u.bytes()
	case bodyTooLong:
		f.BodyTooLong = true
	default:
		u.broken = true
	}
}

func toUint(is bool) uint64 {
	if is {
		return 1
	}
	return 0
}
