// Package sqltools joins the SQL libraries of other people to guarded handlers. One small ledger is written four times:
// with sqlc over pgx, with sqlc over database/sql, with GORM and with ent. In each of them the library works in the
// transaction of the run. Its rows and the answer are committed together, or not at all.
//
// The packages below have one function to copy, called Join. It turns the ctx of a handler into the library's own
// handle. This package has what the ledgers share.
package sqltools
