package childkey

import (
	"fmt"
	"sync"
)

// A Family is the children of one parent key, as far as this process has
// derived them: it tells a repeated call (the same tuple for the same payload:
// a re-drive) from a mistake (the same tuple for another payload, which the
// callee would take for a duplicate and never run).
//
// It remembers about 100 bytes per child for as long as it lives, and is safe for
// concurrent use. A nil or zero Family has no parent: it derives nothing.
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

// NewFamily returns a family without children. That of the zero Key stays so:
// [Family.Child] returns [ErrEmpty].
func NewFamily(parent Key) *Family { return &Family{parent: parent} }

// Parent returns the family's parent key.
func (f *Family) Parent() Key {
	if f == nil {
		return Key{}
	}
	return f.parent
}

// Child derives a child key as [Derive] does and remembers the digest of the
// payload it is for: all that makes the callee take the call for another one,
// such as method, path and body. It returns an error wrapping
// [ErrDuplicateChild] if the family used the same tuple for another payload;
// its other errors are Derive's.
func (f *Family) Child(payload [32]byte, service, operation string, discriminators ...string) (Key, error) {
	sum, err := f.Sum(payload, service, operation, discriminators...)
	if err != nil {
		return Key{}, err
	}
	return Hex32.Key(sum)
}

// Sum is [Family.Child] for callees that take keys in another [Encoding]. What
// counts is the tuple, not its text: one tuple in two encodings counts as the same
// child.
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

// Use remembers that child, of the family's parent, is for the payload with this
// digest. [Family.Child] and [Family.Sum] call it; call it yourself with what
// [Keyed.Sum] returns. Its error wraps [ErrDuplicateChild] if child was used for
// another payload, and [ErrEmpty] if f is nil.
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

// Note keeps what change makes of the note that there is for a child, nil at first: what
// whoever makes its call wants to know when it makes the call again. change is called
// once, and alone; it must not call the family. Of a child that was not used, and for a
// nil Family, nothing is kept.
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
