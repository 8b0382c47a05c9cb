package outbox

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/internal/pgkit"
	"github.com/fanonce/fanonce/server/pgstore"
)

// Config configures an [Outbox].
type Config struct {
	// Schema is the Postgres schema of the tables. Empty means that the search_path finds them. A name matches
	// ^[a-z_][a-z0-9_]{0,62}$ and does not start with pg_.
	Schema string
}

// An Outbox writes messages. It is safe for concurrent use.
type Outbox struct{ query *queries }

// New returns an outbox. It sends nothing. It returns an error wrapping [ErrConfig] for a Schema that cannot be.
func New(cfg Config) (*Outbox, error) {
	query, err := queriesBySchema.For(cfg.Schema)
	if err != nil {
		return nil, fmt.Errorf("%w: Schema: %w", ErrConfig, err)
	}
	return &Outbox{query: query}, nil
}

// Write adds a message to the transaction of the guarded handler that ctx belongs to. It returns the message's key.
// Nothing is sent yet: the message goes with the answer, as [pgstore.Queue] says. If the run is not stored there is no
// message. A replay of the answer does not write it again.
//
// Write is for Transactional handlers. In a Keyed handler register WriteTx with
// [pgstore.OnComplete]. Write returns [pgstore.ErrNoTx] where ctx has no transaction, and an error wrapping
// [ErrArgument] for a message that cannot be written. It does not block.
func (o *Outbox) Write(ctx context.Context, m Message) (childkey.Key, error) {
	st, key, err := o.statement(m)
	if err != nil {
		return childkey.Key{}, err
	}
	return key, pgstore.Queue(ctx, st.SQL, st.Args...)
}

// WriteTx is [Outbox.Write] for a transaction of your own. It sends one statement. It waits for another transaction
// that has written a message of the same aggregate. Two transactions that write messages of two aggregates in opposite
// order can deadlock. One of them then gets the server's error 40P01, and has to begin again.
func (o *Outbox) WriteTx(ctx context.Context, tx pgx.Tx, m Message) (childkey.Key, error) {
	if tx == nil {
		return childkey.Key{}, fmt.Errorf("%w: no transaction", ErrArgument)
	}
	return o.writeIn(ctx, pgkit.PgxTx{Tx: tx}, m)
}

// WriteSQL is [Outbox.WriteTx] for a transaction of database/sql, over pgx's driver.
func (o *Outbox) WriteSQL(ctx context.Context, tx *sql.Tx, m Message) (childkey.Key, error) {
	if tx == nil {
		return childkey.Key{}, fmt.Errorf("%w: no transaction", ErrArgument)
	}
	return o.writeIn(ctx, pgkit.SQLTx{Tx: tx}, m)
}

func (o *Outbox) writeIn(ctx context.Context, tx pgkit.UserTx, m Message) (childkey.Key, error) {
	st, key, err := o.statement(m)
	if err != nil {
		return childkey.Key{}, err
	}
	if _, err := tx.Insert(ctx, st); err != nil {
		return childkey.Key{}, fmt.Errorf("outbox: write: %w", err)
	}
	return key, nil
}

// statement returns the statement that writes m, and m's key.
func (o *Outbox) statement(m Message) (pgkit.Statement, childkey.Key, error) {
	if err := m.check(); err != nil {
		return pgkit.Statement{}, childkey.Key{}, err
	}
	if m.Key.IsZero() {
		key, err := childkey.NewV7()
		if err != nil {
			return pgkit.Statement{}, childkey.Key{}, fmt.Errorf("outbox: %w", err)
		}
		m.Key = key
	}
	args, err := m.arguments()
	if err != nil {
		return pgkit.Statement{}, childkey.Key{}, err
	}
	st := o.query.write.Bind(args)
	return st, m.Key, st.Err()
}
