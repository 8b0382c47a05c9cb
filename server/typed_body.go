package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"reflect"
	"strings"

	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/server/internal/engine"
)

// decodeBody returns a StatusError for a body that is not an In.
func (h *typed[In, Out]) decodeBody(r *http.Request, in *In) error {
	if !isOfKind(r.Header.Get("Content-Type"), h.codec) {
		return refuseBody(http.StatusUnsupportedMediaType, "media-type-unsupported", "The body must be "+h.codec.ContentType()+".")
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	decode := h.codec.Decode
	if h.strict {
		decode = contract.DecodeStrictly
	}
	if err := decode(body, in); err != nil {
		return refuseBody(http.StatusBadRequest, "body-malformed", describeMalformed(h.codec, body, err))
	}
	return nil
}

// refuseBody refuses a request before the handler began. So the run has no effect, and the key is bound to no body.
func refuseBody(status int, code, detail string) *StatusError {
	unrun := option(func(s *engine.Settling) { s.Unrun, s.NotRetryable = true, true })
	return &StatusError{Status: status, Code: code, Detail: detail, Settle: []SettleOption{unrun}}
}

// describeMalformed says for the client's people why a body cannot be decoded. It shows no value of the body.
func describeMalformed(codec contract.Codec, body []byte, err error) string {
	var wrongType *json.UnmarshalTypeError
	var unknown *contract.MemberError
	switch {
	case len(bytes.TrimSpace(body)) == 0:
		return "The body is empty."
	case codec == contract.JSON && !json.Valid(body):
		return "The body is not valid JSON."
	case errors.As(err, &unknown):
		return fmt.Sprintf("This operation has no member %.100q.", unknown.Name)
	case errors.As(err, &wrongType) && wrongType.Field != "":
		return fmt.Sprintf("The member %q must be %s.", wrongType.Field, nameInJSON(wrongType.Type))
	case errors.As(err, &wrongType):
		return fmt.Sprintf("The body must be %s.", nameInJSON(wrongType.Type))
	default:
		return "The body does not have the form of this operation's input."
	}
}

// nameInJSON says what a value of t is in JSON.
func nameInJSON(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return fmt.Sprintf("a whole number of %d bits", t.Bits())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return fmt.Sprintf("a whole number of %d bits that is not negative", t.Bits())
	case reflect.Slice, reflect.Array:
		return "an array"
	case reflect.Map, reflect.Struct:
		return "an object"
	default:
		return "of another type"
	}
}

// isOfKind reports whether a body of this media type is for the codec. A body
// without a type counts as the codec's, and every +json type counts as JSON
// (RFC 6839 section 3.1).
func isOfKind(contentType string, codec contract.Codec) bool {
	if contentType == "" || contentType == codec.ContentType() {
		return true
	}
	kind, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		return false
	}
	want, _, _ := mime.ParseMediaType(codec.ContentType()) // it was parsed when the operation was declared
	return kind == want || want == contract.ContentType && strings.HasSuffix(kind, "+json")
}
