package contract

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
)

// ErrType is wrapped by the error for a type of which JSON loses a part: a value of it would come back as another one.
// These are such types:
//
//   - one that JSON cannot write, as a channel, or cannot read, as an interface with methods;
//   - a struct with a member that is not exported (tag the member `json:"-"` if it may be lost);
//   - a struct with two members of one name;
//   - one with a MarshalJSON or MarshalText, but without the method that reads what it writes.
var ErrType = errors.New("contract: JSON does not keep all of a value")

// CheckType returns nil if [Encode] and [Decode] keep all parts of a T, and else an error wrapping [ErrType] that names
// the part. It is for packages that store values or compare them by their encoding. It is safe for concurrent use, and
// cheap from the second call on.
func CheckType[T any]() error {
	t := reflect.TypeFor[T]()
	if err, ok := checkedTypes.Load(t); ok {
		return err.(checkedType).err //nolint:errcheck,forcetypeassert // nothing else is stored
	}
	err := checkType(place{of: t}, make(map[place]bool))
	checkedTypes.Store(t, checkedType{err})
	return err
}

// checkedTypes are the types that CheckType has seen: reflect.Type to checkedType.
var checkedTypes sync.Map

type checkedType struct{ err error } // nil: JSON keeps all of it

// A place is a type and its place in a value. Values are encoded as they are and not through a
// pointer. So package encoding/json calls methods with a pointer receiver only if the value is
// addressable: behind a pointer, and in a slice.
type place struct {
	of          reflect.Type
	addressable bool
}

func (p place) elem(addressable bool) place { return place{p.of.Elem(), addressable} }

var (
	toJSON   = reflect.TypeFor[json.Marshaler]()
	fromJSON = reflect.TypeFor[json.Unmarshaler]()
	toText   = reflect.TypeFor[encoding.TextMarshaler]()
	fromText = reflect.TypeFor[encoding.TextUnmarshaler]()
)

func checkType(p place, seen map[place]bool) error {
	if seen[p] {
		return nil
	}
	seen[p] = true
	t := p.of
	switch own := reflect.PointerTo(t); {
	case own.Implements(toJSON):
		if !p.addressable && !t.Implements(toJSON) {
			return uncalledError(t, "MarshalJSON")
		}
		return needs(own, fromJSON, "MarshalJSON", "UnmarshalJSON")
	case own.Implements(toText):
		if !p.addressable && !t.Implements(toText) {
			return uncalledError(t, "MarshalText")
		}
		if own.Implements(fromJSON) {
			return nil
		}
		return needs(own, fromText, "MarshalText", "UnmarshalText")
	}
	switch t.Kind() {
	case reflect.Chan, reflect.Func, reflect.Complex64, reflect.Complex128, reflect.UnsafePointer:
		return fmt.Errorf("%w: %v has no form in JSON", ErrType, t)
	case reflect.Pointer, reflect.Slice:
		return checkType(p.elem(true), seen)
	case reflect.Array:
		return checkType(p.elem(p.addressable), seen)
	case reflect.Map:
		if err := checkKey(t.Key()); err != nil {
			return err
		}
		return checkType(p.elem(false), seen)
	case reflect.Interface:
		if t.NumMethod() > 0 {
			return fmt.Errorf("%w: %v is an interface, which JSON cannot read", ErrType, t)
		}
		return nil
	case reflect.Struct:
		return checkStruct(p, seen)
	default:
		return nil
	}
}

// uncalledError returns the error of a type that would be written without its own method.
func uncalledError(t reflect.Type, method string) error {
	return fmt.Errorf("%w: %v has %s on its pointer only, which is not called for a value: use *%v", ErrType, t, method, t)
}

// needs returns an error unless what a type writes by a method of its own it also
// reads by one.
func needs(own, reader reflect.Type, writes, reads string) error {
	if own.Implements(reader) {
		return nil
	}
	return fmt.Errorf("%w: %v has %s and no %s", ErrType, own.Elem(), writes, reads)
}

// checkKey returns an error unless t is what the keys of a map may be.
func checkKey(t reflect.Type) error {
	switch t.Kind() {
	case reflect.String: // whatever methods it has, it is written as it stands
		return nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		if !t.Implements(toText) {
			return nil
		}
	default:
		if !t.Implements(toText) {
			return fmt.Errorf("%w: %v is no key of an object in JSON", ErrType, t)
		}
	}
	return needs(reflect.PointerTo(t), fromText, "MarshalText", "UnmarshalText")
}

func checkStruct(p place, seen map[place]bool) error {
	m := members{names: make(map[string]bool), seen: seen}
	switch err := m.check(p); {
	case err != nil:
		return err
	case len(m.names) == 0 && p.of.NumField() > 0:
		return fmt.Errorf("%w: %v has no exported field", ErrType, p.of)
	case m.hidden != "":
		return fmt.Errorf("%w: %v has field %s, which JSON leaves out: export it, or tag it `json:\"-\"` if it may be lost",
			ErrType, p.of, m.hidden)
	}
	return nil
}

// members are the members of a struct in JSON, with those of its embedded structs.
type members struct {
	names  map[string]bool
	hidden string // a field that JSON leaves out unasked; "": none
	seen   map[place]bool
	path   []reflect.Type // from the struct to the embedded one
}

func (m *members) check(p place) error {
	t := p.of
	if slices.Contains(m.path, t) {
		return nil
	}
	m.path = append(m.path, t)
	defer func() { m.path = m.path[:len(m.path)-1] }()
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Tag.Get("json") == "-" || f.Name == "_" {
			continue
		}
		inner := place{f.Type, p.addressable}
		if f.Anonymous && f.Type.Kind() == reflect.Pointer && f.IsExported() {
			inner = inner.elem(true)
		}
		embeds := f.Anonymous && inner.of.Kind() == reflect.Struct
		switch {
		case embeds && name == "":
			if err := m.check(inner); err != nil {
				return err
			}
			continue
		case !f.IsExported():
			m.hidden = f.Name
			continue
		case name == "":
			name = f.Name
		}
		if m.names[name] {
			return fmt.Errorf("%w: %v has two fields that JSON calls %q, and loses one of them at least", ErrType, m.path[0], name)
		}
		m.names[name] = true
		if err := checkType(place{f.Type, p.addressable}, m.seen); err != nil {
			return fmt.Errorf("%w (field %s of %v)", err, f.Name, t)
		}
	}
	return nil
}
