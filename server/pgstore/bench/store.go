package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/store"
)

// answer is what every variant stores: 200 bytes.
var answer = func() []byte {
	text := make([]byte, 200)
	for i := range text {
		text[i] = 'a' + byte(i%26)
	}
	return text
}()

// keep is how long all keys are kept.
const keep = 24 * time.Hour

var errNotFirst = errors.New("bench: a key that nobody used was claimed before")

// storeVariant is the library's own store, to claim and complete as many keys as
// callers can.
func storeVariant(ctx context.Context, on *postgres, name string, n int, cfg pgstore.Config) (*variant, error) {
	s, err := openStore(ctx, on, cfg)
	if err != nil {
		return nil, err
	}
	return s.variant(name, callers(n, s.claimAndComplete)), nil
}

// A keyStore is a store on a database of its own.
type keyStore struct {
	*pgstore.Store
	*database
}

func openStore(ctx context.Context, on *postgres, cfg pgstore.Config) (*keyStore, error) {
	db, err := on.database(ctx, migrateStore)
	if err != nil {
		return nil, err
	}
	s, err := storeOn(ctx, db, cfg)
	if err != nil {
		return nil, errors.Join(err, db.drop())
	}
	return s, nil
}

func storeOn(ctx context.Context, db *database, cfg pgstore.Config) (*keyStore, error) {
	config, err := db.config(connections)
	if err != nil {
		return nil, err
	}
	s, err := pgstore.Open(ctx, config, cfg)
	if err != nil {
		return nil, err
	}
	return &keyStore{s, db}, nil
}

func (k *keyStore) variant(name string, turn func(context.Context, time.Duration) (work, error)) *variant {
	return &variant{name: name, server: k.server, turn: turn, check: k.check, close: k.close}
}

func (k *keyStore) close() error {
	k.Close()
	return k.drop()
}

// check looks whether each operation left a row, and nothing else did.
func (k *keyStore) check(ctx context.Context, operations int) error {
	return k.holds(ctx, operations, completed+" and fence = 1", "select count(*) from idempotency")
}

// holds checks that each of the queries counts so many.
func (d *database) holds(ctx context.Context, operations int, queries ...string) error {
	for _, query := range queries {
		n, err := d.count(ctx, query)
		if err != nil {
			return err
		}
		if n != operations {
			return fmt.Errorf("%d operations were counted, but %s: %d", operations, query, n)
		}
	}
	return nil
}

func random() (b [16]byte) {
	_, _ = rand.Read(b[:]) // never fails
	return b
}

func claimOf(id store.ID) store.ClaimRequest {
	return store.ClaimRequest{
		ID: id, Token: random(), Fingerprint: store.Fingerprint{Version: 1, Sum: [32]byte{7}},
		Effect: server.Keyed, Lease: time.Minute, Keep: keep,
	}
}

// claimAndComplete is what a callee's two durable steps cost, for a fresh key.
func (k *keyStore) claimAndComplete(ctx context.Context) error {
	return complete(ctx, k, random())
}

// claim repeats a claim that waited for longer than LockTimeout, as a caller does that is told so. No other transaction
// has a fresh key, but the limit counts for every lock, such as that of a process that extends the table.
func claim(ctx context.Context, s store.Store, req store.ClaimRequest) (r store.Record, won bool, err error) {
	for {
		r, won, err = s.Claim(ctx, req)
		if !errors.Is(err, store.ErrInProgress) || ctx.Err() != nil {
			return r, won, err
		}
	}
}

func complete(ctx context.Context, s store.Store, id store.ID) error {
	req := claimOf(id)
	r, won, err := claim(ctx, s, req)
	if err != nil {
		return err
	}
	if !won {
		return errNotFirst
	}
	return s.Settle(ctx, store.Owner{ID: req.ID, Token: req.Token, Fence: r.Fence}, completion)
}

var completion = store.Settlement{
	State: server.StateCompleted, Answer: store.Answer{Status: 200, Envelope: answer}, ReplayFor: keep,
}
