package pgstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgkit"
)

// Intents remembers what a program was about to do: it is an sdk.IntentStore, in
// the store's database. It is safe for concurrent use.
//
//	ctx, err := sdk.Begin(ctx, store.Intents(), "checkout", "order-42")
//	… // the calls
//	err = store.Intents().Done(ctx, "checkout", "order-42")
//
// A process that starts looks for [Intents.Pending] ones and does them again: under
// the same keys, what was done before is answered and not done twice. Parent keys
// lie in the table as they are, since they are to be sent.
type Intents struct{ store *Store }

// Intents returns the store's intents.
func (s *Store) Intents() *Intents { return &Intents{s} }

// An Intent is something that was begun.
type Intent struct {
	Parent    childkey.Key
	Namespace string
	Parts     []string // what it was derived from, with Namespace
	Began     time.Time
}

// Begin implements sdk.IntentStore. It returns an error wrapping [ErrArgument] for
// the zero Key, and one wrapping [server.ErrFateUnknown] if the intent may have been
// stored or not: begin again.
func (i *Intents) Begin(ctx context.Context, parent childkey.Key, namespace string, parts []string) (began time.Time, existed bool, err error) {
	st, err := i.begin(parent, namespace, parts, &i.store.lockTimeout)
	if err != nil {
		return time.Time{}, false, err
	}
	for {
		began, inserted, err := pgkit.Row(ctx, i.store.writer, st, pgx.RowTo[time.Time])
		if err != nil || inserted {
			return began, false, wrap("begin", err)
		}
		read := i.store.query.intent.Bind(pgx.NamedArgs{"key": parent.String()})
		began, err = pgkit.One(ctx, i.store.pool, read, pgx.RowTo[time.Time])
		if !errors.Is(err, pgx.ErrNoRows) { // else it was swept in between
			return began, true, wrap("begin", err)
		}
	}
}

// Stage is Begin as part of tx, for whoever writes down in one transaction what is
// to be done, as an order, and that it is to be done: whatever commits the one
// commits the other. Nothing may be sent before the commit; after it sdk.Begin
// finds the intent. Stage reports whether it was there before.
func (i *Intents) Stage(ctx context.Context, tx pgx.Tx, namespace string, parts ...string) (existed bool, err error) {
	if tx == nil {
		return false, fmt.Errorf("%w: no transaction", ErrArgument)
	}
	parent, err := parentOf(namespace, parts)
	if err != nil {
		return false, err
	}
	st, err := i.begin(parent, namespace, parts, nil) // tx is the caller's, and so are its waits
	if err != nil {
		return false, err
	}
	tag, err := tx.Exec(ctx, st.SQL, st.Args...)
	return tag.RowsAffected() == 0, wrap("stage", err)
}

func (i *Intents) begin(parent childkey.Key, namespace string, parts []string, lockTimeout *string) (pgkit.Statement, error) {
	if parent.IsZero() {
		return pgkit.Statement{}, fmt.Errorf("%w: no parent key", ErrArgument)
	}
	raw := make([][]byte, len(parts))
	for n, part := range parts {
		raw[n] = []byte(part)
	}
	st := i.store.query.intentBegin.Bind(pgx.NamedArgs{"key": parent.String(), "namespace": namespace, "parts": raw, "lock_timeout": lockTimeout})
	return st, wrap("begin", st.Err())
}

// Done says that the intent of these parts is finished, whatever its end was, so
// that it is no longer pending and may be swept. It returns an error wrapping
// [server.ErrNotFound] for one that was never begun, and can be called again.
func (i *Intents) Done(ctx context.Context, namespace string, parts ...string) error {
	parent, err := parentOf(namespace, parts)
	if err != nil {
		return err
	}
	n, err := pgkit.Exec(ctx, i.store.writer, i.store.query.intentDone.Bind(pgx.NamedArgs{"key": parent.String()}))
	if err == nil && n == 0 {
		err = server.ErrNotFound
	}
	return wrap("done", err)
}

// Pending returns up to limit intents that were begun longer ago than age and are
// not done, the oldest first. An age longer than the program takes leaves out what
// is still under way; doing one of those again would be harmless, if useless.
func (i *Intents) Pending(ctx context.Context, age time.Duration, limit int) ([]Intent, error) {
	if err := checkLength("age", age); err != nil {
		return nil, err
	}
	if limit < 1 {
		return nil, fmt.Errorf("%w: limit %d", ErrArgument, limit)
	}
	st := i.store.query.intentsPending.Bind(pgx.NamedArgs{"age": age, "limit": int64(limit)})
	intents, err := pgkit.All(ctx, i.store.pool, st, scanIntent)
	return intents, wrap("pending", err)
}

func scanIntent(row pgx.CollectableRow) (in Intent, err error) {
	var key string
	var parts [][]byte
	if err := row.Scan(&key, &in.Namespace, &parts, &in.Began); err != nil {
		return in, err
	}
	for _, part := range parts {
		in.Parts = append(in.Parts, string(part))
	}
	in.Parent, err = childkey.Parse(key)
	return in, err
}

// intentBatch is how many intents one statement deletes.
const intentBatch = 1000

// Sweep forgets the intents that were done longer ago than age, in batches of a
// thousand, and returns how many. One that is begun again after that counts as new:
// age must be longer than callees remember keys.
//
// It returns an error wrapping [ErrArgument] if age is not positive.
func (i *Intents) Sweep(ctx context.Context, age time.Duration) (int, error) {
	if age <= 0 || age > longest {
		return 0, fmt.Errorf("%w: age %v", ErrArgument, age)
	}
	st := i.store.query.intentsSweep.Bind(pgx.NamedArgs{"age": age, "limit": int64(intentBatch)})
	return inBatches(ctx, intentBatch, "sweep intents", func() (int64, error) {
		return pgkit.Exec(ctx, i.store.writer, st)
	})
}

func parentOf(namespace string, parts []string) (childkey.Key, error) {
	parent, err := childkey.FromParts(namespace, parts...)
	if err != nil {
		return childkey.Key{}, fmt.Errorf("%w: %w", ErrArgument, err)
	}
	return parent, nil
}

// inBatches deletes until there is less than a batch left, and returns how many
// it deleted, also with an error.
func inBatches(ctx context.Context, batch int64, doing string, remove func() (int64, error)) (int, error) {
	total := 0
	for {
		n, err := pgkit.RetryConflict(ctx, remove)
		total += int(n)
		if err == nil {
			err = ctx.Err()
		}
		if err != nil || n < batch {
			return total, wrap(doing, err)
		}
	}
}
