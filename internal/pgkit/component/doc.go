// Package component is for a package that keeps tables in Postgres: a store or a journal. It runs
// numbered migrations, grants the rights of roles, distributes tables with Citus, builds indexes, and
// checks that a server takes writes and keeps its commits.
//
// Start with [Component], which describes the tables of a package, and [Database], which sends its
// statements.
//
// The package knows pgkit, and pgkit does not know it.
package component
