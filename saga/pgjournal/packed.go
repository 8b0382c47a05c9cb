package pgjournal

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga"
)

// codecVersion is the first byte of everything that is packed. What follows it is
// numbers as varints (encoding/binary), bytes and texts behind their length, and
// times in microseconds since 1970. It is a third of what JSON would be.
const codecVersion = 1

var (
	errUnreadable = errors.New("cannot be read")
	errNewer      = errors.New("has a part that this build does not know")
)

// newestVersion is the highest first byte that may be of a later build: more are no
// version of this package.
const newestVersion = 31

// packed is what has been packed so far.
type packed []byte

func (b *packed) uint(n uint64)    { *b = binary.AppendUvarint(*b, n) }
func (b *packed) int(n int64)      { *b = binary.AppendVarint(*b, n) }
func (b *packed) time(t time.Time) { b.int(t.UnixMicro()) }

func (b *packed) bytes(data []byte) {
	b.uint(uint64(len(data)))
	*b = append(*b, data...)
}

func (b *packed) text(s string) {
	b.uint(uint64(len(s)))
	*b = append(*b, s...)
}

// appended returns b with data behind its length.
func (b *packed) appended(data []byte) []byte {
	b.bytes(data)
	return *b
}

// An unpacker reads what was packed. After something that cannot be read it is
// broken, and reads nothing but zeros.
type unpacker struct {
	rest   []byte
	broken bool
	newer  bool // broken, because a later build packed it
}

func (r *unpacker) version() {
	if len(r.rest) == 0 || r.rest[0] != codecVersion {
		r.newer = len(r.rest) > 0 && r.rest[0] > codecVersion && r.rest[0] <= newestVersion
		r.broken, r.rest = true, nil
		return
	}
	r.rest = r.rest[1:]
}

func (r *unpacker) uint() uint64 {
	n, size := binary.Uvarint(r.rest)
	return unpacked(r, n, size)
}

func (r *unpacker) int() int64 {
	n, size := binary.Varint(r.rest)
	return unpacked(r, n, size)
}

func unpacked[T int64 | uint64](r *unpacker, n T, size int) T {
	if size <= 0 {
		r.broken, r.rest = true, nil
		return 0
	}
	r.rest = r.rest[size:]
	return n
}

func (r *unpacker) bytes() []byte {
	n := r.uint()
	if n > uint64(len(r.rest)) {
		r.broken, r.rest = true, nil
	}
	if r.broken {
		return nil
	}
	data := r.rest[:n:n]
	r.rest = r.rest[n:]
	return data
}

func (r *unpacker) text() string { return string(r.bytes()) }

func (r *unpacker) time() time.Time {
	t := time.UnixMicro(r.int()).UTC()
	if y := t.Year(); y < 1 || y > 9999 {
		r.broken = true
	}
	if r.broken {
		return time.Time{}
	}
	return t
}

// end returns an error unless all was read, and nothing is left.
func (r *unpacker) end() error {
	if r.newer {
		return errNewer
	}
	if r.broken || len(r.rest) > 0 {
		return errUnreadable
	}
	return nil
}

// packFailure returns nil for nil.
func packFailure(f *saga.Failure) []byte {
	if f == nil {
		return nil
	}
	b := packed{codecVersion}
	b.text(string(f.Reason))
	b.text(f.Step)
	b.uint(boolean(f.Undo))
	b.uint(uint64(f.Outcome))
	b.int(int64(f.Status))
	b.text(string(f.Code))
	b.text(f.Detail)
	if f.Problem != "" {
		b.text(f.Problem)
	}
	return b
}

func unpackFailure(data []byte) (*saga.Failure, error) {
	if data == nil {
		return nil, nil //nolint:nilnil // no failure is no error
	}
	r := unpacker{rest: data}
	r.version()
	f := &saga.Failure{Reason: saga.Reason(r.text()), Step: r.text(), Undo: r.uint() == 1}
	outcome := r.uint()
	if outcome > uint64(retry.Completed) {
		r.broken = true
	}
	f.Outcome = retry.Outcome(outcome) //nolint:gosec // checked above
	f.Status, f.Code, f.Detail = int(r.int()), wire.Code(r.text()), r.text()
	if !r.broken && len(r.rest) > 0 {
		f.Problem = r.text()
	}
	return f, r.end()
}

func boolean(is bool) uint64 {
	if is {
		return 1
	}
	return 0
}
