package server

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/contract"
)

const maxKeyBytes = childkey.MaxKeyBytes

// plainVersion is the version of the fingerprints that need no secret. A change
// of what goes into them, or how, is a new version.
const plainVersion = 1

// lookupID returns what the store knows a key by.
func lookupID(scope, namespace string, key childkey.Key) ID {
	b := make([]byte, 0, 512)
	for _, field := range []string{scope, namespace, key.String()} {
		b = appendField(b, field)
	}
	sum := sha256.Sum256(b)
	return ID(sum[:len(ID{})])
}

// NewID returns what stores know a key by: IDOf without a guard. namespace is
// [Config.Namespace]; scope is whose key it is.
func NewID(scope, namespace string, key childkey.Key) ID { return lookupID(scope, namespace, key) }

// NewFingerprint returns the plain fingerprint of payload used for the task
// called name, as [Do] has it with the payload for its input.
func NewFingerprint(scope, namespace string, key childkey.Key, name string, payload []byte) Fingerprint {
	s := subject{
		scope: scope, namespace: namespace, key: key.String(),
		method: taskMethod, path: name, mediaType: contract.ContentType, body: payload,
	}
	return s.fingerprint(plainVersion, nil)
}

// A subject is what a key was used for: the fields of a fingerprint.
type subject struct {
	scope, namespace, key string
	method, path, query   string
	mediaType, encoding   string
	cancels               string // the forward key of an undo
	body                  []byte
}

// fingerprint returns the plain fingerprint, or with a secret the keyed one (HMAC,
// RFC 2104) of that version.
func (s *subject) fingerprint(version uint8, secret []byte) Fingerprint {
	if secret == nil && len(s.body) <= maxCopiedBody {
		b := append(s.appendFields(make([]byte, 0, 2*maxCopiedBody)), s.body...)
		return Fingerprint{Version: version, Sum: sha256.Sum256(b)}
	}
	h := sha256.New()
	if secret != nil {
		h = hmac.New(sha256.New, secret)
	}
	h.Write(s.appendFields(nil)) // a hash never fails
	h.Write(s.body)
	return Fingerprint{Version: version, Sum: [sha256.Size]byte(h.Sum(nil))}
}

// maxCopiedBody is how long a body may be to be hashed with the fields before it
// from one buffer: on the stack, which a [hash.Hash] does not leave it on.
const maxCopiedBody = 1024

// appendFields appends all that the fingerprint covers before the body itself.
func (s *subject) appendFields(b []byte) []byte {
	for _, field := range [...]string{
		"fanonce/fingerprint/v1",
		s.scope, s.namespace, s.key,
		s.method, s.path, s.query,
		s.mediaType, s.encoding, s.cancels,
	} {
		b = appendField(b, field)
	}
	return binary.BigEndian.AppendUint64(b, uint64(len(s.body)))
}

// appendField appends a field behind its length: no two lists of fields give
// the same bytes.
func appendField(b []byte, field string) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(len(field)))
	return append(b, field...)
}
