package pgjournal

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/internal/errtext"
	"github.com/fanonce/fanonce/internal/pgkit"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
)

// A StartConfig has the options of [Start]. Its zero value is ready to use.
type StartConfig struct {
	// Scope is as [saga.Scope]'s.
	Scope string
	// Schema is as [Config].Schema.
	Schema string
	// Trace is the trace context of the call that starts the saga, as [saga.Tracer].Trace of the engine's
	// observer returns it. Zero means none.
	Trace string
	// At is as [saga.StartAt]'s.
	At time.Time
	// Codec is as [Config].Codec, and must be the codec of the journals whose engines run the
	// saga. A transaction does not tell whether they have one. A saga that is started without it
	// is stored as plain text. Journals with a codec refuse to execute such a saga, unless it
	// has OpenPlain: it gets stuck, without a call. [Journal.StartConfig] takes the codec of a
	// journal.
	Codec Codec
}

// StartConfig returns what [Start] needs to store sagas as j does, in the scope "".
func (j *Journal) StartConfig() StartConfig {
	return StartConfig{Schema: j.cfg.Schema, Codec: j.cfg.Codec}
}

// Start stores a saga as part of tx, and reports whether it is a new saga. So one commit stores
// an order and guarantees that it will be shipped. After the commit the next engine with the
// definition that looks for unowned sagas runs the saga, at most saga.Config.Poll later. To get the
// result, call [saga.Definition.Run] with the same key: Run attaches to the saga.
//
//	_, err := pgjournal.Start(ctx, tx, Checkout, key, order, pgjournal.StartConfig{})
//
// Another transaction with the same key waits for this one to end, for as long as
// its lock_timeout lets it.
//
// Start returns an error wrapping [ErrArgument] without a tx or for a Trace that is malformed, [saga.ErrInvalidKey],
// [saga.ErrEncode], [ErrConfig] for a nil pointer as Codec, or [ErrSeal]. Then it has stored no
// saga. It returns an error wrapping [saga.ErrKeyReused] if the key belongs to a saga that was
// started with another input. In a REPEATABLE READ or SERIALIZABLE transaction it can fail with
// 40001: then run the transaction again.
func Start[In, Out any](ctx context.Context, tx pgx.Tx, d *saga.Definition[In, Out], key childkey.Key, in In, cfg StartConfig) (created bool, err error) {
	if tx == nil {
		return false, fmt.Errorf("%w: the transaction is nil", ErrArgument)
	}
	return enqueue(ctx, pgkit.PgxTx{Tx: tx}, d, key, in, cfg)
}

// StartSQL is [Start] for a transaction of database/sql, over pgx's driver.
func StartSQL[In, Out any](ctx context.Context, tx *sql.Tx, d *saga.Definition[In, Out], key childkey.Key, in In, cfg StartConfig) (created bool, err error) {
	if tx == nil {
		return false, fmt.Errorf("%w: the transaction is nil", ErrArgument)
	}
	return enqueue(ctx, pgkit.SQLTx{Tx: tx}, d, key, in, cfg)
}

func enqueue[In, Out any](ctx context.Context, tx pgkit.UserTx, d *saga.Definition[In, Out], key childkey.Key, in In, cfg StartConfig) (bool, error) {
	if d == nil {
		return false, fmt.Errorf("%w: the Definition is nil, or was not made by Define", ErrArgument)
	}
	req, err := d.Request(key, in, saga.Scope(cfg.Scope), saga.StartAt(cfg.At))
	if err != nil {
		return false, err
	}
	req.Trace = cfg.Trace
	if err := checkStart(req); err != nil {
		return false, err
	}
	query, err := queriesBySchema.For(cfg.Schema, false)
	if err != nil {
		return false, fmt.Errorf("%w: %w", ErrArgument, err)
	}
	if err := checkCodec(cfg.Codec); err != nil {
		return false, err
	}
	sealer := sealer{codec: cfg.Codec, acceptPlain: true}
	sealed, err := sealer.sealStart(req)
	if err != nil {
		return false, wrap("start", err)
	}
	insert, read := query.StartTx.Bind(values(startColumns, []starting{sealed})), query.Started.Bind(pgx.NamedArgs{"id": toUUID(req.ID)})
	if err := errors.Join(insert.Err(), read.Err()); err != nil {
		return false, wrap("start", err)
	}
	for {
		if created, err := tx.Insert(ctx, insert); created || err != nil {
			return created, wrap("start", err)
		}
		var name string
		var hash []byte
		found, err := tx.Read(ctx, read, func(row pgkit.Scanner) error { return row.Scan(&name, &hash) })
		if found {
			if hash, err = sealer.open(hash, kindInputHash, req.ID); err != nil {
				return false, fmt.Errorf("pgjournal: start: %w: saga %s %v: input_hash %w", ErrSeal, name, req.ID, err)
			}
		}
		switch {
		case err != nil:
			return false, wrap("start", err)
		case !found: // swept in between
			continue
		case len(hash) != len(req.InputHash):
			return false, fmt.Errorf("pgjournal: start: %w: saga %s %v: input_hash of %d bytes", journal.ErrCorrupt, name, req.ID, len(hash))
		case !bytes.Equal(hash, req.InputHash[:]):
			return false, fmt.Errorf("pgjournal: start: %w: saga %s %v", errtext.Inner(saga.ErrKeyReused), name, req.ID)
		}
		return false, nil
	}
}
