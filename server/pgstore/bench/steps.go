package main

import (
	"context"
	"errors"

	"github.com/fanonce/fanonce/server/pgstore"
)

// steps is a figure of how many statements and commits a claim with its completion is
// for so many callers. They are counted in a run of its own: to count takes time.
func steps(ctx context.Context, on *postgres, e effort, n int) (f figure, err error) {
	db, err := on.database(ctx, migrateStore)
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, db.drop()) }()
	before, err := db.commits(ctx)
	if err != nil {
		return f, err
	}
	counted, err := db.toCounted()
	if err != nil {
		return f, err
	}
	s, err := storeOn(ctx, counted, pgstore.Config{})
	if err != nil {
		return f, err
	}
	length := e.slice * 5 // so that opening the connections takes little of it
	w, err := callers(n, s.claimAndComplete)(ctx, length)
	s.Close() // with its sessions
	if err != nil {
		return f, err
	}
	after, err := db.commits(ctx)
	if err != nil {
		return f, err
	}
	statements, err := db.sent(ctx)
	if err != nil {
		return f, err
	}
	operations := float64(w.operations)
	return figure{Name: "… " + ours + ", by the server's statistics", Measures: append(
		db.statements("statements each", []float64{statements / operations}, nil),
		number("commits each", (after-before)/operations, "", nil),
	)}, s.check(ctx, w.operations)
}
