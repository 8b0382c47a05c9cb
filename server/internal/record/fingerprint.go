package record

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/server/store"
)

// PlainVersion is the version of the fingerprints that need no secret. A change of their
// input, or of its order, is a new version, counted down from here: the low numbers belong
// to the users' secrets.
const PlainVersion = 255

// receivedVersion is the version of the plain fingerprints that were made of a request as it
// was received. They are still compared. Every other version is made of the normal form.
const receivedVersion = 1

// TaskMethod is the Method of a task's [Subject]. No HTTP method has this name, so a key
// that was used over HTTP is refused for a task.
const TaskMethod = "do"

// TaskFingerprint returns the plain fingerprint of the task called name, with payload for
// its input.
func TaskFingerprint(scope, namespace string, key childkey.Key, name string, payload []byte) store.Fingerprint {
	s := Subject{
		Scope: scope, Namespace: namespace, Key: key.String(),
		Method: TaskMethod, Path: name, MediaType: contract.ContentType, Body: payload,
	}
	return s.fingerprint(PlainVersion, nil)
}

// A Subject is the request that a key was used for, as the fields of a fingerprint.
type Subject struct {
	Scope, Namespace, Key string
	Method, Path, Query   string
	MediaType, Encoding   string
	Cancels               string // the forward key of an undo
	Body                  []byte
}

// fingerprint returns the plain fingerprint, or with a secret the keyed one (HMAC,
// RFC 2104) of that version.
func (s *Subject) fingerprint(version uint8, secret []byte) store.Fingerprint {
	label := "fanonce/fingerprint/v1"
	if version != receivedVersion {
		normal := s.normalize()
		s, label = &normal, "fanonce/fingerprint/v2"
	}
	if secret == nil && len(s.Body) <= maxCopiedBody {
		b := append(s.appendFields(label, make([]byte, 0, 2*maxCopiedBody)), s.Body...)
		return store.Fingerprint{Version: version, Sum: sha256.Sum256(b)}
	}
	h := sha256.New()
	if secret != nil {
		h = hmac.New(sha256.New, secret)
	}
	h.Write(s.appendFields(label, nil)) // a hash never fails
	h.Write(s.Body)
	return store.Fingerprint{Version: version, Sum: [sha256.Size]byte(h.Sum(nil))}
}

// maxCopiedBody is the longest body that is hashed together with the fields
// before it from one buffer. That buffer stays on the stack; with a [hash.Hash]
// it would not.
const maxCopiedBody = 1024

// appendFields appends all that the fingerprint covers before the body itself.
func (s *Subject) appendFields(label string, b []byte) []byte {
	for _, field := range [...]string{
		label,
		s.Scope, s.Namespace, s.Key,
		s.Method, s.Path, s.Query,
		s.MediaType, s.Encoding, s.Cancels,
	} {
		b = appendField(b, field)
	}
	return binary.BigEndian.AppendUint64(b, uint64(len(s.Body)))
}

// appendField appends a field behind its length. So two different lists of
// fields never give the same bytes.
func appendField(b []byte, field string) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(len(field)))
	return append(b, field...)
}

// A Fingerprinter makes the fingerprints of all versions that a guard knows.
type Fingerprinter struct {
	current uint8
	secrets map[uint8][]byte // of the keyed versions
}

// NewFingerprinter returns a Fingerprinter whose new records have the version current. secrets are the secrets of the
// keyed versions.
func NewFingerprinter(current uint8, secrets map[uint8][]byte) Fingerprinter {
	return Fingerprinter{current, secrets}
}

// Current returns the fingerprint that a new record of s gets.
func (f *Fingerprinter) Current(s *Subject) store.Fingerprint {
	return s.fingerprint(f.current, f.secrets[f.current])
}

// Of returns the fingerprint of one version; false if its secret is missing.
func (f *Fingerprinter) Of(s *Subject, version uint8) (store.Fingerprint, bool) {
	secret, keyed := f.secrets[version]
	if !keyed && version != PlainVersion && version != receivedVersion {
		return store.Fingerprint{}, false
	}
	return s.fingerprint(version, secret), true
}
