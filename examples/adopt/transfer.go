package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fanonce/fanonce/examples/internal/hosting"
	"github.com/fanonce/fanonce/server/pgstore"
)

// createTables creates the tables of the service. The table of keys is what many teams have: a row says that a process
// works on the key since locked_at, and later what it answered.
func createTables(ctx context.Context, pool *pgxpool.Pool, _ string) error {
	_, err := pool.Exec(ctx, `
begin;
select pg_advisory_xact_lock(4711);
create table if not exists idempotency_keys (tenant text, key text, request_hash bytea not null, status int not null,
	response_code int, response_body bytea, created_at timestamptz not null default now(), locked_at timestamptz, primary key (tenant, key));
create table if not exists transfers (id uuid not null, tenant text not null, key text not null, cents int not null);
commit`)
	return err
}

// A transfer is the input. Work is how long the handler works before it writes.
type transfer struct {
	Cents  int `json:"cents"`
	WorkMs int `json:"work_ms"`
}

// limit is the largest transfer that is not declined.
const limit = 1000

// do makes the transfer, or declines it. Each call makes another answer, so two runs of a key cannot go unnoticed. A
// declined transfer has written its row, which must not stay.
func (t transfer) do(ctx context.Context, tx pgx.Tx, tenant, key string) (status int, body []byte, err error) {
	id := uuid.New()
	time.Sleep(time.Duration(t.WorkMs) * time.Millisecond) // stands for work that does not look at its ctx
	_, err = tx.Exec(ctx, "insert into transfers (id, tenant, key, cents) values ($1, $2, $3, $4)", id, tenant, key, t.Cents)
	status = http.StatusCreated
	if t.Cents > limit {
		status = http.StatusPaymentRequired
	}
	body, _ = json.Marshal(map[string]any{"id": id, "made": status == http.StatusCreated}) // texts and booleans always can
	return status, body, err
}

// transferGuarded is the handler as it is once the service has moved. It knows nothing of the old table.
func transferGuarded(w http.ResponseWriter, r *http.Request) {
	var in transfer
	if err := hosting.ReadJSON(r, &in); err != nil {
		hosting.WriteError(w, err)
		return
	}
	tenant, err := hosting.Tenant(r)
	if err != nil {
		hosting.WriteError(w, err)
		return
	}
	status, body, err := in.do(r.Context(), pgstore.Tx(r.Context()), tenant, r.Header.Get("Idempotency-Key"))
	if err != nil {
		hosting.WriteError(w, hosting.OfDatabase(err))
		return
	}
	writeJSON(w, status, body)
}

func writeJSON(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body) // a caller that is gone asks again
}

// readBody reads the body and leaves it to be read once more.
func readBody(r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, hosting.MaxBodyBytes))
	r.Body = io.NopCloser(bytes.NewReader(body))
	return body, err
}
