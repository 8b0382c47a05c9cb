// Package entledger is the ledger with ent. [Join] turns the ctx of a handler into an *ent.Client that works in the
// transaction of the run. The folder ent/schema declares the tables, and ent generated the other files of ent.
package entledger

//go:generate go run entgo.io/ent/cmd/ent@v0.14.5 generate --feature sql/lock ./ent/schema
