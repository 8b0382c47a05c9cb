package contract

import (
	"encoding"
	"encoding/json"
	"reflect"
	"time"
)

// hasOffset reports whether a string of the JSON text b ends as a time with an offset does, such as +02:00.
func hasOffset(b []byte) bool {
	for i := 6; i < len(b); i++ {
		if b[i] == '"' && b[i-3] == ':' && (b[i-6] == '+' || b[i-6] == '-') {
			return true
		}
	}
	return false
}

var (
	timeType      = reflect.TypeFor[time.Time]()
	marshalerType = reflect.TypeFor[json.Marshaler]()
	textType      = reflect.TypeFor[encoding.TextMarshaler]()
)

// inUTC returns v with all times in UTC that JSON would encode. It copies what it changes. It leaves
// alone what encodes itself, since a date of one zone may be another date in UTC. v has no cycle.
func inUTC(v reflect.Value) reflect.Value {
	if !v.IsValid() {
		return v
	}
	t := v.Type()
	if t == timeType {
		return reflect.ValueOf(v.Interface().(time.Time).UTC())
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() || t.Kind() == reflect.Pointer && t.Elem() != timeType && encodesItself(t.Elem()) {
			return v
		}
		changed := inUTC(v.Elem())
		if t.Kind() == reflect.Interface {
			return changed
		}
		p := reflect.New(t.Elem())
		p.Elem().Set(changed)
		return p
	case reflect.Struct, reflect.Slice, reflect.Array, reflect.Map:
		if encodesItself(t) {
			return v
		}
		return withElements(v)
	default:
		return v
	}
}

// encodesItself reports whether values of the type, or pointers to them, have a MarshalJSON or
// MarshalText.
func encodesItself(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(marshalerType) || p.Implements(textType)
}

// withElements returns a copy of v, whose elements or fields are in UTC.
func withElements(v reflect.Value) reflect.Value {
	t := v.Type()
	c := reflect.New(t).Elem()
	c.Set(v)
	switch t.Kind() {
	case reflect.Struct:
		setFields(c)
	case reflect.Slice:
		if !v.IsNil() {
			c.Set(reflect.MakeSlice(t, v.Len(), v.Len()))
		}
		fallthrough
	case reflect.Array:
		for i := range v.Len() {
			c.Index(i).Set(inUTC(v.Index(i)))
		}
	case reflect.Map:
		if v.IsNil() {
			return v
		}
		c.Set(reflect.MakeMapWithSize(t, v.Len()))
		for key, value := range v.Seq2() {
			c.SetMapIndex(inUTC(key), inUTC(value))
		}
		if c.Len() < v.Len() { // two keys are the same instant
			return v
		}
	}
	return c
}

// setFields sets the fields of a struct that JSON encodes.
func setFields(c reflect.Value) {
	for i := range c.NumField() {
		f, field := c.Field(i), c.Type().Field(i)
		switch {
		case field.Tag.Get("json") == "-": // it may lead back to v
		case f.CanSet():
			f.Set(inUTC(f))
		case field.Anonymous && f.Kind() == reflect.Struct: // JSON encodes its exported fields
			setFields(f)
		}
	}
}
