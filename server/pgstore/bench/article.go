package main

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// An article is an algorithm that is recommended in writing, as far as its happy
// path goes: what it does beside, or wrong, costs nothing here.
type article struct {
	name   string
	tables string
	done   string // the query that counts the finished keys
	// once claims the key, and completes it.
	once func(ctx context.Context, pool *pgxpool.Pool, key string) error
}

// The articles that this library began with, and a plain pair of statements.
var (
	articles = []article{articleAdvisoryLock, articleRowLock, articleStateMachine, articleTransaction, articleClaimFirst}

	singleStatements = article{name: "insert … on conflict, then update", tables: claimTable, done: claimDone, once: insertThenUpdate}
)

// articleVariant is the algorithm for so many callers, at its best number of connections.
func articleVariant(ctx context.Context, e effort, on *postgres, a article, n int) (*variant, error) {
	return atItsBest(ctx, e, n, func(connections int) (*variant, error) { return a.variant(ctx, on, n, connections) })
}

func (a article) variant(ctx context.Context, on *postgres, n, connections int) (*variant, error) {
	db, err := on.database(ctx, script(a.tables))
	if err != nil {
		return nil, err
	}
	pool, err := db.pool(ctx, int32(connections)) //nolint:gosec // hundreds at most
	if err != nil {
		return nil, errors.Join(err, db.drop())
	}
	return &variant{
		name: a.name, server: on, connections: connections,
		turn: callers(n, func(ctx context.Context) error {
			id := random()
			return a.once(ctx, pool, "user-1:"+hex.EncodeToString(id[:]))
		}),
		check: func(ctx context.Context, operations int) error { return db.holds(ctx, operations, a.done) },
		close: func() error { pool.Close(); return db.drop() },
	}, nil
}

// document is the answer for a column of type jsonb.
var document = func() []byte {
	text, _ := json.Marshal(string(answer)) // text always encodes
	return text
}()

// requestHash is a digest of the request, which all of them keep.
var requestHash = []byte("0123456789abcdef0123456789abcdef")

// changeOne turns a statement that changed no row into an error.
func changeOne(ctx context.Context, db execer, sql string, args ...any) error {
	tag, err := db.Exec(ctx, sql, args...)
	if err == nil && tag.RowsAffected() != 1 {
		err = errNotFirst
	}
	return err
}

// absent runs a query that must find no row.
func absent(ctx context.Context, db querier, sql string, args ...any) error {
	var state string
	err := db.QueryRow(ctx, sql, args...).Scan(&state)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil
	case err == nil:
		return errNotFirst
	}
	return err
}
