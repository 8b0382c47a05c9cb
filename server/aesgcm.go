package server

import (
	"crypto/aes"
	"crypto/cipher"
	"errors"
	"fmt"
)

// The limits of an [AESKey].
const (
	AESKeyBytes   = 32 // AES-256
	MaxKeyIDBytes = 32
)

// ErrUnreadable: bytes are not what was sealed: another key, another record, or
// changed on the way.
var ErrUnreadable = errors.New("server: sealed bytes cannot be opened")

// An AESKey is a secret of [AESKeyBytes] random bytes, and the name that sealed
// bytes know it by. The name is stored in plain text, 1 to [MaxKeyIDBytes]
// bytes.
type AESKey struct {
	ID     string
	Secret Secret
}

// An AESGCM is a [Codec]: AES-256 in Galois/Counter Mode (NIST SP 800-38D) with
// random nonces of 96 bits. One key should seal no more than 2^32 records: past
// that two of them might share a nonce, so rotate long before. An AESGCM comes
// from [NewAESGCM] and is safe for concurrent use.
//
// Sealed bytes are: 1 (the version), the length of the key's ID in one byte, the
// ID, the nonce, and the ciphertext with its tag.
type AESGCM struct {
	current string
	ciphers map[string]cipher.AEAD
}

const aesgcmVersion = 1

// NewAESGCM returns a codec that seals with current, and opens what any of the
// keys has sealed; what a key that is missing has sealed is record-unreadable. To
// rotate, give the new key to all processes among the others, then make it the
// current one, and keep the old one among the others for [Config.AuditRetention].
// NewAESGCM copies the secrets.
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

// Open implements [Codec]. It returns [ErrUnreadable], with the ID of a key that
// is missing. The error of a missing key also matches [errors.ErrUnsupported], so that
// a process with the key can be told apart from bytes that nobody can open.
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

// withHeader makes the header part of what is authenticated.
func withHeader(header, associated []byte) []byte {
	return append(append(make([]byte, 0, len(header)+len(associated)), header...), associated...)
}
