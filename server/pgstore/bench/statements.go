package main

import (
	"context"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
)

// statements counts what a pool sends.
type statements struct{ n atomic.Int64 }

func (s *statements) load() int64 { return s.n.Load() }

// TraceQueryStart implements [pgx.QueryTracer].
func (s *statements) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	s.n.Add(1)
	return ctx
}

// TraceQueryEnd implements [pgx.QueryTracer].
func (s *statements) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TraceBatchStart implements [pgx.BatchTracer].
func (s *statements) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}

// TraceBatchQuery implements [pgx.BatchTracer].
func (s *statements) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) { s.n.Add(1) }

// TraceBatchEnd implements [pgx.BatchTracer].
func (s *statements) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}
