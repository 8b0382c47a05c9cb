// Package sqltools joins the SQL libraries of other people to guarded handlers. One small ledger is written with sqlc
// over pgx and with sqlc over database/sql, and a test writes to it with GORM. Each works in the transaction of the run,
// so that its rows and the answer are committed together, or not at all.
//
// This package has what the ledgers share.
package sqltools
