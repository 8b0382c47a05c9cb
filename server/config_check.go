package server

import (
	"cmp"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/textproto"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/server/internal/engine"
	"github.com/fanonce/fanonce/server/internal/record"
	"github.com/fanonce/fanonce/server/store"
)

// The limits of [Config.Lease].
const (
	MinLease = 100 * time.Millisecond
	MaxLease = 24 * time.Hour
)

// MaxRetention is the longest [Config.AuditRetention], and so the longest of the
// retentions, and the longest [Config.HandlerTimeout]: 200 years.
const MaxRetention = store.MaxRetention

// MaxNameBytes is the length of the longest [Route].Name and [Task].Name.
const MaxNameBytes = 1024

// checkName refuses a name that a store could not keep. Otherwise each request would fail, and the error would look
// like a store that cannot be reached.
func checkName(field, name string) error {
	switch {
	case len(name) > MaxNameBytes:
		return reject(field, fmt.Sprintf("%d bytes", len(name)), fmt.Sprintf("must not be longer than %d bytes", MaxNameBytes))
	case !utf8.ValidString(name) || strings.IndexByte(name, 0) >= 0:
		return reject(field, fmt.Sprintf("%q", name), "must be UTF-8 without NUL")
	}
	return nil
}

// A ConfigError is returned by [NewGuard], [Guard.Route], [Handle] and other functions that
// take a declaration. It names the wrong field.
type ConfigError struct {
	Field  string // as "Config.Lease", or "inbox.Config.Consumer"
	Value  string
	Reason string
}

// Error implements error.
func (e *ConfigError) Error() string {
	return fmt.Sprintf("server: %s = %s: %s", e.Field, e.Value, e.Reason)
}

func reject(field string, value any, reason string) error {
	return &ConfigError{Field: field, Value: fmt.Sprint(value), Reason: reason}
}

