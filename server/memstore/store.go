package memstore

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/fanonce/fanonce/server"
)

// DefaultLockTimeout is [Config].LockTimeout where that is zero.
const DefaultLockTimeout = 5 * time.Second

var (
	// ErrArgument means that a request cannot be meant as it is. Nothing changed.
	ErrArgument = errors.New("memstore: bad argument")
	// ErrLocked means that another transaction cancelled the key, or tried to, and did
	// not end within [Config].LockTimeout. Nothing changed.
	ErrLocked = errors.New("memstore: record locked by an open transaction")
)

// Config holds what a [Store] can be told. The zero Config means the defaults.
type Config struct {
	// Now is the store's clock; it decides every lease and every retention.
	// It is called under the store's lock and must not call the store.
	//
	// nil means [time.Now], inside a testing/synctest bubble too.
	Now func() time.Time

	// LockTimeout bounds how long a call waits for the end of a transaction
	// that has locked its record.
	//
	// Zero means [DefaultLockTimeout]. [NewWith] rejects a negative one.
	LockTimeout time.Duration
}

// A Store keeps records in memory. It is safe for concurrent use. The zero
// Store is not usable: make one with [New] or [NewWith].
//
// A method returns the error of a ctx that is already done, and then has
// changed nothing; it blocks only while a transaction holds its record.
type Store struct {
	now         func() time.Time
	lockTimeout time.Duration

	mu       sync.Mutex
	records  map[server.ID]server.Record
	watchers map[server.ID][]*watcher // who waits for the end of a run
	locks    map[server.ID]*tx        // who holds the record until it ends
	queue    []*tx                    // who waits for one, first come first
	audit    []server.AuditEntry
}

var _ server.TxStore = (*Store)(nil)

// New returns an empty store with the default [Config].
func New() *Store {
	return &Store{
		now:         time.Now,
		lockTimeout: DefaultLockTimeout,
		records:     make(map[server.ID]server.Record),
		watchers:    make(map[server.ID][]*watcher),
		locks:       make(map[server.ID]*tx),
	}
}

// NewWith returns an empty store. It returns an error wrapping [ErrArgument]
// if a field of cfg is out of range.
func NewWith(cfg Config) (*Store, error) {
	if cfg.LockTimeout < 0 {
		return nil, fmt.Errorf("%w: LockTimeout %v is negative", ErrArgument, cfg.LockTimeout)
	}
	s := New()
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
