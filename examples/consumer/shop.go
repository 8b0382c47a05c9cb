package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/outbox"
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
	outbox *outbox.Outbox
	topic  string
}

// pay writes the payment and its message. Both are committed with the answer, or none of them.
func (c checkout) pay(ctx context.Context, in Request) (Receipt, error) {
	if in.Account == "" || in.Cents <= 0 {
		return Receipt{}, &server.StatusError{Status: http.StatusUnprocessableEntity, Err: fmt.Errorf("no such payment: %+v", in)}
	}
	id, err := childkey.NewV7()
	if err != nil {
		return Receipt{}, err
	}
	payload, err := json.Marshal(Payment{ID: id.String(), Account: in.Account, Cents: in.Cents})
	if err != nil {
		return Receipt{}, err
	}
	if err := pgstore.Queue(ctx, "insert into payment values ($1, $2, $3)", id.String(), in.Account, in.Cents); err != nil {
		return Receipt{}, err
	}
	_, err = c.outbox.Write(ctx, outbox.Message{Key: id, Topic: c.topic, Aggregate: in.Account, Payload: payload})
	return Receipt{ID: id.String()}, err
}

// shop takes payments, and publishes them, until ctx ends.
func shop(ctx context.Context, o *options) error {
	return o.withGuard(ctx, "shop", func(cfg *pgxpool.Config, guard *server.Guard) error {
		box, err := outbox.New(outbox.Config{})
		if err != nil {
			return err
		}
		mux := http.NewServeMux()
		if err := server.Handle(mux, guard, pay, server.Transactional, checkout{box, o.topic}.pay); err != nil {
			return err
		}
		stop, err := o.relay(ctx, cfg, box)
		if err != nil {
			return err
		}
		defer stop()
		return o.serve(ctx, mux)
	})
}

// relay publishes what is in the outbox until stop is called. It can also be a process of its own.
func (o *options) relay(ctx context.Context, cfg *pgxpool.Config, box *outbox.Outbox) (stop func(), err error) {
	to, err := o.connect(ctx)
	if err != nil {
		return nil, err
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg.Copy())
	if err != nil {
		to.close()
		return nil, err
	}
	relay, err := box.NewRelay(pool, outbox.RelayConfig{
		Publish: to.publish, Lease: o.lease, PublishTimeout: o.lease / 3, PollInterval: 50 * time.Millisecond, Logger: o.log,
	})
	if err != nil {
		pool.Close()
		to.close()
		return nil, err
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx)) // the last requests have messages, too
	done := make(chan struct{})
	go func() {
		defer close(done)
		relay.Run(running)
	}()
	return func() {
		cancel()
		<-done
		pool.Close()
		to.close()
	}, nil
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
