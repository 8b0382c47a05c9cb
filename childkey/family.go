package childkey

import (
	"fmt"
	"sync"
)

// A Family remembers the children of one parent key that this process has derived. The same
// tuple for the same payload is a repeated call. The same tuple for another payload is a
// mistake: the callee would take the second call for a duplicate and never run it.
//
// It keeps about 100 bytes for each child and is safe for concurrent use. A nil or zero
// Family has a zero parent and derives no keys.
type Family struct {
	parent Key

	mu   sync.Mutex
	used map[Hash]use
}

// A use is what a family knows of a child.
type use struct {
	payload [32]byte
	note    any
}

// newFamily returns a family without children.
func newFamily(parent Key) *Family { return &Family{parent: parent} }

// Parent returns the family's parent key.
func (f *Family) Parent() Key {
	if f == nil {
		return Key{}
	}
	return f.parent
}

// Sum derives the hash of a child as the function [Sum] does, and remembers the digest of
// its payload. The payload is everything that makes it another call for the callee, such as
// method, path and body. Sum returns an error wrapping [ErrDuplicateChild] if the family
// used the same tuple for another payload; its other errors are those of the function. An
// [Encoding] makes a key of the hash, and one tuple in two encodings is the same child.
func (f *Family) Sum(payload [32]byte, service, operation string, discriminators ...string) (Hash, error) {
	sum, err := Sum(f.Parent(), service, operation, discriminators...)
	if err != nil {
		return Hash{}, err
	}
	if err := f.Use(sum, payload); err != nil {
		return Hash{}, fmt.Errorf("%w: %s %s", err, service, operation)
	}
	return sum, nil
}

// Use remembers that child, of the family's parent, is for the payload with this digest.
// [Family.Sum] calls it. Call it yourself with a Hash from [Keyed.Sum].
// Its error wraps [ErrDuplicateChild] if child was used for another payload, and [ErrEmpty]
// if f is nil.
func (f *Family) Use(child Hash, payload [32]byte) error {
	if f == nil {
		return fmt.Errorf("%w: family", ErrEmpty)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	used, ok := f.used[child]
	switch {
	case ok && used.payload != payload:
		return fmt.Errorf("%w: another payload has this key; give the calls discriminators", ErrDuplicateChild)
	case ok:
		return nil
	case f.used == nil:
		f.used = make(map[Hash]use)
	}
	f.used[child] = use{payload: payload}
	return nil
}

// Note changes the note of a child. A client keeps there what it must know when it makes
// the call again. change gets the note, nil at first, and returns the new one. It is called
// once, under a lock, and must not call the family. A child that was not used keeps no
// note, and a nil Family keeps none.
func (f *Family) Note(child Hash, change func(noted any) any) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if used, ok := f.used[child]; ok {
		used.note = change(used.note)
		f.used[child] = used
	}
}
