package ledger

import (
	"context"
	_ "embed" // the statements
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fanonce/fanonce/server/pgstore"
)

var (
	//go:embed query/schema.sql
	schemaSQL string
	//go:embed query/append.sql
	appendSQL string
	//go:embed query/tallies.sql
	talliesSQL string
)

// Postgres is a ledger in the database that has the guard's records too.
type Postgres struct{ pool *pgxpool.Pool }

var _ Ledger = (*Postgres)(nil)

// NewPostgres returns the ledger in pool's database, and makes its table there
// unless it exists. The pool stays the caller's.
func NewPostgres(ctx context.Context, pool *pgxpool.Pool) (*Postgres, error) {
	if _, err := pool.Exec(ctx, schemaSQL); err != nil {
		return nil, fmt.Errorf("ledger: %w", err)
	}
	return &Postgres{pool}, nil
}

// Append implements [Ledger]: the run's own transaction has the row.
func (p *Postgres) Append(ctx context.Context, e Entry) error {
	_, err := pgstore.Tx(ctx).Exec(ctx, appendSQL, e.args())
	return err
}

// AppendOnComplete implements [Ledger]: the transaction that completes the run
// has the row.
func (p *Postgres) AppendOnComplete(ctx context.Context, e Entry) error {
	return pgstore.OnComplete(ctx, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, appendSQL, e.args())
		return err
	})
}

// AppendAtOnce implements [Ledger]: the row has a transaction of its own.
func (p *Postgres) AppendAtOnce(ctx context.Context, e Entry) error {
	_, err := p.pool.Exec(ctx, appendSQL, e.args())
	return err
}

// Tallies implements [Ledger]: one SQL statement, and none of the code under
// test.
func (p *Postgres) Tallies(ctx context.Context) ([]Tally, error) {
	rows, err := p.pool.Query(ctx, talliesSQL)
	if err != nil {
		return nil, fmt.Errorf("ledger: %w", err)
	}
	tallies, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Tally])
	if err != nil {
		return nil, fmt.Errorf("ledger: %w", err)
	}
	return tallies, nil
}

func (e Entry) args() pgx.NamedArgs {
	return pgx.NamedArgs{"order": e.Order, "id": e.ID, "cents": e.Cents}
}
