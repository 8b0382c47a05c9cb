package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fanonce/fanonce/server/pgstore"
)

const (
	guardedCallee   = "guarded callee"
	unguardedCallee = "unguarded callee"
	ledgerCallers   = 64
)

var ledger = bench{
	name: "ledger", title: "a whole callee over HTTP, 64 connections",
	conditions: "Two processes of their own, reached by keep-alive connections of net/http over the loopback. Both read JSON, write a row and answer JSON; one as a Transactional route in the guard's transaction, the other by an insert of its own.",
	measure:    measureLedger,
}

func measureLedger(ctx context.Context, l *lab, e effort) ([]figure, error) {
	on, err := l.postgres(ctx)
	if err != nil {
		return nil, err
	}
	r, err := match(ctx, e,
		func() (*variant, error) { return calleeVariant(ctx, on, guardedCallee, true) },
		func() (*variant, error) { return calleeVariant(ctx, on, unguardedCallee, false) },
	)
	if err != nil {
		return nil, err
	}
	return []figure{
		{Name: "ledger", Prototype: "–", Measures: []measure{
			r.ratio(guardedCallee, unguardedCallee, (*cell).rate).measure("rate by that of the same handler unguarded", times, atLeast(0.8)),
		}},
		r.describe(guardedCallee), r.describe(unguardedCallee),
	}, nil
}

const (
	effectTable  = `create table effect (id bigint generated always as identity primary key, key text not null, account text not null, cents bigint not null)`
	countEffects = "select count(*) from effect where account = 'acme' and cents = 4200"
)

func calleeVariant(ctx context.Context, on *postgres, name string, guarded bool) (*variant, error) {
	db, err := on.database(ctx, func(ctx context.Context, pool *pgxpool.Pool) error {
		return errors.Join(pgstore.Migrate(ctx, pool), script(effectTable)(ctx, pool))
	})
	if err != nil {
		return nil, err
	}
	callee, err := hire("callee", calleeOrders{db.url, guarded})
	if err != nil {
		return nil, errors.Join(err, db.drop())
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: ledgerCallers}}
	queries := []string{countEffects}
	if guarded {
		queries = append(queries, completedOnce)
	}
	return &variant{
		name: name, server: on,
		turn:  callers(ledgerCallers, func(ctx context.Context) error { return post(ctx, client, callee.ready) }),
		check: func(ctx context.Context, operations int) error { return db.holds(ctx, operations, queries...) },
		close: func() error {
			client.CloseIdleConnections()
			return errors.Join(callee.dismiss(), db.drop())
		},
	}, nil
}

func post(ctx context.Context, client *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(`{"account":"acme","cents":4200}`))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", `"`+newKey().String()+`"`)
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, res.Body)
	if res.StatusCode != http.StatusCreated {
		err = fmt.Errorf("bench: the callee answered %s", res.Status)
	}
	return errors.Join(err, res.Body.Close())
}
