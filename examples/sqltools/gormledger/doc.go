// Package gormledger is the ledger with GORM. [Join] turns the ctx of a handler into a *gorm.DB that works in the
// transaction of the run. [Open] makes the *gorm.DB that it starts from.
package gormledger
