package pgstore

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
)

// refusedTx is a transaction that there is not.
type refusedTx struct{ err error }

var _ pgx.Tx = refusedTx{}

func (t refusedTx) Begin(context.Context) (pgx.Tx, error) { return nil, t.err }
func (t refusedTx) Commit(context.Context) error          { return t.err }
func (t refusedTx) Rollback(context.Context) error        { return t.err }
func (t refusedTx) LargeObjects() pgx.LargeObjects        { return pgx.LargeObjects{} }
func (t refusedTx) Conn() *pgx.Conn                       { return nil }

func (t refusedTx) CopyFrom(context.Context, pgx.Identifier, []string, pgx.CopyFromSource) (int64, error) {
	return 0, t.err
}

func (t refusedTx) SendBatch(_ context.Context, b *pgx.Batch) pgx.BatchResults {
	return pgx.FailedBatchResults(b, t.err)
}

func (t refusedTx) Prepare(context.Context, string, string) (*pgconn.StatementDescription, error) {
	return nil, t.err
}

func (t refusedTx) Exec(context.Context, string, ...any) (pgconn.CommandTag, error) {
	return pgconn.CommandTag{}, t.err
}

func (t refusedTx) Query(context.Context, string, ...any) (pgx.Rows, error) {
	return refusedRows(t), t.err
}

func (t refusedTx) QueryRow(context.Context, string, ...any) pgx.Row { return refusedRows(t) }

// refusedRows are rows that were never asked for. They are not nil, since pgx
// promises that for a Query that failed.
type refusedRows struct{ err error }

var _ pgx.Rows = refusedRows{}

func (r refusedRows) Close()                                       {}
func (r refusedRows) Err() error                                   { return r.err }
func (r refusedRows) CommandTag() pgconn.CommandTag                { return pgconn.CommandTag{} }
func (r refusedRows) FieldDescriptions() []pgconn.FieldDescription { return nil }
func (r refusedRows) Next() bool                                   { return false }
func (r refusedRows) Scan(...any) error                            { return r.err }
func (r refusedRows) Values() ([]any, error)                       { return nil, r.err }
func (r refusedRows) RawValues() [][]byte                          { return nil }
func (r refusedRows) Conn() *pgx.Conn                              { return nil }
func (r refusedRows) TypeMap() *pgtype.Map                         { return nil }
