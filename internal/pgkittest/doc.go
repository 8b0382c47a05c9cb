// Package pgkittest helps the tests of the Postgres packages of this module. A [Proxy] makes the
// network slow or silent, and an [Injector] makes each round trip fail in turn. A [Stock] lends
// emptied databases to subtests, and [GenericPlan] shows a prepared statement's plan.
//
// The package knows pgtest and pgx. It does not know stores or journals.
package pgkittest
