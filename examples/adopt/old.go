package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fanonce/fanonce/examples/internal/hosting"
)

// An oldGuard is the code that the team wrote by hand, and wants to leave. It claims a key in a transaction of its own,
// so that others see it. Effect and answer are in a second transaction.
type oldGuard struct {
	pool *pgxpool.Pool
	lock time.Duration // after it a claim without an answer belongs to a process that died
}

// The answers of the old code to keys that it does not run. Bodies are a part of what its callers know.
var (
	answerBusy   = []byte(`{"error":"a request with this key is in progress"}`)
	answerReused = []byte(`{"error":"this key was used for another request"}`)
	answerFailed = []byte(`{"error":"try again"}`)
)

// An oldRow is a row of the old table.
type oldRow struct {
	Hash []byte
	Code int // of the answer, 0 without one
	Body []byte
	Busy bool // a process has claimed the key, has not answered, and may still work
}

// hashOf is the old code's hash of a request.
func hashOf(body []byte) []byte {
	sum := sha256.Sum256(body)
	return sum[:]
}

var errLockLost = errors.New("another process has claimed the key")

func (o *oldGuard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx := context.WithoutCancel(r.Context())
	tenant, err := hosting.Tenant(r)
	if err != nil {
		hosting.WriteError(w, err)
		return
	}
	key := r.Header.Get("Idempotency-Key")
	body, err := readBody(r)
	var in transfer
	if err != nil || key == "" || json.Unmarshal(body, &in) != nil {
		hosting.WriteError(w, hosting.ErrBadInput)
		return
	}
	row, claimed, err := o.claim(ctx, tenant, key, hashOf(body))
	switch {
	case err != nil:
		slog.Warn("not claimed", "error", err)
		writeJSON(w, http.StatusServiceUnavailable, answerFailed)
	case !bytes.Equal(row.Hash, hashOf(body)):
		writeJSON(w, http.StatusUnprocessableEntity, answerReused)
	case row.Code != 0:
		writeJSON(w, row.Code, row.Body)
	case claimed.IsZero():
		writeJSON(w, http.StatusConflict, answerBusy)
	default:
		o.run(ctx, w, in, tenant, key, claimed)
	}
}

// claim makes this process the one that works on the key, or returns the row as it stands and a zero time.
func (o *oldGuard) claim(ctx context.Context, tenant, key string, hash []byte) (row oldRow, claimed time.Time, err error) {
	_, err = o.pool.Exec(ctx, `insert into idempotency_keys (tenant, key, request_hash, status) values ($1, $2, $3, 0)
on conflict (tenant, key) do nothing`, tenant, key, hash)
	if err != nil {
		return oldRow{}, time.Time{}, err
	}
	err = o.pool.QueryRow(ctx, `update idempotency_keys set locked_at = clock_timestamp() where tenant = $1 and key = $2 and request_hash = $3
and response_code is null and (locked_at is null or locked_at < now() - make_interval(secs => $4)) returning locked_at`,
		tenant, key, hash, o.lock.Seconds()).Scan(&claimed)
	if err == nil || !errors.Is(err, pgx.ErrNoRows) {
		return oldRow{Hash: hash}, claimed, err
	}
	err = o.pool.QueryRow(ctx, `select request_hash, coalesce(response_code, 0), response_body from idempotency_keys where tenant = $1 and key = $2`,
		tenant, key).Scan(&row.Hash, &row.Code, &row.Body)
	return row, time.Time{}, err
}

// run commits the effect together with the answer, if the key still belongs to this process.
func (o *oldGuard) run(ctx context.Context, w http.ResponseWriter, in transfer, tenant, key string, claimed time.Time) {
	var status int
	var answer []byte
	err := pgx.BeginFunc(ctx, o.pool, func(tx pgx.Tx) error {
		savepoint, err := tx.Begin(ctx)
		if err != nil {
			return err
		}
		if status, answer, err = in.do(ctx, savepoint, tenant, key); err != nil {
			return err
		}
		end := savepoint.Commit
		if status >= http.StatusBadRequest {
			end = savepoint.Rollback
		}
		if err := end(ctx); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, `update idempotency_keys set status = 1, response_code = $4, response_body = $5, locked_at = null
where tenant = $1 and key = $2 and locked_at = $3`, tenant, key, claimed, status, answer)
		if err == nil && tag.RowsAffected() == 0 {
			err = errLockLost
		}
		return err
	})
	if err != nil {
		slog.Warn("not transferred", "error", err)
		_, _ = o.pool.Exec(ctx, `update idempotency_keys set locked_at = null where tenant = $1 and key = $2 and locked_at = $3`, tenant, key, claimed)
		writeJSON(w, http.StatusServiceUnavailable, answerFailed)
		return
	}
	writeJSON(w, status, answer)
}
