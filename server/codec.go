package server

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"errors"
	"fmt"

	"github.com/fanonce/fanonce/server/internal/record"
)

// A Codec seals the answers and memos that a guard stores, and opens them again;
// [NewAESGCM] is one. Its methods must be safe for concurrent use and must not
// keep or change their arguments.
//
// associated names the owner of the sealed bytes: the key, the run, and whether they are an
// answer or a memo. Open must fail if associated is
// not the same as for Seal.
//
// So a person with access to the table cannot make the guard replay another key's answer, or an older answer of the
// same key. Nor can a refusal be shown as a success. The guard cannot notice a whole row that was put back unchanged:
// its token is in the row.
//
// A Codec can be introduced while the service runs, by a wrapper. Where Seal returns plain itself, plain text is stored.
// Where a Codec has a method OpenPlain(stored []byte) ([]byte, error), it decides about records that were stored in
// plain text. Without it they are record-unreadable, so that nobody can replace sealed records by plain text.
//
// If Seal fails the answer is not stored: the key completes, and its retries
// get response-gone. If Open fails the retries get record-unreadable. Neither
// makes a key run again; a panic counts as failing. The errors are observed and
// logged: they must not contain the data.
type Codec interface {
	Seal(plain, associated []byte) ([]byte, error)
	Open(sealed, associated []byte) ([]byte, error)
}

// checkCodec rejects a codec that cannot seal or open.
func (c Config) checkCodec() error {
	if gcm, isGCM := c.Codec.(*AESGCM); isGCM && (gcm == nil || gcm.ciphers == nil) {
		return reject("Config.Codec", "an AESGCM without keys", "make it with NewAESGCM")
	}
	return nil
}

// The limits of an [AESKey].
const (
	AESKeyBytes   = 32 // AES-256
	MaxKeyIDBytes = 32
)

// ErrUnreadable: the bytes cannot be opened. They belong to another key or record, or were
// changed.
var ErrUnreadable = errors.New("server: sealed bytes cannot be opened")

// An AESKey is a secret of [AESKeyBytes] random bytes with an ID. Sealed bytes
// name their key by that ID, in plain text. It has 1 to [MaxKeyIDBytes] bytes.
type AESKey struct {
	ID     string
	Secret Secret
}

// An AESGCM is a [Codec]: AES-256 in Galois/Counter Mode (NIST SP 800-38D) with
// random nonces of 96 bits. One key should seal no more than 2^32 records:
// above that number two records might share a nonce. So rotate long before. An
// AESGCM comes from [NewAESGCM] and is safe for concurrent use.
//
// Sealed bytes are: 1 (the version), the length of the key's ID in one byte, the
// ID, the nonce, and the ciphertext with its tag.
type AESGCM struct {
	current string
	ciphers map[string]cipher.AEAD
}

const aesgcmVersion = 1

// NewAESGCM returns a codec that seals with current, and opens the bytes that
// any of the keys sealed. Bytes of a missing key are record-unreadable. To
// rotate, first give the new key to all processes among the others. Then make
// it the current key, and keep the old key among the others for
// [Config.AuditRetention]. NewAESGCM copies the secrets.
//
// It returns a [*ConfigError] for a secret that is not of 32 bytes, and for an ID
// that is empty, too long, or there twice. The secret is not in its text.
func NewAESGCM(current AESKey, others ...AESKey) (*AESGCM, error) {
	c := &AESGCM{current: current.ID, ciphers: make(map[string]cipher.AEAD)}
	for _, key := range append([]AESKey{current}, others...) {
		if len(key.ID) == 0 || len(key.ID) > MaxKeyIDBytes {
			return nil, reject("AESKey.ID", fmt.Sprintf("%q", key.ID), fmt.Sprintf("must have 1 to %d bytes", MaxKeyIDBytes))
		}
		if c.ciphers[key.ID] != nil {
			return nil, reject("AESKey.ID", fmt.Sprintf("%q", key.ID), "is there twice")
		}
		if len(key.Secret) != AESKeyBytes {
			return nil, reject("AESKey.Secret", fmt.Sprintf("%d bytes", len(key.Secret)), fmt.Sprintf("must have %d", AESKeyBytes))
		}
		aead, err := newGCM(key.Secret)
		if err != nil {
			return nil, reject("AESKey.Secret", "[redacted]", err.Error())
		}
		c.ciphers[key.ID] = aead
	}
	return c, nil
}