// withDefaults returns a copy of c that shares no memory with it, every zero
// field filled in.
func (c Config) withDefaults() Config {
	c.Lease = cmp.Or(c.Lease, DefaultLease)
	c.HandlerTimeout = cmp.Or(c.HandlerTimeout, DefaultHandlerTimeout)
	c.Retention = cmp.Or(c.Retention, DefaultRetention)
	c.AuditRetention = cmp.Or(c.AuditRetention, max(DefaultAuditRetention, c.Retention))
	c.Wait = cmp.Or(c.Wait, DefaultWait)
	c.BodyTimeout = cmp.Or(c.BodyTimeout, DefaultBodyTimeout)
	c.Skew = cmp.Or(c.Skew, DefaultSkew)
	c.StoreTimeout = cmp.Or(c.StoreTimeout, DefaultStoreTimeout)
	c.SettleTimeout = cmp.Or(c.SettleTimeout, DefaultSettleTimeout)
	c.MaxRequestBytes = cmp.Or(c.MaxRequestBytes, DefaultMaxRequestBytes)
	c.MaxBufferedBytes = cmp.Or(c.MaxBufferedBytes, max(DefaultMaxBufferedBytes, c.MaxRequestBytes))
	c.MaxResponseBytes = cmp.Or(c.MaxResponseBytes, DefaultMaxResponseBytes)
	c.MaxRecoveryAttempts = cmp.Or(c.MaxRecoveryAttempts, DefaultMaxRecoveryAttempts)
	c.SweepBatch = cmp.Or(c.SweepBatch, DefaultSweepBatch)
	c.SweepInterval = cmp.Or(c.SweepInterval, DefaultSweepInterval)
	c.MaxWaiters = cmp.Or(c.MaxWaiters, DefaultMaxWaiters)
	if c.Methods == nil {
		c.Methods = []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}
	}
	c.Methods = slices.Clone(c.Methods)
	c.ReplayHeaders = slices.Clone(c.ReplayHeaders)
	for i, name := range c.ReplayHeaders {
		c.ReplayHeaders[i] = textproto.CanonicalMIMEHeaderKey(name)
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// check reports what is wrong with a Config whose defaults are filled in.
func (c Config) check() error {
	for _, positive := range []struct {
		field string
		value time.Duration
	}{
		{"HandlerTimeout", c.HandlerTimeout},
		{"Skew", c.Skew},
		{"StoreTimeout", c.StoreTimeout},
		{"SettleTimeout", c.SettleTimeout},
		{"BodyTimeout", c.BodyTimeout},
		{"SweepInterval", c.SweepInterval},
	} {
		if positive.value < 0 {
			return reject("Config."+positive.field, positive.value, "must not be negative")
		}
	}
	for _, positive := range []struct {
		field string
		value int64
	}{
		{"MaxRequestBytes", c.MaxRequestBytes},
		{"MaxBufferedBytes", c.MaxBufferedBytes},
		{"MaxResponseBytes", c.MaxResponseBytes},
		{"MaxRecoveryAttempts", int64(c.MaxRecoveryAttempts)},
		{"SweepBatch", int64(c.SweepBatch)},
		{"MaxWaiters", int64(c.MaxWaiters)},
		{"CacheBytes", c.CacheBytes},
	} {
		if positive.value < 0 {
			return reject("Config."+positive.field, positive.value, "must not be negative")
		}
	}
	if err := c.checkTimes(); err != nil {
		return err
	}
	if c.MaxBufferedBytes < c.MaxRequestBytes {
		return reject("Config.MaxBufferedBytes", c.MaxBufferedBytes, fmt.Sprintf("must not be less than MaxRequestBytes, %d", c.MaxRequestBytes))
	}
	return c.checkLists()
}

func (c Config) checkTimes() error {
	switch {
	case c.Lease < MinLease || c.Lease > MaxLease:
		return reject("Config.Lease", c.Lease, fmt.Sprintf("must be %v to %v", MinLease, MaxLease))
	case c.Retention < c.Lease:
		return reject("Config.Retention", c.Retention, fmt.Sprintf("must not be shorter than Lease, %v", c.Lease))
	case c.Retention > MaxRetention:
		return reject("Config.Retention", c.Retention, fmt.Sprintf("must not be longer than %v", MaxRetention))
	case c.AuditRetention > MaxRetention:
		return reject("Config.AuditRetention", c.AuditRetention, fmt.Sprintf("must not be longer than %v", MaxRetention))
	case c.HandlerTimeout > MaxRetention: // the store records how long a reconciler may be waited for
		return reject("Config.HandlerTimeout", c.HandlerTimeout, fmt.Sprintf("must not be longer than %v", MaxRetention))
	case c.AuditRetention < c.Retention:
		return reject("Config.AuditRetention", c.AuditRetention, fmt.Sprintf("must not be shorter than Retention, %v", c.Retention))
	case c.BodyRetention != 0 && (c.BodyRetention < c.Lease || c.BodyRetention > c.Retention):
		return reject("Config.BodyRetention", c.BodyRetention, fmt.Sprintf("must be 0, or Lease to Retention, %v to %v", c.Lease, c.Retention))
	case c.window() <= 0:
		return reject("Config.Skew", c.Skew, fmt.Sprintf("must be shorter than AuditRetention, %v", c.AuditRetention))
	}
	return nil
}

// inboxPrefix and sagaPrefix begin the namespaces of inboxes and of the steps of
// sagas, whose hop keys must differ from those of a guard's requests.
const (
	inboxPrefix = "inbox/"
	sagaPrefix  = "saga/"
)

// nameRule says what [childkey.CheckName] accepts.
var nameRule = fmt.Sprintf("must have 1 to %d letters, digits and ._/-, and begin with a letter or a digit", childkey.MaxNameBytes)

func checkNamespace(field, namespace string) error {
	if namespace == "" {
		return nil
	}
	if err := childkey.CheckName(namespace); err != nil {
		return reject(field, fmt.Sprintf("%q", namespace), nameRule)
	}
	for _, prefix := range []string{inboxPrefix, sagaPrefix} {
		if strings.HasPrefix(namespace, prefix) {
			return reject(field, fmt.Sprintf("%q", namespace), "must not begin with "+prefix)
		}
	}
	return nil
}

func (c Config) checkLists() error {
	if err := checkNamespace("Config.Namespace", c.Namespace); err != nil {
		return err
	}
	if err := checkFingerprintKeys(c.FingerprintKeys); err != nil {
		return err
	}
	if err := c.checkCodec(); err != nil {
		return err
	}
	for _, m := range c.Methods {
		if !record.IsToken(m) || m != strings.ToUpper(m) {
			return reject("Config.Methods", fmt.Sprintf("%q", m), "must be an HTTP method in upper case")
		}
	}
	for _, name := range c.ReplayHeaders {
		if !record.IsToken(name) {
			return reject("Config.ReplayHeaders", fmt.Sprintf("%q", name), "must be the name of a header")
		}
		if neverReplayed(name) {
			return reject("Config.ReplayHeaders", name, "belongs to one answer, and is never replayed")
		}
	}
	return nil
}

// longestWait is how long a request may ask to wait for another call's run.
func (c *Config) longestWait() time.Duration { return max(DefaultWaitCap, c.Wait) }

// window is how old a first-sent time may be for its key to run. As long as records live, no record means that
// nothing ran. It ends one Skew before AuditRetention. Otherwise a record could be swept, and then a request whose
// clock is ahead by the skew could run again.
func (c Config) window() time.Duration { return c.AuditRetention - c.Skew }

// maxServedBytes is the largest body that is kept in memory for the first caller.
func (c *Config) maxServedBytes() int64 {
	const times = 16
	if c.MaxResponseBytes > math.MaxInt64/times {
		return math.MaxInt64
	}
	return times * c.MaxResponseBytes
}

// waiterLimits are the caps on the requests that wait for a run.
func (c *Config) waiterLimits() engine.WaiterLimits {
	return engine.WaiterLimits{
		PerKey: max(1, c.MaxWaiters/16), Places: int64(c.MaxWaiters),
		Bytes: c.MaxBufferedBytes / 4, LeastBytes: c.MaxRequestBytes,
	}
}
