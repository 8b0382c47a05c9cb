// Package pgkit is what the Postgres packages of this module share: writes whose
// fate is never guessed, statements kept in files, numbered migrations, and the
// checks that a server must pass before its word is taken for durable.
//
// Start with [Prepare], which makes a pool's connections report what the rest
// needs to see; [Writer], which sends writes through it; and [Migrations].
//
// The package knows Postgres and pgx, and nothing of keys, claims or sagas.
// Nothing in it depends on a session, so that it works behind a pooler in
// transaction mode: no LISTEN, no session-level advisory lock, no SET outside a
// transaction, no named prepared statement.
package pgkit
