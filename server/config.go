package server

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server/store"
)

// The defaults of [Config], and DefaultWaitCap, the longest wait that a request may ask for.
const (
	DefaultLease               = 30 * time.Second
	DefaultHandlerTimeout      = 60 * time.Second
	DefaultRetention           = 24 * time.Hour
	DefaultAuditRetention      = store.DefaultAuditRetention
	DefaultWait                = 5 * time.Second
	DefaultWaitCap             = 10 * time.Second
	DefaultBodyTimeout         = 10 * time.Second
	DefaultSkew                = 5 * time.Minute
	DefaultStoreTimeout        = 5 * time.Second
	DefaultSettleTimeout       = 10 * time.Second
	DefaultMaxRequestBytes     = 1 << 20
	DefaultMaxResponseBytes    = 1 << 20
	DefaultMaxBufferedBytes    = 256 << 20
	DefaultMaxRecoveryAttempts = 5
	DefaultSweepBatch          = 100
	DefaultSweepInterval       = time.Minute
	DefaultMaxWaiters          = 4096
)

// Config configures a [Guard]. The zero Config is ready to use: every zero
// field means its default. [NewGuard] copies it, and rejects a wrong value with a
// [ConfigError].
type Config struct {
	// Namespace separates guards that share a store and scopes: they share
	// neither records nor the keys of calls. It is a name as
	// [childkey.CheckName] asks and does not begin with "saga/" or "inbox/". It
	// must not change while keys live: another namespace is another tree of
	// keys. Zero is the empty namespace.
	Namespace string

	// Lease is how long a run keeps its key without a heartbeat. The heartbeat comes at a third of the lease, so a
	// slow run keeps its key. After a crash the key is free again when the lease ends. Lease is 100 ms to 24 h. Zero
	// means [DefaultLease].
	Lease time.Duration
	// HandlerTimeout is the time after which a run's ctx ends, with cause [ErrHandlerTimeout]. A lost lease and
	// [Guard.Shutdown] end it too. A process that is stopped needs HandlerTimeout and SettleTimeout to let every run
	// end by itself. If the platform gives less time, choose a shorter HandlerTimeout. Otherwise Shutdown cancels the
	// longest runs. Zero means [DefaultHandlerTimeout].
	HandlerTimeout time.Duration
	// Retention is how long a completed key replays its answer, from its
	// completion. It must not be shorter than Lease. Zero means [DefaultRetention].
	Retention time.Duration
	// AuditRetention is how long a record is kept, from its first claim. Past Retention the key answers
	// response-gone. AuditRetention less Skew is also how old Idempotency-First-Sent may be for a key to run: until
	// then no record means that nothing ran. AuditRetention must not be shorter than Retention, nor longer than
	// [MaxRetention]. Zero means [DefaultAuditRetention], or Retention if that is longer.
	AuditRetention time.Duration
	// BodyRetention drops answers earlier than their records. A completed key
	// replays for that time only, and then answers response-gone.
	// [Guard.Lookup] shows its status without the answer. BodyRetention must
	// not be shorter than Lease, nor longer than Retention. Zero means that an
	// answer is kept as long as its record.
	BodyRetention time.Duration
	// Wait is how long a duplicate waits for the first run, unless its request
	// says otherwise (Prefer: wait=N). Many clients treat a 409 as final, so a
	// duplicate should wait for the answer. A negative Wait answers in-progress
	// at once, and so does "Prefer: wait=0". A request may ask for at most
	// [DefaultWaitCap], or Wait if that is longer. An inbox never waits. Zero
	// means [DefaultWait].
	Wait time.Duration
	// Skew is how far in the future Idempotency-First-Sent may be. Zero means
	// [DefaultSkew].
	Skew time.Duration
	// StoreTimeout bounds each call to the store, with two exceptions. The commit of a transaction has
	// SettleTimeout, and the maintenance of partitions has one minute. Zero means [DefaultStoreTimeout].
	StoreTimeout time.Duration
	// SettleTimeout bounds how long a run whose work is done tries to record
	// its outcome before it is answered with store-unavailable. Zero means
	// [DefaultSettleTimeout].
	SettleTimeout time.Duration

	// BodyTimeout is how long a guarded request's body may take to arrive.
	// After it the request is refused with body-timeout, and nothing is stored.
	// A shorter http.Server.ReadTimeout counts instead. The guard sets the read
	// deadline of the connection or stream, by http.ResponseController, and
	// clears it before the handler runs. A middleware around the guard makes
	// BodyTimeout useless if its ResponseWriter has neither SetReadDeadline nor
	// Unwrap. The guard logs this once. Zero means [DefaultBodyTimeout].
	BodyTimeout time.Duration

	// MaxRequestBytes caps request bodies. Zero means
	// [DefaultMaxRequestBytes].
	MaxRequestBytes int64
	// MaxBufferedBytes caps the memory for the bodies of all requests that are
	// in the guard at the same time. A body is in memory until its request is
	// answered. One scope takes at most a quarter, and at least MaxRequestBytes;
	// the scope of [Unscoped] takes all. A request above the cap, or above its
	// scope's share, is refused with not-claimed and Retry-After, and
	// nothing is stored. Requests that wait for another run take at most a quarter
	// of it, with the same shares: one above that is refused with in-progress at
	// once. MaxBufferedBytes must not be less than MaxRequestBytes.
	// Zero means [DefaultMaxBufferedBytes], or MaxRequestBytes if that is more.
	MaxBufferedBytes int64
	// MaxResponseBytes caps response bodies that are stored; see
	// [Route.Stream] for larger ones. A body of up to 16 times as much is kept in
	// memory for the first caller; [StreamBuffer] says what happens to one above that.
	//
	// Two other limits are fixed. The headers to replay ([Config.ReplayHeaders]) may have 256
	// lines and 64 KiB of names and values together, and an answer may have no trailer. An
	// answer beyond them goes to the first caller whole. Its key is finished without an answer,
	// and a retry gets response-gone.
	//
	// Zero means [DefaultMaxResponseBytes].
	MaxResponseBytes int64
	// MaxRecoveryAttempts is how many owners of a key may die before it is quarantined.
	// Zero means [DefaultMaxRecoveryAttempts].
	MaxRecoveryAttempts int
	// SweepBatch is how many records one statement of [Guard.Sweep] or
	// [Guard.RunSweeper] deletes. RunSweeper pauses for 5 ms after a full batch, and at
	// least as long as the batch took. Zero means [DefaultSweepBatch].
	SweepBatch int
	// SweepInterval is the time from the beginning of one round of
	// [Guard.RunSweeper] to the beginning of the next, give or take a quarter.
	// Zero means [DefaultSweepInterval].
	SweepInterval time.Duration
	// MaxWaiters caps how many requests of this process wait for the runs of
	// others. One key takes at most a sixteenth, and one scope a quarter, each at
	// least one place; the scope of [Unscoped] takes all. Further requests are
	// refused with in-progress at once. Zero means [DefaultMaxWaiters].
	MaxWaiters int

	// CacheBytes is how much memory this process spends on finished records, so
	// that their duplicates cost no statement. Each answer counts with its size
	// and half a KiB. A record is used for a minute. For that time this process may
	// not notice that another process undid a completed key, or forgot it ([Barrier],
	// [Guard.Forget]). It may also replay an answer that the store lost in a failover.
	// Zero means no cache.
	CacheBytes int64

	// Codec seals the stored answers and memos; see [NewAESGCM]. nil stores them in
	// plain text.
	Codec Codec
	// FingerprintKeys make keyed fingerprints. The first key is for new claims, the
	// others are for older records and for records of other processes. A record whose
	// version is missing here is record-unreadable. To rotate, give the new key to all
	// processes behind the old key. Then put it in front, and keep the old key for
	// AuditRetention. Empty means plain fingerprints (SHA-256), which every guard can
	// compare. The zero FingerprintKey in front makes plain ones too, until all processes
	// have the keys behind it.
	FingerprintKeys []FingerprintKey

	// Methods are the guarded methods. A request with another method passes
	// through without a mark, and its key is ignored. nil means POST, PUT,
	// PATCH and DELETE.
	Methods []string
	// ReplayHeaders are stored with an answer and replayed, beside the headers that
	// always are: Content-Type, Content-Language, Content-Encoding,
	// Content-Disposition, Content-Location, Location, ETag, Last-Modified and Link.
	// A header that is never replayed, such as Set-Cookie or Date, is an error.
	ReplayHeaders []string
	// KeyPolicy refuses well-formed keys that the service does not accept, such
	// as e-mail addresses or short keys, with key-invalid. Its error is neither sent
	// nor logged: it may hold the key. A route with rules of its own reads its keys by
	// [Route.Key]. nil accepts all.
	KeyPolicy func(childkey.Key) error
	// RenderProblem makes the answer to every refusal, and to every error of a typed handler, in the service's own
	// shape. p describes the refusal. r is the request; its body has been read. RenderProblem must not change r. Many
	// requests may call it at once.
	//
	// The answer needs a status of 400 to 599 and a body; for a typed handler's
	// error the status must be p.Status. After any other answer, or a panic, the
	// caller gets p with status 500, and the log says why. The guard sets
	// Idempotency-Code, the headers about retries and Content-Length itself:
	// those of the answer are dropped. Other headers are sent, such as a Link to the
	// service's rules for keys. nil: the problem as JSON (RFC 9457).
	RenderProblem func(r *http.Request, p wire.Problem) Response
	// Observer gets every event; a [Tracer] hears more. nil means no observer.
	Observer Observer
	// Logger gets warnings and errors about events that need a person. These
	// are keys that became outcome-unknown or quarantined, refusals with 423
	// and 5xx, and functions of the service that failed. A line names a key by
	// its [store.ID], as a problem's instance, [Guard.ListStuck] and
	// [Guard.Resolve] do. It holds no key, scope or body. There is at most one
	// line in a second for one cause; "count" is the number of events that a
	// line stands for. Other refusals are logged at debug level. nil is silent.
	Logger *slog.Logger
}
