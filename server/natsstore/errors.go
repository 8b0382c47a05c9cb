package natsstore

import (
	"errors"
	"fmt"

	"github.com/fanonce/fanonce/server/store"
)

// These are the errors of [Create] and [Open], beside those of package store.
var (
	// ErrConfig: a field of [Config] is out of range. The text names the field.
	ErrConfig = errors.New("natsstore: bad config")
	// ErrServer: the server is too old, or has no JetStream for this account.
	ErrServer = errors.New("natsstore: server not usable")
	// ErrNoBucket: the bucket does not exist. [Create] makes it.
	ErrNoBucket = errors.New("natsstore: no such bucket")
	// ErrBucket: a setting of the bucket's stream could lose keys. A [*BucketError] names the setting.
	ErrBucket = errors.New("natsstore: bucket not usable")
	// ErrDurability: the servers do not flush each write, or nobody has said whether they do.
	ErrDurability = errors.New("natsstore: durability of the servers")
	// ErrClosed: the store or its connection is closed.
	ErrClosed = errors.New("natsstore: closed")
)

// A BucketError is returned by [Open] when a setting of the bucket's stream is not safe. It matches [ErrBucket].
type BucketError struct {
	Bucket  string
	Setting string // as in the JSON of the stream's configuration
	Got     string
	Want    string
	Why     string // the harm that Got can do
}

// Error implements error.
func (e *BucketError) Error() string {
	return fmt.Sprintf("natsstore: bucket %q has %s %s, want %s: %s", e.Bucket, e.Setting, e.Got, e.Want, e.Why)
}

// Is reports whether target is [ErrBucket].
func (e *BucketError) Is(target error) bool { return target == ErrBucket }

// argument returns an error for a bad argument of a method.
func argument(format string, args ...any) error {
	return fmt.Errorf("%w: natsstore: %s", store.ErrArgument, fmt.Sprintf(format, args...))
}
