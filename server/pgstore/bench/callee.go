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
	"time"

	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgstore"
)

// calleeOrders are for a process that serves HTTP.
type calleeOrders struct {
	URL     string // of the database
	Guarded bool
}

// playCallee serves until its input ends. It says where in its first line.
func playCallee(ctx context.Context, orders json.RawMessage, in *bufio.Reader, out io.Writer) (err error) {
	var o calleeOrders
	if err := json.Unmarshal(orders, &o); err != nil {
		return err
	}
	db := &database{url: o.URL}
	handler, stop, err := openCallee(ctx, db, o.Guarded)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	web := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- web.Serve(listener) }()
	if _, err := fmt.Fprintf(out, "http://%s/effect\n", listener.Addr()); err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, in) // until it ends
	err = web.Shutdown(context.WithoutCancel(ctx))
	if end := <-served; !errors.Is(end, http.ErrServerClosed) {
		err = errors.Join(err, end)
	}
	return err
}

// openCallee returns the handler, and what ends what it stands on.
func openCallee(ctx context.Context, db *database, guarded bool) (http.Handler, func() error, error) {
	if !guarded {
		pool, err := db.pool(ctx, connections)
		if err != nil {
			return nil, nil, err
		}
		return effectHandler(func(context.Context) execer { return pool }), func() error { pool.Close(); return nil }, nil
	}
	g, err := openGuard(ctx, db, guardOptions{})
	if err != nil {
		return nil, nil, err
	}
	handler, err := g.guard.Handler(server.Transactional, effectHandler(func(ctx context.Context) execer { return pgstore.Tx(ctx) }))
	if err != nil {
		return nil, nil, errors.Join(err, g.close(ctx))
	}
	return handler, func() error { return g.close(ctx) }, nil
}

// effectHandler writes one row for each request.
func effectHandler(on func(context.Context) execer) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in struct {
			Account string `json:"account"`
			Cents   int64  `json:"cents"`
		}
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			http.Error(w, "body", http.StatusBadRequest)
			return
		}
		key := r.Header.Get("Idempotency-Key")
		if _, err := on(r.Context()).Exec(r.Context(), "insert into effect (key, account, cents) values ($1, $2, $3)", key, in.Account, in.Cents); err != nil {
			http.Error(w, "effect", http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(map[string]any{"account": in.Account, "booked": in.Cents}) // the caller has hung up
	})
}
