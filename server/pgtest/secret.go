package pgtest

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
)

// scramSecret is what Postgres keeps of a password (RFC 5803), made here with one iteration. Postgres itself makes 4,096,
// so that a weak password is slow to guess. A test pays for them at each connection: 5 ms of processor time with the
// race detector. The 130 random bits of [rand.Text] are no weak password.
func scramSecret(password string) (string, error) {
	salt := make([]byte, 16)
	rand.Read(salt) // never fails
	salted, err := pbkdf2.Key(sha256.New, password, salt, 1, sha256.Size)
	if err != nil {
		return "", fmt.Errorf("pgtest: secret of the password: %w", err)
	}
	mac := func(text string) []byte {
		h := hmac.New(sha256.New, salted)
		h.Write([]byte(text))
		return h.Sum(nil)
	}
	stored := sha256.Sum256(mac("Client Key"))
	encode := base64.StdEncoding.EncodeToString
	return "SCRAM-SHA-256$1:" + encode(salt) + "$" + encode(stored[:]) + ":" + encode(mac("Server Key")), nil
}
