package childkey

import "errors"

// The errors of this package. The functions that return them wrap them with
// the field that was wrong; no error text holds a key, a secret or a
// discriminator.
var (
	// ErrEmpty: a parent key, name, discriminator, part or receiver is missing.
	ErrEmpty = errors.New("childkey: empty")
	// ErrTooLong: a field is longer than its limit.
	ErrTooLong = errors.New("childkey: too long")
	// ErrTooMany: there are more than [MaxDiscriminators] discriminators or parts.
	ErrTooMany = errors.New("childkey: too many")
	// ErrBadKey: a key has a byte outside 0x21-0x7E, or one of `"`, `,`, `\`.
	// [Legacy] returns it for a ":" too.
	ErrBadKey = errors.New("childkey: bad key")
	// ErrBadName: a name that [CheckName] refuses for a byte in it.
	ErrBadName = errors.New("childkey: bad name")
	// ErrBadScope: a scope is not UTF-8, or has a NUL in it.
	ErrBadScope = errors.New("childkey: bad scope")
	// ErrBadEncoding: an [Encoding] is none of this package's.
	ErrBadEncoding = errors.New("childkey: bad encoding")
	// ErrBadSecret: the secret of a [Keyed] is shorter than 16 bytes.
	ErrBadSecret = errors.New("childkey: bad secret")
	// ErrRandom: the random source failed, or there is none.
	ErrRandom = errors.New("childkey: random source")
	// ErrDuplicateChild: one (service, operation, discriminators) was used
	// twice under one parent, for calls that are not the same call.
	ErrDuplicateChild = errors.New("childkey: duplicate child")
)
