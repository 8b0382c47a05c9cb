package memstore

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/fanonce/fanonce/server/store"
)

// DefaultLockTimeout is [Config].LockTimeout if that is zero.
const DefaultLockTimeout = 5 * time.Second

var (
	// ErrArgument is [store.ErrArgument]: a request is invalid. Nothing changed.
	ErrArgument = store.ErrArgument
	// ErrLocked means that another transaction cancelled the key, or tried to, and did
	// not end within [Config].LockTimeout. Nothing changed.
	ErrLocked = errors.New("memstore: record locked by an open transaction")
)

// Config configures a [Store]. The zero Config means the defaults.
type Config struct {
	// Now is the store's clock; it decides every lease and every retention.
	// It is called under the store's lock and must not call the store.
	//
	// nil means [time.Now], inside a testing/synctest bubble too.
	Now func() time.Time

	// LockTimeout bounds how long a call waits for the end of a transaction
	// that has locked its record.
	//
	// Zero means [DefaultLockTimeout]. [NewWith] rejects a negative LockTimeout.
	LockTimeout time.Duration

	// KeepRoutes keeps the Route of every claim. If it is false, only Opaque and quarantined
	// records have one.
	KeepRoutes bool
}

// A Store keeps records in memory. It is safe for concurrent use. The zero
// Store is not usable: make one with [New] or [NewWith].
//
// If ctx is already done, a method returns the error of ctx and changes
// nothing. A method blocks only while a transaction holds its record.
type Store struct {
	now         func() time.Time
	lockTimeout time.Duration
	keepRoutes  bool

	mu       sync.Mutex
	records  map[store.ID]store.Record
	dead     map[store.ID]bool       // the keys of dead letters
	watchers map[store.ID][]*watcher // the watchers that wait for the end of a run
	locks    map[store.ID]*tx        // the transaction that holds the record until it ends
	queue    []*tx                   // the transactions that wait for a record, in the order of arrival
	audit    []store.AuditEntry
}

var _ store.TxStore = (*Store)(nil)

// New returns an empty store with the default [Config].
func New() *Store {
	return &Store{
		now:         time.Now,
		lockTimeout: DefaultLockTimeout,
		records:     make(map[store.ID]store.Record),
		dead:        make(map[store.ID]bool),
		watchers:    make(map[store.ID][]*watcher),
		locks:       make(map[store.ID]*tx),
	}
}

// NewWith returns an empty store. It returns an error wrapping [ErrArgument]
// if a field of cfg is out of range.
func NewWith(cfg Config) (*Store, error) {
	if cfg.LockTimeout < 0 {
		return nil, fmt.Errorf("%w: LockTimeout %v is negative", ErrArgument, cfg.LockTimeout)
	}
	s := New()
	s.keepRoutes = cfg.KeepRoutes
	if cfg.Now != nil {
		s.now = cfg.Now
	}
	if cfg.LockTimeout > 0 {
		s.lockTimeout = cfg.LockTimeout
	}
	return s, nil
}

// clock reads the store's clock. UTC keeps the monotonic reading, so a lease
// does not end early when an administrator moves the machine's clock.
func (s *Store) clock() time.Time { return s.now().UTC() }
