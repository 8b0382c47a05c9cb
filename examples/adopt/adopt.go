package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/examples/internal/hosting"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgstore"
)

// An oldTable is the old table as the guarded handler uses it during the move.
type oldTable struct {
	Lock  time.Duration // the lock of the old code
	Write bool          // old processes may run: claim the key and answer in their table, too
}

// wrap returns next for a Transactional route. It looks the key up in the old table first.
func (o oldTable) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := r.Context()
		row, hash, err := o.find(r)
		switch {
		case err != nil:
			slog.WarnContext(ctx, "no old table", "error", err)
			writeJSON(w, http.StatusServiceUnavailable, answerFailed)
		case !bytes.Equal(row.Hash, hash): // another request: the key must not be bound to this one
			_ = server.Settle(ctx, server.Release(), server.NotRetryable())
			writeJSON(w, http.StatusUnprocessableEntity, answerReused)
		case row.Code != 0: // whatever it is: the old code may have stored a 500
			_ = server.Settle(ctx, server.Final())
			writeJSON(w, row.Code, row.Body)
		case row.Busy: // an old process works on it
			_ = server.Settle(ctx, server.Release())
			w.Header().Set("Retry-After", "1")
			writeJSON(w, http.StatusConflict, answerBusy)
		case o.Write:
			o.runAndWrite(w, r, next)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// Both statements return a row whose Busy says that an old process has it. The first one also locks the row until the
// run ends, or makes it. An old process that wants the key waits for that.
const (
	claimRow = `insert into idempotency_keys as k (tenant, key, request_hash, status) values ($1, $2, $3, 0)
on conflict (tenant, key) do update set key = k.key
returning request_hash, coalesce(response_code, 0), response_body,
	response_code is null and locked_at is not null and locked_at > now() - make_interval(secs => $4)`
	readRow = `select request_hash, coalesce(response_code, 0), response_body,
	response_code is null and locked_at is not null and locked_at > now() - make_interval(secs => $2)
from idempotency_keys where tenant = $1 and key = $3`
)

// find returns the row of the request's key, and the old code's hash of the request. A key without a row, or with the
// row that find made, has that hash and neither an answer nor an owner.
func (o oldTable) find(r *http.Request) (row oldRow, hash []byte, err error) {
	tenant, err := hosting.Tenant(r)
	if err != nil {
		return oldRow{}, nil, err
	}
	body, err := readBody(r)
	if err != nil {
		return oldRow{}, nil, err
	}
	hash, key, tx := hashOf(body), r.Header.Get("Idempotency-Key"), pgstore.Tx(r.Context())
	var found pgx.Row
	if o.Write {
		found = tx.QueryRow(r.Context(), claimRow, tenant, key, hash, o.Lock.Seconds())
	} else {
		found = tx.QueryRow(r.Context(), readRow, tenant, o.Lock.Seconds(), key)
	}
	err = found.Scan(&row.Hash, &row.Code, &row.Body, &row.Busy)
	if errors.Is(err, pgx.ErrNoRows) {
		return oldRow{Hash: hash}, hash, nil
	}
	return row, hash, err
}

// runAndWrite runs next, and writes its answer into the old table, in the transaction of the effect.
func (o oldTable) runAndWrite(w http.ResponseWriter, r *http.Request, next http.Handler) {
	ctx := r.Context()
	answer := &buffer{ResponseWriter: w, status: http.StatusOK}
	savepoint, err := pgstore.Tx(ctx).Begin(ctx)
	if err == nil {
		next.ServeHTTP(answer, r)
		if answer.status >= http.StatusBadRequest { // a refusal: of all rows, only that of the old table stays
			err = savepoint.Rollback(ctx)
			_ = server.Settle(ctx, server.KeepRows())
		}
		err = errors.Join(err, o.answer(r, answer))
	}
	if err != nil {
		slog.WarnContext(ctx, "no answer for the old table", "error", err)
		writeJSON(w, http.StatusServiceUnavailable, answerFailed)
		return
	}
	writeJSON(w, answer.status, answer.body.Bytes())
}

// answer completes the row that find locked. The statement is sent together with the COMMIT.
func (o oldTable) answer(r *http.Request, a *buffer) error {
	tenant, err := hosting.Tenant(r)
	if err != nil {
		return err
	}
	return pgstore.Queue(r.Context(), `update idempotency_keys set status = 1, response_code = $3, response_body = $4, locked_at = null
where tenant = $1 and key = $2`, tenant, r.Header.Get("Idempotency-Key"), a.status, a.body.Bytes())
}

// A buffer keeps the answer of a handler until the old table has it.
type buffer struct {
	http.ResponseWriter // for the header

	status int
	body   bytes.Buffer
}

func (b *buffer) WriteHeader(status int)      { b.status = status }
func (b *buffer) Write(p []byte) (int, error) { return b.body.Write(p) }

// keyOf maps the keys of old clients that a guard refuses, such as those with a space.
func keyOf(r *http.Request, _ []byte) (string, error) {
	text := r.Header.Get("Idempotency-Key")
	if text == "" {
		return "", server.ErrNoKey
	}
	if _, err := childkey.Parse(text); err == nil {
		return text, nil
	}
	sum := sha256.Sum256([]byte(text))
	return "old-" + hex.EncodeToString(sum[:]), nil
}
