package redisstore

import (
	"cmp"
	"fmt"
	"log/slog"
	"strings"
	"time"
)

// The defaults of a zero [Config].
const (
	DefaultPrefix       = "fanonce"
	DefaultWaitTimeout  = time.Second
	DefaultCloseTimeout = 10 * time.Second

	defaultMaxFlushes = 4
	defaultMaxQueued  = 4096
	mostFlushes       = 64
	mostPrefixBytes   = 64
	mostReplicas      = 16
)

// A Config has the choices that a store leaves. Its zero value is ready to use.
type Config struct {
	// Prefix is in front of the name of every key in Redis. Stores with different prefixes share nothing. It has at
	// most 64 bytes, and none of the characters { and }. Empty means [DefaultPrefix].
	Prefix string

	// Replicas is how many replicas must have a write before it is acknowledged (the WAIT command). If fewer have it in
	// time, the call returns [store.ErrFateUnknown], and a guard answers 503 store-unavailable. A read of a key waits
	// as well, so that an answer is replayed only if a failover keeps it. Choose the number of replicas of each
	// primary: with fewer, a failover may choose a replica without the write. Zero means none: a failover can then lose what
	// was acknowledged. At most 16.
	Replicas int

	// WaitTimeout is how long a write waits for Replicas. It is shorter than the ReadTimeout of the options. Zero
	// means [DefaultWaitTimeout]; the least is 1 ms.
	WaitTimeout time.Duration

	// AllowNonDurable lets [Open] accept a server that loses what it acknowledged, as tests use.
	AllowNonDurable bool

	// Unverified lets [Open] accept a server that does not show its settings, as managed services do. You then answer
	// for them: see [Open].
	Unverified bool

	// MaxFlushes is how many pipelines may be on their way to one server at once, each on a connection of its own. While
	// none of them ends, because their connections are lost without a word, there may be twice as many. Zero means 4; at
	// most 64.
	MaxFlushes int

	// MaxQueued is how many calls may wait for one server. More are refused with [ErrQueueFull], and a guard answers
	// 503 not-claimed. Zero means 4096.
	MaxQueued int

	// KeepRoutes stores the Route of every claim, so that people see the operation of each key, and can look for the keys
	// of a route. A route takes its own length. If it is false, only Opaque and quarantined records have a Route. A change
	// counts for the claims after it.
	KeepRoutes bool

	// CloseTimeout is how long [Store.Close] waits for calls that are on their way. Zero means [DefaultCloseTimeout].
	CloseTimeout time.Duration

	// Logger gets a warning for each setting with which a crash or a failover can lose an answer. nil is silent.
	Logger *slog.Logger
}

// withDefaults returns c with its zeros filled in, or an error that names the field.
func (c Config) withDefaults() (Config, error) {
	c.Prefix = cmp.Or(c.Prefix, DefaultPrefix)
	c.WaitTimeout = cmp.Or(c.WaitTimeout, DefaultWaitTimeout)
	c.CloseTimeout = cmp.Or(c.CloseTimeout, DefaultCloseTimeout)
	c.MaxFlushes = cmp.Or(c.MaxFlushes, defaultMaxFlushes)
	c.MaxQueued = cmp.Or(c.MaxQueued, defaultMaxQueued)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	switch {
	case len(c.Prefix) > mostPrefixBytes || strings.ContainsAny(c.Prefix, "{}"):
		return c, fmt.Errorf("%w: Prefix %.80q is longer than %d bytes or has a brace", ErrConfig, c.Prefix, mostPrefixBytes)
	case c.Replicas < 0 || c.Replicas > mostReplicas:
		return c, fmt.Errorf("%w: Replicas %d is not from 0 to %d", ErrConfig, c.Replicas, mostReplicas)
	case c.WaitTimeout < time.Millisecond:
		return c, fmt.Errorf("%w: WaitTimeout %v is less than 1ms", ErrConfig, c.WaitTimeout)
	case c.MaxFlushes < 0 || c.MaxFlushes > mostFlushes:
		return c, fmt.Errorf("%w: MaxFlushes %d is not from 0 to %d", ErrConfig, c.MaxFlushes, mostFlushes)
	case c.MaxQueued < 0:
		return c, fmt.Errorf("%w: MaxQueued %d is negative", ErrConfig, c.MaxQueued)
	case c.CloseTimeout < 0:
		return c, fmt.Errorf("%w: CloseTimeout %v is negative", ErrConfig, c.CloseTimeout)
	}
	return c, nil
}