func newGCM(secret []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(secret)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// Seal implements [Codec].
func (c *AESGCM) Seal(plain, associated []byte) ([]byte, error) {
	aead := c.ciphers[c.current]
	b := make([]byte, 0, 2+len(c.current)+len(plain)+aead.Overhead())
	b = append(b, aesgcmVersion, byte(len(c.current)))
	b = append(b, c.current...)
	return aead.Seal(b, nil, plain, withHeader(b, associated)), nil
}

// Open implements [Codec]. It returns [ErrUnreadable], with the ID if the key is missing. The error of a missing key
// also matches [errors.ErrUnsupported]: another process may have the key. Bytes without that match cannot be opened
// by any process. Bytes with a damaged key ID look like bytes of a missing key: compare the ID in the error with the
// IDs in use.
func (c *AESGCM) Open(sealed, associated []byte) ([]byte, error) {
	if len(sealed) < 2 || sealed[0] != aesgcmVersion || len(sealed) < 2+int(sealed[1]) {
		return nil, ErrUnreadable
	}
	end := 2 + int(sealed[1])
	id := string(sealed[2:end])
	aead := c.ciphers[id]
	if aead == nil {
		return nil, missingKeyError(id)
	}
	plain, err := aead.Open(nil, nil, sealed[end:], withHeader(sealed[:end], associated))
	if err != nil {
		return nil, ErrUnreadable
	}
	return plain, nil
}

// A missingKeyError has the ID of the key.
type missingKeyError string

func (e missingKeyError) Error() string {
	return fmt.Sprintf("%v: no key %.32q", ErrUnreadable, string(e))
}

func (missingKeyError) Is(target error) bool {
	return target == ErrUnreadable || target == errors.ErrUnsupported
}

// withHeader makes the header part of the authenticated data.
func withHeader(header, associated []byte) []byte {
	return append(append(make([]byte, 0, len(header)+len(associated)), header...), associated...)
}

// MinFingerprintSecretBytes is the length of the shortest secret of a
// [FingerprintKey].
const MinFingerprintSecretBytes = 32

// A FingerprintKey makes fingerprints that cannot be guessed without the secret. If a
// request can have few different bodies, a reader of the table can guess a plain
// fingerprint. Version is 2 to 254 and is stored with each record. It must always name the
// same secret. The zero FingerprintKey makes plain fingerprints.
type FingerprintKey struct {
	Version uint8
	Secret  Secret // at least [MinFingerprintSecretBytes]
}

// isPlain reports whether k makes the fingerprints that need no secret.
func (k FingerprintKey) isPlain() bool { return k.Version == 0 && k.Secret == nil }

// fingerprintKeys returns the keys with a secret, for package record. The first of keys makes the fingerprints of new
// records.
func fingerprintKeys(keys []FingerprintKey) (current uint8, secrets map[uint8][]byte) {
	current, secrets = record.PlainVersion, make(map[uint8][]byte)
	for i, key := range keys {
		if key.isPlain() {
			continue
		}
		if i == 0 {
			current = key.Version
		}
		secrets[key.Version] = bytes.Clone(key.Secret)
	}
	return current, secrets
}

func checkFingerprintKeys(keys []FingerprintKey) error {
	seen := make(map[uint8]bool)
	for i, key := range keys {
		switch {
		case i == 0 && key.isPlain():
		case key.Version < 2 || key.Version == record.PlainVersion:
			return reject("FingerprintKey.Version", key.Version, "must be 2 to 254")
		case seen[key.Version]:
			return reject("FingerprintKey.Version", key.Version, "is there twice")
		case len(key.Secret) < MinFingerprintSecretBytes:
			return reject("FingerprintKey.Secret", fmt.Sprintf("%d bytes", len(key.Secret)), fmt.Sprintf("must have at least %d", MinFingerprintSecretBytes))
		}
		seen[key.Version] = true
	}
	return nil
}

// A Secret prints and marshals as its length, so that no log of a configuration
// shows it.
type Secret []byte

// Format implements fmt.Formatter, for every verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = fmt.Fprint(f, s.mask()) }

// MarshalText returns what Format prints; it cannot be unmarshalled.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.mask()), nil }

func (s Secret) mask() string { return fmt.Sprintf("[%d secret bytes]", len(s)) }
