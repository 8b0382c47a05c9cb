// Package sqlcledger is the ledger with code that sqlc generated: in pgxdb for pgx, and in sqldb for database/sql. The
// two generated packages need no function that joins them. Their New takes the transaction of the run.
package sqlcledger

//go:generate go run github.com/sqlc-dev/sqlc/cmd/sqlc@v1.30.0 generate
