package pgjournal

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/fanonce/fanonce/saga/journal"
)

// A Codec seals what a journal stores of a saga's content, and opens it again. It has the
// methods of server.Codec: one codec, such as server.NewAESGCM makes, serves a guard and a
// journal. Its methods must be safe for concurrent use. They must not keep or change their
// arguments. associated names what the sealed bytes belong to. Open must fail if associated
// is not the value that Seal was given.
//
// Inputs and their hashes, results, and entries (with steps, outcomes, error details and the
// bodies of refusals) are sealed, and the values of signals. So are causes of failures, why a saga is stuck or deferred, and the reasons in the
// audit log. Each is bound to the ID of its saga, which is made from scope, definition and key, and to
// its kind. A large result is also
// bound to its step and its write, and a reason to its verb, step and actor. So Open refuses
// a value that was copied to another saga, or to another column.
//
// IDs, scopes, keys, names of definitions, statuses, times and actors are not sealed:
// statements need them. The journal cannot notice a whole row that was put back as it was,
// nor entries of a saga that were taken away, repeated or put into another order.
//
// A Codec can be introduced while processes run, by a wrapper. Where Seal returns plain itself, plain text is stored.
// Where a Codec has a method OpenPlain(stored []byte) ([]byte, error), it decides about values that were stored in
// plain text. Without it a saga with such a value is damaged, so that nobody who can write to the tables can forge one.
//
// If Seal fails nothing is stored. A start then returns an [ErrSeal]. An engine tries a write
// again, as where the database is away. If Open fails the saga is damaged
// ([journal.Record].Corrupt). An engine makes it stuck, without a call. An error of Open that
// matches [errors.ErrUnsupported] says that the key is not there. Then the saga is deferred for
// processes with the key: Record.Deferred has the error. So a saga whose key ID is damaged is deferred,
// too, and a person abandons it. A process without a codec defers it too. A panic counts as an error.
// The errors are stored and logged: they must hold no content.
type Codec interface {
	Seal(plain, associated []byte) ([]byte, error)
	Open(sealed, associated []byte) ([]byte, error)
}

// A sealer seals and opens with the codec of a [Config]. The zero sealer has none.
type sealer struct {
	codec       Codec
	acceptPlain bool // also without OpenPlain
}

// The first byte of a stored value can be its form. A value with any other first byte is
// stored as it is.
const (
	formSealed = 2
	formPlain  = 3 // a plain value follows that begins with one of the two
)

// A kind is the place of a value in its saga. The value is bound to it.
type kind byte

const (
	kindInput     kind = 'i'
	kindInputHash kind = 'h'
	kindResult    kind = 'o' // of the saga
	kindEntry     kind = 'e'
	kindLarge     kind = 'r' // a step's result in the side table
	kindCause     kind = 'c'
	kindStuckOn   kind = 's'
	kindDeferred  kind = 'p'
	kindReason    kind = 'n' // in the audit log
	kindOutput    kind = 'l' // of a local step
	kindRefusal   kind = 'f' // of a local step
	kindSignal    kind = 'g'
)

// associatedData is what a value is bound to. Parts of more are put behind their lengths.
func associatedData(k kind, id journal.ID, more ...string) []byte {
	b := packed(make([]byte, 0, 64))
	b = append(b, "fanonce/saga/sealed/v1"...)
	b = append(b, byte(k))
	b = append(b, id[:]...)
	for _, part := range more {
		b.text(part)
	}
	return b
}

// toParts returns a large result's place, as it is bound.
func (p place) toParts(step string) []string {
	at := binary.AppendVarint(binary.AppendVarint(nil, p.revision), p.position)
	return []string{step, string(at)}
}

// seal returns plain as it is stored; nil for nil.
func (s sealer) seal(plain []byte, k kind, id journal.ID, more ...string) ([]byte, error) {
	switch {
	case plain == nil:
		return nil, nil
	case s.codec == nil:
		return toPlainForm(plain), nil
	}
	sealed, err := safely(s.codec.Seal, plain, associatedData(k, id, more...))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSeal, err)
	}
	if isSame(sealed, plain) {
		return toPlainForm(plain), nil
	}
	return append([]byte{formSealed}, sealed...), nil
}

