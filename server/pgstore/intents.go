package pgstore

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/internal/errtext"
	"github.com/fanonce/fanonce/internal/pgkit"
	"github.com/fanonce/fanonce/server/store"
)

// Intents remembers the work that a program was about to do. It is an sdk.IntentStore, in the
// store's database. It is safe for concurrent use.
//
//	ctx, err := sdk.Begin(ctx, store.Intents(), "checkout", "order-42")
//	… // the calls
//	err = store.Intents().Done(ctx, "checkout", "order-42")
//
// A process that starts looks for [Intents.Pending] ones and does them again. Calls under the same
// keys that were done before are answered and not done twice. Parent keys lie in the table as they
// are, since they are to be sent.
type Intents struct{ store *Store }

// Intents returns the store's intents.
func (s *Store) Intents() *Intents { return &Intents{s} }

// An Intent is work that was begun.
type Intent struct {
	Parent    childkey.Key
	Namespace string
	Parts     []string // what it was derived from, with Namespace
	Began     time.Time
}

// Begin implements sdk.IntentStore. It returns an error wrapping [ErrArgument] for
// the zero Key, and one wrapping [store.ErrFateUnknown] if the intent may have been
// stored or not: begin again.
func (i *Intents) Begin(ctx context.Context, parent childkey.Key, namespace string, parts []string) (began time.Time, existed bool, err error) {
	st, err := i.begin(parent, namespace, parts, &i.store.db.LockTimeout)
	if err != nil {
		return time.Time{}, false, err
	}
	for {
		began, inserted, err := pgkit.Row(ctx, i.store.db.Writer, st, pgx.RowTo[time.Time])
		if err != nil || inserted {
			return began, false, wrap("begin", err)
		}
		read := i.store.query().Intent.Bind(pgx.NamedArgs{"key": parent.String()})
		began, err = pgkit.One(ctx, i.store.db.Pool, read, pgx.RowTo[time.Time])
		if !errors.Is(err, pgx.ErrNoRows) { // else it was swept in between
			return began, true, wrap("begin", err)
		}
	}
}

// Stage is Begin as part of tx. Use it to write the work, for example an order, and the intent in
// one transaction: both are committed or neither. Send no call before the commit. After the commit
// sdk.Begin finds the intent. Stage reports whether it was there before.
func (i *Intents) Stage(ctx context.Context, tx pgx.Tx, namespace string, parts ...string) (existed bool, err error) {
	if tx == nil {
		return false, badArgument("the transaction is nil")
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
		return pgkit.Statement{}, badArgument("parent is the zero Key")
	}
	raw := make([][]byte, len(parts))
	for n, part := range parts {
		raw[n] = []byte(part)
	}
	st := i.store.query().IntentBegin.Bind(pgx.NamedArgs{"key": parent.String(), "namespace": namespace, "parts": raw, "lock_timeout": lockTimeout})
	return st, wrap("begin", st.Err())
}

// Done says that the intent of these parts is finished, whether it succeeded or not. Then it is no
// longer pending and may be swept. It returns an error wrapping [store.ErrNotFound] if the intent
// was never begun. It can be called again.
func (i *Intents) Done(ctx context.Context, namespace string, parts ...string) error {
	parent, err := parentOf(namespace, parts)
	if err != nil {
		return err
	}
	n, err := pgkit.Exec(ctx, i.store.db.Writer, i.store.query().IntentDone.Bind(pgx.NamedArgs{"key": parent.String()}))
	if err == nil && n == 0 {
		err = store.ErrNotFound
	}
	return wrap("done", err)
}

// Pending returns up to limit intents that were begun longer ago than age and are not done, the
// oldest first. An age longer than the program takes leaves out the intents that are still running.
// A second run of such an intent would be useless but harmless.
func (i *Intents) Pending(ctx context.Context, age time.Duration, limit int) ([]Intent, error) {
	if err := cmp.Or(store.CheckLength("age", age), store.CheckLimit(limit)); err != nil {
		return nil, err
	}
	st := i.store.query().IntentsPending.Bind(pgx.NamedArgs{"age": age, "limit": int64(limit)})
	intents, err := pgkit.All(ctx, i.store.db.Pool, st, scanIntent)
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

// Sweep forgets the intents that were done longer ago than age, in batches of a thousand, and
// returns how many. An intent that is begun again after that counts as new: age must be longer than
// downstream services remember keys.
//
// It returns an error wrapping [ErrArgument] if age is not positive.
func (i *Intents) Sweep(ctx context.Context, age time.Duration) (int, error) {
	if age <= 0 || age > store.MaxRetention {
		return 0, badArgument("age %v is not positive", age)
	}
	st := i.store.query().IntentsSweep.Bind(pgx.NamedArgs{"age": age, "limit": int64(intentBatch)})
	n, err := pgkit.ExecInBatches(ctx, i.store.db.Writer, st, intentBatch)
	return n, wrap("sweep intents", err)
}

func parentOf(namespace string, parts []string) (childkey.Key, error) {
	parent, err := childkey.FromParts(namespace, parts...)
	if err != nil {
		return childkey.Key{}, badArgument("%w", errtext.Inner(err))
	}
	return parent, nil
}
