package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgstore"
)

// A Request asks for a payment, and a Receipt confirms it.
type (
	Request struct {
		Account string
		Cents   int64
	}
	Receipt struct{ ID string }
)

var pay = contract.Post[Request, Receipt]("shop", "pay", "/payments")

// checkout takes payments.
type checkout struct {
	jobs  *river.Client[pgx.Tx]
	topic string
}

// pay writes the payment, and a job that publishes its message. Both are committed with the answer, or none of them. A
// replay of the answer inserts no second job.
func (c checkout) pay(ctx context.Context, in Request) (Receipt, error) {
	if in.Account == "" || in.Cents <= 0 {
		return Receipt{}, &server.StatusError{Status: http.StatusUnprocessableEntity, Err: fmt.Errorf("no such payment: %+v", in)}
	}
	parent, _ := childkey.FromContext(ctx)
	key, err := childkey.Derive(parent, group, "book") // the same in each attempt of the request
	if err != nil {
		return Receipt{}, err
	}
	id := key.String()
	payload, err := json.Marshal(Payment{ID: id, Account: in.Account, Cents: in.Cents})
	if err != nil {
		return Receipt{}, err
	}
	if err := pgstore.Queue(ctx, "insert into payment values ($1, $2, $3)", id, in.Account, in.Cents); err != nil {
		return Receipt{}, err
	}
	message := Message{Key: id, Topic: c.topic, Account: in.Account, Payload: payload, Trace: traceOf(ctx)}
	_, err = c.jobs.InsertTx(ctx, pgstore.Tx(ctx), message, nil)
	return Receipt{ID: id}, err
}

// shop takes payments, and publishes them, until ctx ends.
func shop(ctx context.Context, o *options) error {
	return o.withGuard(ctx, "shop", func(cfg *pgxpool.Config, guard *server.Guard) error {
		to, err := o.connect(ctx)
		if err != nil {
			return err
		}
		defer to.close()
		pool, err := pgxpool.NewWithConfig(ctx, cfg.Copy())
		if err != nil {
			return err
		}
		defer pool.Close()
		jobs, err := o.newJobs(pool, to.publish)
		if err != nil {
			return err
		}
		mux := http.NewServeMux()
		if err := server.Handle(mux, guard, pay, server.Transactional, checkout{jobs, o.topic}.pay); err != nil {
			return err
		}
		uncancelled := context.WithoutCancel(ctx) // the last requests have messages, too
		if err := jobs.Start(uncancelled); err != nil {
			return err
		}
		return errors.Join(o.serve(ctx, mux), jobs.Stop(uncancelled))
	})
}

// serve answers until ctx ends. Then it takes no new requests, and finishes those that it has.
func (o *options) serve(ctx context.Context, handler http.Handler) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.listen)
	if err != nil {
		return err
	}
	fmt.Fprintln(o.out, "ready on", listener.Addr())
	s := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- s.Serve(listener) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	finish, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
	defer cancel()
	err = s.Shutdown(finish)
	return errors.Join(err, ignoreClosed(<-failed))
}

func ignoreClosed(err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}
