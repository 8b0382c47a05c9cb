package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/internal/benchkit"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgstore"
)

const (
	plainRoute     = "unguarded route, one round trip"
	oneCommitRoute = "route with OneCommit"
	queuedRoute    = "route that queues its statement"
)

var oneTrip = bench{
	name: "onecommit", title: "a route whose statements are known beforehand, 32 callers and one",
	conditions: "The handlers are called in this process, without sockets. The business is one insert of 100 bytes. Unguarded it is BEGIN, INSERT and COMMIT in one round trip, with the same JSON read and written. 32 connections.",
	measure:    measureOneCommit,
}

func measureOneCommit(ctx context.Context, l *lab, e effort) ([]figure, error) {
	on, err := l.postgres(ctx)
	if err != nil {
		return nil, err
	}
	routes := func(n int) []func() (*variant, error) {
		return []func() (*variant, error){
			func() (*variant, error) { return plainRouteVariant(ctx, on, n) },
			func() (*variant, error) { return guardedRouteVariant(ctx, on, n, oneCommitRoute, true) },
			func() (*variant, error) { return guardedRouteVariant(ctx, on, n, queuedRoute, false) },
		}
	}
	many, err := match(ctx, e, routes(joinedCallers)...)
	if err != nil {
		return nil, err
	}
	one, err := match(ctx, e, routes(1)...)
	if err != nil {
		return nil, err
	}
	p50Of := func(name string) measure {
		return one.ratio(name, plainRoute, (*cell).p50).Measure(name, times, nil)
	}
	return []figure{
		{Name: "onecommit", Prototype: "1.02", Measures: []measure{
			many.ratio(oneCommitRoute, plainRoute, (*cell).rate).Measure("rate by that of the same statements unguarded", times, benchkit.AtLeast(0.85)),
		}},
		many.describe(plainRoute), many.describe(oneCommitRoute), many.describe(queuedRoute, plainRoute),
		{Name: "… p50 of one caller", Measures: []measure{
			p50Of(oneCommitRoute), p50Of(queuedRoute), one.of(plainRoute, (*cell).p50).Measure(plainRoute, microseconds, nil),
		}},
	}, nil
}

var writeBusiness = contract.Post[int, int]("bench", "write", "/write")

// guardedRouteVariant is a route whose handler queues the business.
func guardedRouteVariant(ctx context.Context, on *postgres, n int, name string, inOneCommit bool) (*variant, error) {
	db, err := businessDatabase(ctx, on)
	if err != nil {
		return nil, err
	}
	g, err := openGuard(ctx, db, guardOptions{})
	if err != nil {
		return nil, errors.Join(err, db.drop())
	}
	mux := http.NewServeMux()
	route := server.Route{Effect: server.Transactional, OneCommit: inOneCommit}
	err = server.HandleRoute(mux, g.guard, writeBusiness, route, func(ctx context.Context, in int) (int, error) {
		return in, pgstore.Queue(ctx, insertBusiness, payload)
	})
	if err != nil {
		return nil, errors.Join(err, g.close(ctx), db.drop())
	}
	return &variant{
		name: name, server: on, turn: callers(n, func(ctx context.Context) error { return serve(ctx, mux) }),
		check: func(ctx context.Context, operations int) error {
			return db.holds(ctx, operations, countBusiness, completedOnce)
		},
		close: func() error { return errors.Join(g.close(ctx), db.drop()) },
	}, nil
}

// plainRouteVariant does the business without a guard, in one round trip.
func plainRouteVariant(ctx context.Context, on *postgres, n int) (*variant, error) {
	db, err := businessDatabase(ctx, on)
	if err != nil {
		return nil, err
	}
	pool, err := db.pool(ctx, connections)
	if err != nil {
		return nil, errors.Join(err, db.drop())
	}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in int
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			http.Error(w, "request", http.StatusBadRequest)
			return
		}
		batch := new(pgx.Batch)
		batch.Queue("begin")
		batch.Queue(insertBusiness, payload)
		batch.Queue("commit")
		if err := pool.SendBatch(r.Context(), batch).Close(); err != nil {
			http.Error(w, "business", http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(in) // the recorder takes everything
	})
	return &variant{
		name: plainRoute, server: on, turn: callers(n, func(ctx context.Context) error { return serve(ctx, handler) }),
		check: func(ctx context.Context, operations int) error { return db.holds(ctx, operations, countBusiness) },
		close: func() error { pool.Close(); return db.drop() },
	}, nil
}

// serve lets a handler answer a request with a key that nobody has used.
func serve(ctx context.Context, handler http.Handler) error {
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/write", strings.NewReader("1"))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set(wire.HeaderKey, newKey().String())
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		return fmt.Errorf("answer %d: %s", w.Code, w.Body)
	}
	return nil
}
