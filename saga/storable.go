package saga

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
)

// storable returns an error wrapping ErrType if a T does not survive the way
// through JSON: what it would lose would be another thing after a crash.
func storable[T any]() error {
	return checkType(reflect.TypeFor[T](), make(map[reflect.Type]bool))
}

var (
	jsonType = reflect.TypeFor[json.Marshaler]()
	textType = reflect.TypeFor[encoding.TextMarshaler]()
)

func checkType(t reflect.Type, seen map[reflect.Type]bool) error {
	if seen[t] {
		return nil
	}
	seen[t] = true
	if own := reflect.PointerTo(t); own.Implements(jsonType) || own.Implements(textType) {
		return nil
	}
	switch t.Kind() {
	case reflect.Chan, reflect.Func, reflect.Complex64, reflect.Complex128, reflect.UnsafePointer:
		return fmt.Errorf("%w: %v has no form in JSON", ErrType, t)
	case reflect.Pointer, reflect.Slice, reflect.Array:
		return checkType(t.Elem(), seen)
	case reflect.Map:
		return checkType(t.Elem(), seen)
	case reflect.Struct:
		return checkStruct(t, seen)
	default:
		return nil
	}
}

func checkStruct(t reflect.Type, seen map[reflect.Type]bool) error {
	visible := 0
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.IsExported() && !f.Anonymous || f.Tag.Get("json") == "-" {
			continue
		}
		visible++
		if err := checkType(f.Type, seen); err != nil {
			return fmt.Errorf("%w (field %s of %v)", err, f.Name, t)
		}
	}
	if visible == 0 && t.NumField() > 0 {
		return fmt.Errorf("%w: %v has no exported field", ErrType, t)
	}
	return nil
}
