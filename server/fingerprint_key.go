package server

import (
	"bytes"
	"fmt"
)

// MinFingerprintSecretBytes is the length of the shortest secret of a
// [FingerprintKey].
const MinFingerprintSecretBytes = 32

// A FingerprintKey makes fingerprints that say nothing to whoever reads the
// table but has not the secret: a plain one can be guessed, where there are few
// bodies that a request could have. Version is 2 to 255 and is stored with each
// record; it must never come to name another secret. The zero FingerprintKey
// makes plain ones.
type FingerprintKey struct {
	Version uint8
	Secret  Secret // at least [MinFingerprintSecretBytes]
}

// isPlain reports whether k makes the fingerprints that need no secret.
func (k FingerprintKey) isPlain() bool { return k.Version == 0 && k.Secret == nil }

// fingerprinter makes the fingerprints of all versions that a guard knows.
type fingerprinter struct {
	current uint8
	secrets map[uint8][]byte // of the keyed versions
}

func newFingerprinter(keys []FingerprintKey) fingerprinter {
	f := fingerprinter{current: plainVersion, secrets: make(map[uint8][]byte)}
	for i, key := range keys {
		if key.isPlain() {
			continue
		}
		if i == 0 {
			f.current = key.Version
		}
		f.secrets[key.Version] = bytes.Clone(key.Secret)
	}
	return f
}

// of returns the fingerprint of one version; false if there is no secret for it.
func (f *fingerprinter) of(s *subject, version uint8) (Fingerprint, bool) {
	secret, keyed := f.secrets[version]
	if !keyed && version != plainVersion {
		return Fingerprint{}, false
	}
	return s.fingerprint(version, secret), true
}

// fingerprintFor returns the call's fingerprint to compare with that of rec: of
// rec's version, if there is a secret for it.
func (c *call) fingerprintFor(rec *Record) Fingerprint {
	version := rec.Fingerprint.Version
	if version == c.fingerprint.Version {
		return c.fingerprint
	}
	if fp, ok := c.fingerprints.of(&c.subject, version); ok {
		return fp
	}
	return c.fingerprint // of another version: record-unreadable
}

func checkFingerprintKeys(keys []FingerprintKey) error {
	seen := make(map[uint8]bool)
	for i, key := range keys {
		switch {
		case i == 0 && key.isPlain():
		case key.Version <= plainVersion:
			return reject("FingerprintKey.Version", key.Version, "must be 2 to 255")
		case seen[key.Version]:
			return reject("FingerprintKey.Version", key.Version, "is there twice")
		case len(key.Secret) < MinFingerprintSecretBytes:
			return reject("FingerprintKey.Secret", fmt.Sprintf("%d bytes", len(key.Secret)), fmt.Sprintf("must have at least %d", MinFingerprintSecretBytes))
		}
		seen[key.Version] = true
	}
	return nil
}
