package natsstore

import (
	"fmt"
	"log/slog"
	"regexp"
	"time"

	"github.com/nats-io/nats.go"
)

// The defaults of [Config].
const (
	DefaultBucket   = "fanonce"
	DefaultReplicas = 3
	DefaultTimeout  = 10 * time.Second
)

// A Durability says when the servers flush a write to their disks: before the acknowledgement, or later. The setting of
// nats-server is sync_interval in its jetstream block. It is not a setting of the bucket.
type Durability uint8

const (
	// FlushReported means that the servers say it, over [Config].System. It is the zero Durability.
	FlushReported Durability = iota
	// FlushEachWrite says that every server of the bucket has sync_interval: always.
	FlushEachWrite
	// FlushPeriodically accepts that the servers flush at times, every two minutes by default. A power
	// failure of most replicas at once can then forget acknowledged claims and answers: see the package's table.
	FlushPeriodically
)

// Config configures [Create] and [Open]. The zero Config means the defaults.
type Config struct {
	// Bucket is the name of the key-value bucket: letters, digits, "-" and "_", at most 64. Empty means [DefaultBucket].
	Bucket string

	// Replicas is the number of servers that keep the bucket: 1, 3 or 5. [Open] refuses a bucket that has
	// another number. Zero means [DefaultReplicas].
	Replicas int

	// Durability says when the servers flush. With the zero value, [Open] asks the servers over System, and refuses
	// them unless each of them flushes each write. Without System it returns [ErrDurability].
	Durability Durability

	// System is a connection to the servers' system account. The store uses it during [Open] only. nil: none. If it
	// is set, Open also checks what Durability says.
	System *nats.Conn

	// Timeout is how long a call tries, if its ctx has no nearer deadline. While the bucket has no leader, calls
	// wait: a failover takes 4 to 10 seconds. Zero means [DefaultTimeout]. A negative Timeout is refused.
	Timeout time.Duration

	// Logger gets what no caller can be told, such as a record that a sweep cannot read. nil is silent.
	Logger *slog.Logger
}

var bucketName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// filled returns cfg with its defaults. The error wraps [ErrConfig].
func (cfg Config) filled() (Config, error) {
	if cfg.Bucket == "" {
		cfg.Bucket = DefaultBucket
	}
	if cfg.Replicas == 0 {
		cfg.Replicas = DefaultReplicas
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = DefaultTimeout
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	switch {
	case !bucketName.MatchString(cfg.Bucket):
		return cfg, fmt.Errorf("%w: Bucket %q", ErrConfig, cfg.Bucket)
	case cfg.Replicas != 1 && cfg.Replicas != 3 && cfg.Replicas != 5:
		return cfg, fmt.Errorf("%w: Replicas %d, want 1, 3 or 5", ErrConfig, cfg.Replicas)
	case cfg.Durability > FlushPeriodically:
		return cfg, fmt.Errorf("%w: Durability %d", ErrConfig, cfg.Durability)
	case cfg.Timeout < 0:
		return cfg, fmt.Errorf("%w: Timeout %v is negative", ErrConfig, cfg.Timeout)
	}
	return cfg, nil
}
