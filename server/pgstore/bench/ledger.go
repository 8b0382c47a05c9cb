package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fanonce/fanonce/internal/benchkit"
)

const (
	guardedCallee   = "guarded callee"
	unguardedCallee = "unguarded callee"
	ledgerCallers   = 64
	effectRoute     = "/v1/effect"
)

var ledger = bench{
	name: "ledger", title: "a whole callee over HTTP, 64 connections",
	conditions: "Two processes of their own, reached by keep-alive connections of net/http over the loopback, 32 connections to the database each. The guarded one is examples/ledger with WORK=0s, whose route is Transactional and queues its statement. The other process has the same statement in a handler of this program without a guard.",
	measure:    measureLedger,
}

func measureLedger(ctx context.Context, l *lab, e effort) (_ []figure, err error) {
	on, err := l.postgres(ctx)
	if err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp("", "fanonce-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	program := filepath.Join(folder, "ledger")
	if err := build(ctx, program, "github.com/fanonce/fanonce/examples/ledger"); err != nil {
		return nil, err
	}
	r, err := match(ctx, e,
		func() (*variant, error) { return guardedVariant(ctx, on, program) },
		func() (*variant, error) { return unguardedVariant(ctx, on, program) },
	)
	if err != nil {
		return nil, err
	}
	return []figure{
		{Name: "ledger", Prototype: "–", Measures: []measure{
			r.ratio(guardedCallee, unguardedCallee, (*cell).rate).Measure("rate by that of the same handler unguarded", times, benchkit.AtLeast(0.6)),
		}},
		r.describe(guardedCallee), r.describe(unguardedCallee),
	}, nil
}

const countEffects = "select count(*) from effects where tenant = 'bench' and kind = 'do'"

func guardedVariant(ctx context.Context, on *postgres, program string) (*variant, error) {
	db, err := on.database(ctx, nothing)
	if err != nil {
		return nil, err
	}
	service, err := startLedger(ctx, program, db)
	if err != nil {
		return nil, errors.Join(err, db.drop())
	}
	return calleeVariant(guardedCallee, db, service.url+effectRoute, service.stop, countEffects, completedOnce), nil
}

// unguardedVariant has the tables as the ledger makes them.
func unguardedVariant(ctx context.Context, on *postgres, program string) (*variant, error) {
	db, err := on.database(ctx, nothing)
	if err != nil {
		return nil, err
	}
	service, err := startLedger(ctx, program, db)
	if err == nil {
		err = service.stop()
	}
	if err != nil {
		return nil, errors.Join(err, db.drop())
	}
	callee, err := hire(calleeRole, calleeOrders{db.url})
	if err != nil {
		return nil, errors.Join(err, db.drop())
	}
	return calleeVariant(unguardedCallee, db, callee.ready+effectRoute, callee.dismiss, countEffects), nil
}

// nothing is a migration that leaves all to a service.
func nothing(context.Context, *pgxpool.Pool) error { return nil }

func calleeVariant(name string, db *database, url string, stop func() error, queries ...string) *variant {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: ledgerCallers}}
	return &variant{
		name: name, server: db.server,
		turn:  callers(ledgerCallers, func(ctx context.Context) error { return post(ctx, client, url) }),
		check: func(ctx context.Context, operations int) error { return db.holds(ctx, operations, queries...) },
		close: func() error {
			client.CloseIdleConnections()
			return errors.Join(stop(), db.drop())
		},
	}
}

// A ledgerService is a process of examples/ledger.
type ledgerService struct {
	child *child
	url   string
	said  strings.Builder
}

// startLedger returns when the service answers. Its environment is this alone.
func startLedger(ctx context.Context, program string, db *database) (*ledgerService, error) {
	address, err := freeAddress(ctx)
	if err != nil {
		return nil, err
	}
	s := &ledgerService{url: "http://" + address}
	cmd := exec.Command(program) //nolint:noctx // it is ended by stop
	cmd.Env = []string{"LISTEN=" + address, fmt.Sprintf("DATABASE_URL=%s&pool_max_conns=%d", db.url, connections), "WORK=0s"}
	cmd.Stderr = &s.said
	if s.child, err = launch(cmd); err != nil {
		return nil, err
	}
	err = until(ctx, s.child, "start examples/ledger", func() (bool, error) { return healthy(ctx, s.url) })
	if err != nil {
		return nil, errors.Join(err, s.stop())
	}
	return s, nil
}

func freeAddress(ctx context.Context) (string, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}

// healthy reports whether the service at url is ready. It is not an error if the service does not
// listen yet.
func healthy(ctx context.Context, url string) (bool, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/healthz", nil)
	if err != nil {
		return false, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return false, ctx.Err()
	}
	return res.StatusCode == http.StatusOK, res.Body.Close()
}

// stop ends the service, and returns what went wrong in it.
func (l *ledgerService) stop() error {
	err := l.child.stop(syscall.SIGTERM)
	if err == nil && l.child.err != nil {
		err = fmt.Errorf("bench: examples/ledger: %w: %s", l.child.err, strings.TrimSpace(l.said.String()))
	}
	return err
}

func post(ctx context.Context, client *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(`{"fp":"bench"}`))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer bench")
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
