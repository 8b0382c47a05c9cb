package record

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"

	"github.com/fanonce/fanonce/server/store"
)

// A Codec seals bytes and opens them again, as the Codec of package server does.
type Codec interface {
	Seal(plain, associated []byte) ([]byte, error)
	Open(sealed, associated []byte) ([]byte, error)
}

// A Sealer seals the stored parts of answers and memos. The zero Sealer stores them in plain text. It is safe for
// concurrent use if its Codec is.
type Sealer struct {
	Codec Codec // nil: none
}

// The first stored byte says which form follows. An envelope in plain text has its version
// there, which is 1.
const (
	formPlain     = envelopeVersion
	formSealed    = 2 // by the codec: one of the other forms
	formReference = 3 // a reference to the answer, for Route.Render
)

// Reference returns the bytes that are stored instead of an envelope, if only the text is kept.
func Reference(text string) []byte { return append([]byte{formReference}, text...) }

// ReferenceOf is the inverse of [Reference]. It returns false for an envelope.
func ReferenceOf(envelope []byte) (text string, ok bool) {
	if len(envelope) == 0 || envelope[0] != formReference {
		return "", false
	}
	return string(envelope[1:]), true
}

// The kinds of sealed bytes, in the associated data.
const (
	sealedAnswer = 'a'
	sealedMemo   = 'm'
)

var errSealed = errors.New("server: sealed, and the guard has no codec")

var errNotSealed = errors.New("server: not sealed, and the guard's Codec does not accept plain records")

// A seal names the owner of sealed bytes and their kind: an answer with its status, or a memo. The bytes cannot be
// opened under another key, for another owner of the same key, or with another status.
type seal struct {
	kind   byte
	owner  store.Owner
	status int
}

// answerSeal is for the answer of the run that owner made, or of the resolution that took the
// key from its last owner.
func answerSeal(owner store.Owner, status int) seal { return seal{sealedAnswer, owner, status} }

// memoSeal leaves out the fence: a memo is sealed before the claim, which decides on the
// fence. Only one owner has the token.
func memoSeal(id store.ID, token store.Token) seal {
	return seal{sealedMemo, store.Owner{ID: id, Token: token}, 0}
}

func (s seal) associatedData() []byte {
	b := make([]byte, 0, 64)
	b = append(b, "fanonce/sealed/v1"...)
	b = append(b, s.kind)
	b = append(b, s.owner.ID[:]...)
	b = append(b, s.owner.Token[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(s.owner.Fence)) //nolint:gosec // any bits will do
	return binary.BigEndian.AppendUint32(b, uint32(s.status))   //nolint:gosec // 0 to 999
}

// seal returns plain, which is not empty, as it is stored.
func (s *Sealer) seal(to seal, plain []byte) ([]byte, error) {
	if s.Codec == nil {
		return plain, nil
	}
	sealed, err := safely(s.Codec.Seal, plain, to.associatedData())
	if err != nil {
		return nil, err
	}
	if len(sealed) == len(plain) && &sealed[0] == &plain[0] {
		return plain, nil
	}
	return append([]byte{formSealed}, sealed...), nil
}

// A plainOpener is a Codec that decides about records that were stored in plain text.
type plainOpener interface {
	OpenPlain(stored []byte) ([]byte, error)
}

// open is the inverse of seal.
func (s *Sealer) open(to seal, stored []byte) ([]byte, error) {
	sealed := len(stored) > 0 && stored[0] == formSealed
	switch {
	case s.Codec == nil && sealed:
		return nil, errSealed
	case s.Codec == nil:
		return stored, nil
	case !sealed:
		return s.openPlain(stored)
	}
	return safely(s.Codec.Open, stored[1:], to.associatedData())
}

// openPlain opens what was stored in plain text, although there is a codec.
func (s *Sealer) openPlain(stored []byte) ([]byte, error) {
	opener, ok := s.Codec.(plainOpener)
	if !ok {
		return nil, errNotSealed
	}
	return safely(func(b, _ []byte) ([]byte, error) { return opener.OpenPlain(b) }, stored, nil)
}

// safely calls a method of the codec. Its panic becomes an error: a panic on the way to the store would leave a run
// with finished work unsettled. Only the runtime's own values have a text that cannot hold a part of an answer.
func safely(method func(b, associated []byte) ([]byte, error), b, associated []byte) (result []byte, err error) {
	defer func() {
		switch v := recover().(type) {
		case nil:
		case runtime.Error:
			result, err = nil, fmt.Errorf("server: Codec panicked: %w", v)
		default:
			result, err = nil, fmt.Errorf("server: Codec panicked with a %T", v)
		}
	}()
	return method(b, associated)
}

// SealAnswer returns the answer of owner's run as it is stored. With an error it is a tombstone: an answer that could
// not be sealed is not kept.
func (s *Sealer) SealAnswer(owner store.Owner, a store.Answer) (store.Answer, error) {
	if a.Envelope == nil {
		return a, nil
	}
	sealed, err := s.seal(answerSeal(owner, a.Status), a.Envelope)
	if err != nil {
		sealed = nil
	}
	a.Envelope = sealed
	return a, err
}

// OpenAnswer is the inverse of [Sealer.SealAnswer].
func (s *Sealer) OpenAnswer(rec *store.Record) (store.Answer, error) {
	a := rec.Answer
	envelope, err := s.open(answerSeal(store.Owner{ID: rec.ID, Token: rec.Token, Fence: rec.Fence}, a.Status), a.Envelope)
	return store.Answer{Status: a.Status, Envelope: envelope}, err
}

// SealMemo is for the memo of a claim with that token.
func (s *Sealer) SealMemo(id store.ID, token store.Token, memo []byte) ([]byte, error) {
	if memo == nil {
		return nil, nil
	}
	return s.seal(memoSeal(id, token), append([]byte{formPlain}, memo...))
}

// Foreign reports whether s lacks the codec that sealed the record's memo. The Sealer with that codec may refuse what s
// stores in plain text.
func (s *Sealer) Foreign(rec *store.Record) bool {
	return s.Codec == nil && len(rec.Memo) > 0 && rec.Memo[0] == formSealed
}

// OpenMemo is the inverse of [Sealer.SealMemo]. It fails if the record's last owner is not the memo's owner: a person
// or an undo took the key from that owner.
func (s *Sealer) OpenMemo(rec *store.Record) ([]byte, error) {
	if rec.Memo == nil {
		return nil, nil
	}
	b, err := s.open(memoSeal(rec.ID, rec.Token), rec.Memo)
	if err != nil {
		return nil, err
	}
	if len(b) == 0 || b[0] != formPlain {
		return nil, ErrEnvelope
	}
	return b[1:], nil
}
