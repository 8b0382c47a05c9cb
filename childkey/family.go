package childkey

import (
	"fmt"
	"sync"
)

// A Family remembers the child keys of one parent key that this process has used. The same
// key for the same payload is a repeated call. The same key for another payload is a
// mistake: the callee would take the second call for a duplicate and never run it.
//
// It keeps about 100 bytes for each child and is safe for concurrent use. A nil or zero
// Family has a zero parent.
type Family struct {
	parent Key

	mu   sync.Mutex
	used map[Key]use
}

// A use is what a family knows of a child.
type use struct {
	payload [32]byte
	note    any
}

// Parent returns the family's parent key.
func (f *Family) Parent() Key {
	if f == nil {
		return Key{}
	}
	return f.parent
}

// Use remembers that the key child, derived from the family's parent, is for the payload with
// this digest. The payload is everything that makes it another call for the callee, such as
// method, path and body. The error of Use wraps [ErrDuplicateChild] if child was used for
// another payload, and [ErrEmpty] if f is nil.
func (f *Family) Use(child Key, payload [32]byte) error {
	if f == nil {
		return fmt.Errorf("%w: the Family is nil", ErrEmpty)
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
		f.used = make(map[Key]use)
	}
	f.used[child] = use{payload: payload}
	return nil
}

// Note changes the note of a child. A client keeps there what it must know when it makes
// the call again. change gets the note, nil at first, and returns the new one. It is called
// once, under a lock, and must not call the family. A child that was not used keeps no
// note, and a nil Family keeps none.
func (f *Family) Note(child Key, change func(noted any) any) {
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
