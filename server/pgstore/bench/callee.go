package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fanonce/fanonce/childkey/wire"
)

// calleeOrders are for a process that serves HTTP.
type calleeOrders struct {
	URL string // of the database
}

// playCallee serves until its input ends. It says where in its first line.
func playCallee(ctx context.Context, orders json.RawMessage, in *bufio.Reader, out io.Writer) (err error) {
	var o calleeOrders
	if err := json.Unmarshal(orders, &o); err != nil {
		return err
	}
	pool, err := (&database{url: o.URL}).pool(ctx, connections)
	if err != nil {
		return err
	}
	defer pool.Close()
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("POST "+effectRoute, unguardedHandler(pool))
	web := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- web.Serve(listener) }()
	if _, err := fmt.Fprintf(out, "http://%s\n", listener.Addr()); err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, in) // until it ends
	err = web.Shutdown(context.WithoutCancel(ctx))
	if end := <-served; !errors.Is(end, http.ErrServerClosed) {
		err = errors.Join(err, end)
	}
	return err
}

// unguardedHandler does what examples/ledger's does on that route, by an insert of
// its own: it writes the same row, by the same statement, and answers the same.
func unguardedHandler(pool *pgxpool.Pool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var in struct {
			FP   string `json:"fp"`
			Saga string `json:"saga"`
		}
		if err == nil {
			err = json.Unmarshal(body, &in)
		}
		key, _, badKey := wire.ParseKeyHeader(r.Header.Values(wire.HeaderKey))
		tenant, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if err != nil || badKey != nil || !ok {
			http.Error(w, "request", http.StatusBadRequest)
			return
		}
		id := uuid.NewString()
		_, err = pool.Exec(r.Context(), `insert into effects (tenant, key, service, fp, effect_id, fence, saga, kind)
			values ($1, $2, $3, $4, $5, $6, nullif($7, ''), $8)`, tenant, key.String(), "ledger", in.FP, id, 0, in.Saga, "do")
		if err != nil {
			http.Error(w, "effect", http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(map[string]any{"effect_id": id, "tenant": tenant, "key": key.String(), "service": "ledger"}) // the caller has hung up
	})
}