// isSame reports whether Seal returned its argument.
func isSame(sealed, plain []byte) bool {
	return len(sealed) == len(plain) && (len(plain) == 0 || &sealed[0] == &plain[0])
}

// toPlainForm returns plain as it is stored without a seal.
func toPlainForm(plain []byte) []byte {
	if len(plain) > 0 && (plain[0] == formSealed || plain[0] == formPlain) {
		return append([]byte{formPlain}, plain...)
	}
	return plain
}

// A plainOpener is a Codec that decides about values that were stored in plain text.
type plainOpener interface {
	OpenPlain(stored []byte) ([]byte, error)
}

var (
	errNotSealed = errors.New("is not sealed, and the codec has no method OpenPlain")
	errNoCodec   = elsewhereError("is sealed, and the journal has no codec")
)

// An elsewhereError is of a value that another process may be able to open.
type elsewhereError string

func (e elsewhereError) Error() string { return string(e) }

func (elsewhereError) Is(target error) bool { return target == errNewer }

// open is the inverse of seal.
func (s sealer) open(stored []byte, k kind, id journal.ID, more ...string) ([]byte, error) {
	sealed := len(stored) > 0 && stored[0] == formSealed
	switch {
	case stored == nil:
		return nil, nil
	case s.codec == nil && sealed:
		return nil, errNoCodec
	case !sealed:
		return s.openPlain(stored)
	}
	return toOpened(safely(s.codec.Open, stored[1:], associatedData(k, id, more...)))
}

// openPlain opens what was stored in plain text.
func (s sealer) openPlain(stored []byte) ([]byte, error) {
	if len(stored) > 0 && stored[0] == formPlain {
		stored = stored[1:]
	}
	if s.codec == nil || s.acceptPlain {
		return stored, nil
	}
	opener, ok := s.codec.(plainOpener)
	if !ok {
		return nil, errNotSealed
	}
	return toOpened(safely(func(b, _ []byte) ([]byte, error) { return opener.OpenPlain(b) }, stored, nil))
}

// toOpened returns what a codec opened, or its error as a part of a saga's damage. An empty value is not nil.
func toOpened(plain []byte, err error) ([]byte, error) {
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return nil, elsewhereError("cannot be opened here: " + err.Error())
	case err != nil:
		return nil, fmt.Errorf("cannot be opened: %w", err)
	case plain == nil:
		plain = []byte{}
	}
	return plain, nil
}

// safely calls a method of the codec. A panic of the method is an error.
func safely(method func(b, associated []byte) ([]byte, error), b, associated []byte) (result []byte, err error) {
	defer func() {
		if v := recover(); v != nil {
			result, err = nil, errors.New("the codec panicked") // its value may be content
		}
	}()
	return method(b, associated)
}

// sealedReason begins a reason of the audit log that is sealed: its column is text.
const sealedReason = "\x02"

func (s sealer) sealReason(id journal.ID, by journal.Audit) (string, error) {
	sealed, err := s.seal([]byte(by.Reason), kindReason, id, string(by.Verb), by.Step, by.Actor)
	if err != nil || len(sealed) == 0 || sealed[0] != formSealed {
		return string(sealed), err
	}
	return sealedReason + base64.StdEncoding.EncodeToString(sealed), nil
}

func (s sealer) openReason(e journal.AuditEntry) (string, error) {
	stored := []byte(e.Reason)
	if text, ok := strings.CutPrefix(e.Reason, sealedReason); ok {
		var err error
		if stored, err = base64.StdEncoding.DecodeString(text); err != nil || len(stored) == 0 || stored[0] != formSealed {
			return "", errUnreadable
		}
	}
	plain, err := s.open(stored, kindReason, e.ID, string(e.Verb), e.Step, e.Actor)
	return string(plain), err
}

// checkCodec refuses what could seal or open nothing.
func checkCodec(codec Codec) error {
	if v := reflect.ValueOf(codec); v.IsValid() && v.Kind() == reflect.Pointer && v.IsNil() {
		return fmt.Errorf("%w: Codec is a nil %T", ErrConfig, codec)
	}
	return nil
}
