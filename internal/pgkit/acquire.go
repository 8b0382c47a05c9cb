package pgkit

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"
)

// A PoolError means that a pool had no connection to give while its caller could wait. Nothing was sent.
type PoolError struct {
	User, Database, Server string // of the pool, for people
	Size                   int    // its connections, which were all in use
	Err                    error  // the end of the caller's ctx
}

// Error implements error.
func (e *PoolError) Error() string {
	return fmt.Sprintf("nothing was sent: all %d connections of the pool of %s to %s at %s are in use: %v", e.Size, e.User, e.Database, e.Server, e.Err)
}

// Unwrap returns Err.
func (e *PoolError) Unwrap() error { return e.Err }

// Acquire is the pool's own Acquire, with a [PoolError] where the pool was the reason.
func Acquire(ctx context.Context, pool *pgxpool.Pool) (*pgxpool.Conn, error) {
	conn, err := pool.Acquire(ctx)
	return conn, blamePool(pool, err)
}

// blamePool returns err, of a caller that got no connection, as a [PoolError] if all connections are in use.
func blamePool(pool *pgxpool.Pool, err error) error {
	left := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
	if !left || errors.Is(err, ErrFateUnknown) || errors.As(err, new(*PoolError)) {
		return err
	}
	if stat := pool.Stat(); stat.AcquiredConns() < stat.MaxConns() {
		return err
	}
	cfg := pool.Config()
	to := cfg.ConnConfig
	return &PoolError{User: to.User, Database: to.Database, Server: to.Host, Size: int(cfg.MaxConns), Err: err}
}
