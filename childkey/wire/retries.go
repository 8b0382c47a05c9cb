package wire

import (
	"slices"
	"sync/atomic"
)

// Retries counts the retries that are left to a request and to all calls that are made for
// it. The calls share one count, so ten calls cause no more retries than the request is
// allowed. It is safe for concurrent use. Nil Retries grant none.
type Retries struct {
	left atomic.Int64
	of   *Retries // whose part they are; nil: nobody's
}

// NewRetries returns n retries. A negative n counts as 0.
func NewRetries(n int) *Retries {
	r := new(Retries)
	r.left.Store(int64(max(n, 0)))
	return r
}

// Part returns a part of r. It grants at most n retries and takes each of them from r. All
// parts together grant no more than r has.
func (r *Retries) Part(n int) *Retries {
	part := NewRetries(n)
	part.of = r
	return part
}

// PassOn ends the part r. It divides the retries that r has not used among the others, in
// equal shares. A part of other Retries gets no share.
func (r *Retries) PassOn(others []*Retries) {
	if r == nil || r.of == nil {
		return
	}
	others = slices.DeleteFunc(slices.Clone(others), func(o *Retries) bool { return o == nil || o == r || o.of != r.of })
	if len(others) == 0 {
		return
	}
	left, n := r.left.Swap(0), int64(len(others))
	for i, o := range others {
		share := left / n
		if int64(i) < left%n {
			share++
		}
		o.left.Add(share)
	}
}

// Left returns how many are left at this moment.
func (r *Retries) Left() int {
	if r == nil {
		return 0
	}
	left := int(r.left.Load())
	if r.of != nil {
		left = min(left, r.of.Left())
	}
	return left
}

// Take takes n, if there are as many; else none, and returns false.
func (r *Retries) Take(n int) bool { return n <= 0 || r.take(n, n) == n }

// TakeUpTo takes n, or as many as there are, and returns how many.
func (r *Retries) TakeUpTo(n int) int { return r.take(n, 1) }

// take takes at most n and at least atLeast, or none.
func (r *Retries) take(n, atLeast int) int {
	if r == nil {
		return 0
	}
	taken := r.takeOwn(n, atLeast)
	if r.of == nil || taken == 0 {
		return taken
	}
	granted := r.of.take(taken, atLeast)
	r.left.Add(int64(taken - granted))
	return granted
}

func (r *Retries) takeOwn(n, atLeast int) int {
	for {
		left := r.left.Load()
		taken := min(int64(n), left)
		if taken < int64(atLeast) {
			return 0
		}
		if r.left.CompareAndSwap(left, left-taken) {
			return int(taken)
		}
	}
}

// Give gives back n that were taken and not used.
func (r *Retries) Give(n int) {
	if r == nil || n <= 0 {
		return
	}
	r.left.Add(int64(n))
	r.of.Give(n)
}
