package server

import (
	"encoding/binary"
	"errors"
)

// A Codec seals what a guard stores of answers and memos, and opens it again;
// [NewAESGCM] is one. Its methods must be safe for concurrent use and must not
// keep or change their arguments. associated is what the sealed bytes belong to
// (the key, its owner, and what of it they are): Open must fail if it is not what
// Seal was given.
//
// A person with access to the table can therefore not show the answer of another key, an
// older answer of the same key, or a refusal as a success. The guard cannot notice a whole
// row that was put back as it was: its token is in the row.
//
// If Seal fails the answer is not stored: the key completes, and its retries
// get response-gone. If Open fails they get record-unreadable. Neither makes a
// key run again; a panic counts as failing. The errors are observed and logged:
// they must hold nothing of what was sealed.
type Codec interface {
	Seal(plain, associated []byte) ([]byte, error)
	Open(sealed, associated []byte) ([]byte, error)
}

// checkCodec rejects what could seal or open nothing.
func (c Config) checkCodec() error {
	gcm, isGCM := c.Codec.(*AESGCM)
	switch {
	case isGCM && (gcm == nil || gcm.ciphers == nil):
		return reject("Config.Codec", "an AESGCM without keys", "make it with NewAESGCM")
	case c.Codec == nil && c.AcceptPlain:
		return reject("Config.AcceptPlain", true, "without a Codec all records are plain")
	case c.StorePlain && !c.AcceptPlain:
		return reject("Config.StorePlain", true, "needs AcceptPlain: what is stored must be readable")
	}
	return nil
}

// The first byte of what is stored says what follows. An envelope in plain text
// has its version there, which is 1.
const (
	formPlain     = envelopeVersion
	formSealed    = 2 // by the codec: one of the other forms
	formReference = 3 // what NoStore was given, for Route.Render
)

// The kinds of what is sealed, in the associated data.
const (
	sealedAnswer = 'a'
	sealedMemo   = 'm'
)

var errSealed = errors.New("server: sealed, and the guard has no codec")

var errNotSealed = errors.New("server: not sealed, and the guard does not accept plain records")

// A seal says what sealed bytes belong to: an owner's answer with its status, or an owner's
// memo. The bytes cannot be opened under another key, for another owner of the same key, or
// with another status.
type seal struct {
	kind   byte
	owner  Owner
	status int
}

// answerSeal is for the answer of the run that owner made, or of the resolution that took the
// key from its last owner.
func answerSeal(owner Owner, status int) seal { return seal{sealedAnswer, owner, status} }

// memoSeal leaves out the fence: a memo is sealed before the claim, which decides on the
// fence. Only one owner has the token.
func memoSeal(id ID, token Token) seal { return seal{sealedMemo, Owner{ID: id, Token: token}, 0} }

func (s seal) associated() []byte {
	b := make([]byte, 0, 64)
	b = append(b, "fanonce/sealed/v1"...)
	b = append(b, s.kind)
	b = append(b, s.owner.ID[:]...)
	b = append(b, s.owner.Token[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(s.owner.Fence)) //nolint:gosec // any bits will do
	return binary.BigEndian.AppendUint32(b, uint32(s.status))   //nolint:gosec // 0 to 999
}

// seal returns plain as it is stored.
func (g *Guard) seal(s seal, plain []byte) ([]byte, error) {
	if g.cfg.Codec == nil || g.cfg.StorePlain {
		return plain, nil
	}
	sealed, err := safely(g.cfg.Codec.Seal, plain, s.associated())
	if err != nil {
		return nil, err
	}
	return append([]byte{formSealed}, sealed...), nil
}

// open is the inverse of seal.
func (g *Guard) open(s seal, stored []byte) ([]byte, error) {
	sealed := len(stored) > 0 && stored[0] == formSealed
	switch {
	case g.cfg.Codec == nil && sealed:
		return nil, errSealed
	case g.cfg.Codec == nil:
		return stored, nil
	case !sealed && g.cfg.AcceptPlain:
		return stored, nil
	case !sealed:
		return nil, errNotSealed
	}
	return safely(g.cfg.Codec.Open, stored[1:], s.associated())
}

// safely calls a method of the codec. A panic of it is an error: one on the way to
// the store would leave a run unsettled whose work is done.
func safely(method func(b, associated []byte) ([]byte, error), b, associated []byte) (result []byte, err error) {
	defer func() {
		if v := recover(); v != nil {
			result, err = nil, panicked("Codec", v)
		}
	}()
	return method(b, associated)
}

// sealAnswer returns the answer as it is stored; a tombstone if it cannot be
// sealed: what must not lie open is rather not kept.
func (g *Guard) sealAnswer(route string, owner Owner, a Answer) Answer {
	if a.Envelope == nil {
		return a
	}
	sealed, err := g.seal(answerSeal(owner, a.Status), a.Envelope)
	if err != nil {
		g.observe(Event{Kind: EventSealError, Route: route, ID: owner.ID, Err: err})
		sealed = nil
	}
	a.Envelope = sealed
	return a
}

func (g *Guard) openAnswer(rec *Record) (Answer, error) {
	a := rec.Answer
	envelope, err := g.open(answerSeal(Owner{ID: rec.ID, Token: rec.Token, Fence: rec.Fence}, a.Status), a.Envelope)
	return Answer{Status: a.Status, Envelope: envelope}, err
}

// sealMemo is for the memo of a claim with that token.
func (g *Guard) sealMemo(id ID, token Token, memo []byte) ([]byte, error) {
	if memo == nil {
		return nil, nil
	}
	return g.seal(memoSeal(id, token), append([]byte{formPlain}, memo...))
}

// openMemo fails for a record whose last owner was not the memo's: a person or an undo took
// the key from it.
func (g *Guard) openMemo(rec *Record) ([]byte, error) {
	if rec.Memo == nil {
		return nil, nil
	}
	b, err := g.open(memoSeal(rec.ID, rec.Token), rec.Memo)
	if err != nil {
		return nil, err
	}
	if len(b) == 0 || b[0] != formPlain {
		return nil, errEnvelope
	}
	return b[1:], nil
}
