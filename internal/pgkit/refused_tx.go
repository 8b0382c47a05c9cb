package pgkit

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
)

// RefusedTx is a pgx.Tx whose every method returns Err.
type RefusedTx struct{ Err error }

var _ pgx.Tx = RefusedTx{}

func (t RefusedTx) Begin(context.Context) (pgx.Tx, error) { return nil, t.Err }
func (t RefusedTx) Commit(context.Context) error          { return t.Err }
func (t RefusedTx) Rollback(context.Context) error        { return t.Err }
func (t RefusedTx) LargeObjects() pgx.LargeObjects        { return pgx.LargeObjects{} }
func (t RefusedTx) Conn() *pgx.Conn                       { return nil }

func (t RefusedTx) CopyFrom(context.Context, pgx.Identifier, []string, pgx.CopyFromSource) (int64, error) {
	return 0, t.Err
}

func (t RefusedTx) SendBatch(_ context.Context, b *pgx.Batch) pgx.BatchResults {
	return pgx.FailedBatchResults(b, t.Err)
}

func (t RefusedTx) Prepare(context.Context, string, string) (*pgconn.StatementDescription, error) {
	return nil, t.Err
}

func (t RefusedTx) Exec(context.Context, string, ...any) (pgconn.CommandTag, error) {
	return pgconn.CommandTag{}, t.Err
}

func (t RefusedTx) Query(context.Context, string, ...any) (pgx.Rows, error) {
	return RefusedRows{t.Err}, t.Err
}

func (t RefusedTx) QueryRow(context.Context, string, ...any) pgx.Row { return RefusedRows{t.Err} }

// RefusedRows are the rows of a statement that was not sent. They are not nil, since pgx
// promises that for a Query that failed.
type RefusedRows struct{ Refused error }

var _ pgx.Rows = RefusedRows{}

func (r RefusedRows) Close()                                       {}
func (r RefusedRows) Err() error                                   { return r.Refused }
func (r RefusedRows) CommandTag() pgconn.CommandTag                { return pgconn.CommandTag{} }
func (r RefusedRows) FieldDescriptions() []pgconn.FieldDescription { return nil }
func (r RefusedRows) Next() bool                                   { return false }
func (r RefusedRows) Scan(...any) error                            { return r.Refused }
func (r RefusedRows) Values() ([]any, error)                       { return nil, r.Refused }
func (r RefusedRows) RawValues() [][]byte                          { return nil }
func (r RefusedRows) Conn() *pgx.Conn                              { return nil }
func (r RefusedRows) TypeMap() *pgtype.Map                         { return nil }
