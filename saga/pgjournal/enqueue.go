package pgjournal

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/server/pgkit"
)

// A StartConfig has the choices that [Start] leaves. Its zero value is ready to use.
type StartConfig struct {
	// Scope is as [saga.Scope]'s.
	Scope string
	// Schema is as [Config].Schema.
	Schema string
	// Codec is as [Config].Codec, and must be the codec of the journals that are to
	// drive the saga. A transaction does not tell whether they have one. A saga that is
	// started without it is stored as plain text. Journals with a codec refuse to drive
	// such a saga, unless they have AcceptPlain: it gets stuck, without a call.
	// [Journal.StartConfig] takes the codec of a journal.
	Codec Codec

	storePlain bool // as Config.StorePlain
}

// StartConfig returns what [Start] needs to store sagas as j does, in the scope "".
func (j *Journal) StartConfig() StartConfig {
	return StartConfig{Schema: j.cfg.Schema, Codec: j.cfg.Codec, storePlain: j.cfg.StorePlain}
}

// Start stores a saga as part of tx, and reports whether it was not there before:
// what commits an order commits that it will be shipped. Once tx is committed the
// next engine with the definition that looks for orphans drives the saga, at most
// saga.Config.Poll later; whoever wants its result has [saga.Definition.Run] with
// the same key, which attaches.
//
//	_, err := pgjournal.Start(ctx, tx, Checkout, key, order, pgjournal.StartConfig{})
//
// Another transaction with the same key waits for this one to end, for as long as
// its lock_timeout lets it.
//
// It returns an error wrapping [ErrArgument] without a tx, [saga.ErrInvalidKey],
// [saga.ErrEncode], [ErrConfig] for a nil pointer as Codec, or [ErrSeal], with nothing
// stored; and one wrapping [saga.ErrKeyReused] if the key
// belongs to a saga that was started with another input. In a REPEATABLE READ or
// SERIALIZABLE transaction it can fail with 40001: run the transaction again.
func Start[In, Out any](ctx context.Context, tx pgx.Tx, d *saga.Definition[In, Out], key childkey.Key, in In, cfg StartConfig) (created bool, err error) {
	if tx == nil {
		return false, fmt.Errorf("%w: no transaction", ErrArgument)
	}
	return enqueue(ctx, pgxTx{tx}, d, key, in, cfg)
}

// StartSQL is [Start] for a transaction of database/sql, over pgx's driver.
func StartSQL[In, Out any](ctx context.Context, tx *sql.Tx, d *saga.Definition[In, Out], key childkey.Key, in In, cfg StartConfig) (created bool, err error) {
	if tx == nil {
		return false, fmt.Errorf("%w: no transaction", ErrArgument)
	}
	return enqueue(ctx, sqlTx{tx}, d, key, in, cfg)
}

func enqueue[In, Out any](ctx context.Context, tx userTx, d *saga.Definition[In, Out], key childkey.Key, in In, cfg StartConfig) (bool, error) {
	if d == nil {
		return false, fmt.Errorf("%w: no definition", ErrArgument)
	}
	req, err := d.Request(key, in, saga.Scope(cfg.Scope))
	if err != nil {
		return false, err
	}
	if err := checkStart(req); err != nil {
		return false, err
	}
	query, err := queriesFor(cfg.Schema)
	if err != nil {
		return false, fmt.Errorf("%w: Schema: %w", ErrArgument, err)
	}
	if err := checkCodec(cfg.Codec, false, false); err != nil {
		return false, err
	}
	sealer := sealer{codec: cfg.Codec, acceptPlain: true, storePlain: cfg.storePlain}
	sealed, err := sealer.starting(req)
	if err != nil {
		return false, wrap("start", err)
	}
	insert, read := query.startTx.Bind(startArgs(sealed)), query.started.Bind(pgx.NamedArgs{"id": uuid(req.ID)})
	if err := errors.Join(insert.Err(), read.Err()); err != nil {
		return false, wrap("start", err)
	}
	for {
		if created, err := tx.insert(ctx, insert); created || err != nil {
			return created, wrap("start", err)
		}
		name, hash, err := tx.read(ctx, read)
		if err == nil {
			if hash, err = sealer.open(hash, kindInputHash, req.ID); err != nil {
				return false, fmt.Errorf("pgjournal: start: %w: saga %s %v: input_hash %w", ErrSeal, name, req.ID, err)
			}
		}
		switch {
		case errors.Is(err, pgx.ErrNoRows), errors.Is(err, sql.ErrNoRows): // swept in between
			continue
		case err != nil:
			return false, wrap("start", err)
		case len(hash) != len(req.InputHash):
			return false, fmt.Errorf("pgjournal: start: %w: saga %s %v: input_hash of %d bytes", saga.ErrCorrupt, name, req.ID, len(hash))
		case !bytes.Equal(hash, req.InputHash[:]):
			return false, fmt.Errorf("pgjournal: start: %w: saga %s %v", saga.ErrKeyReused, name, req.ID)
		}
		return false, nil
	}
}

// queriesBySchema are the statements of those who have no journal.
var queriesBySchema sync.Map // string → *queries

func queriesFor(schema string) (*queries, error) {
	if q, ok := queriesBySchema.Load(schema); ok {
		return q.(*queries), nil //nolint:errcheck,forcetypeassert // nothing else is stored
	}
	q, err := loadQueries(schema)
	if err == nil {
		queriesBySchema.Store(schema, q)
	}
	return q, err
}

// A userTx is a transaction of the user's, of either kind.
type userTx interface {
	insert(ctx context.Context, st pgkit.Statement) (inserted bool, err error)
	read(ctx context.Context, st pgkit.Statement) (name string, inputHash []byte, err error)
}

type pgxTx struct{ tx pgx.Tx }

func (t pgxTx) insert(ctx context.Context, st pgkit.Statement) (bool, error) {
	tag, err := t.tx.Exec(ctx, st.SQL, st.Args...)
	return tag.RowsAffected() == 1, err
}

func (t pgxTx) read(ctx context.Context, st pgkit.Statement) (name string, hash []byte, err error) {
	err = t.tx.QueryRow(ctx, st.SQL, st.Args...).Scan(&name, &hash)
	return name, hash, err
}

type sqlTx struct{ tx *sql.Tx }

func (t sqlTx) insert(ctx context.Context, st pgkit.Statement) (bool, error) {
	result, err := t.tx.ExecContext(ctx, st.SQL, st.Args...)
	if err != nil {
		return false, err
	}
	n, err := result.RowsAffected()
	return n == 1, err
}

func (t sqlTx) read(ctx context.Context, st pgkit.Statement) (name string, hash []byte, err error) {
	err = t.tx.QueryRowContext(ctx, st.SQL, st.Args...).Scan(&name, &hash)
	return name, hash, err
}
