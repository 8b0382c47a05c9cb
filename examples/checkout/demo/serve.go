package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/examples/checkout/internal/checkout"
	"github.com/fanonce/fanonce/examples/checkout/internal/depot"
	"github.com/fanonce/fanonce/examples/checkout/internal/depotapi"
	"github.com/fanonce/fanonce/examples/checkout/internal/node"
	"github.com/fanonce/fanonce/examples/checkout/internal/paymentapi"
	"github.com/fanonce/fanonce/examples/checkout/internal/report"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/sdk"
)

const (
	// watchedRest is how long a customer of a watched demo waits after an order: a person cannot follow more.
	watchedRest = 500 * time.Millisecond
	// watchedKills is after how many accepted orders the payment service of a watched demo is killed.
	watchedKills = 200
	// declinedEvery is how often a watched demo places an order that is declined.
	declinedEvery = 5 * time.Second
)

const watchedText = `
  Customers buy, the network is bad, and the payment service is killed now and then. Look at it:

    %s

  Two things need you: a key of the depot is unknown, and a saga is stuck. Find and settle them.
  Ctrl-C ends the demo, and counts what took effect.

`

// watch lets customers buy until ctx ends, and serves the console meanwhile. It returns what became of the
// sagas.
func (s *stage) watch(ctx context.Context, crowd *customers, db *databases, stderr io.Writer) (_ *report.Sagas, err error) {
	w, err := s.openWatched(ctx, db)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.close(ctx)) }()
	if err := w.makeTrouble(ctx); err != nil {
		return nil, err
	}
	page, err := s.openPage(ctx, w)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, page.close(ctx)) }()
	if _, err := fmt.Fprintf(stderr, watchedText, page.url); err != nil {
		return nil, err
	}
	var declining sync.WaitGroup
	count := new(report.Sagas)
	declining.Go(func() { s.keepDeclining(ctx, w.sagas, count) })
	defer declining.Wait()
	if err := s.perform(ctx, crowd, stderr); err != nil && ctx.Err() == nil {
		return nil, err
	}
	return count, nil // ctx ended the play: that is how it ends
}

// watched is what only a watched demo has.
type watched struct {
	storage *node.Storage
	depot   *node.Node
	sagas   *sagas
}

func (s *stage) openWatched(ctx context.Context, db *databases) (_ *watched, err error) {
	w := new(watched)
	defer func() {
		if err != nil {
			err = errors.Join(err, w.close(ctx))
		}
	}()
	url, err := db.create(ctx, "depot")
	if err != nil {
		return nil, err
	}
	if w.storage, err = db.open(ctx, url); err != nil {
		return nil, err
	}
	if w.depot, err = node.Start(w.storage, node.Service{Name: "depot", Guarded: depot.Serve}); err != nil {
		return nil, err
	}
	w.sagas, err = s.openSagas(ctx, map[string]string{"depot": w.depot.Addr()}, checkout.Saga, depot.Saga)
	return w, err
}

// makeTrouble leaves a key that is unknown, and a saga that will be stuck.
func (w *watched) makeTrouble(ctx context.Context) error {
	gift := depot.Gift{Order: "gift-1", Card: paymentapi.DeclinedCard}
	if _, err := depot.Saga.Run(ctx, w.sagas.engine, childkey.MustParse(gift.Order), gift); !errors.Is(err, saga.ErrStuck) {
		return fmt.Errorf("the gift's saga is not stuck: %w", err)
	}
	client, err := sdk.New(sdk.Config{Services: map[string]sdk.Service{"depot": {URL: "http://" + w.depot.Addr()}}})
	if err != nil {
		return err
	}
	ctx = childkey.NewContext(ctx, childkey.MustParse("label-1"))
	if _, err = sdk.Call(ctx, client, depotapi.Print, depotapi.Parcel{Order: "label-1"}); err == nil {
		return errors.New("the depot's printer did not jam")
	}
	return nil
}

func (w *watched) close(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), restTimeout)
	defer cancel()
	if w.sagas != nil {
		err = w.sagas.close(ctx)
	}
	if w.depot != nil {
		err = errors.Join(err, w.depot.Stop(ctx))
	}
	if w.storage != nil {
		w.storage.Close()
	}
	return err
}

// keepDeclining places orders whose payment is refused, one after the other, until ctx ends. An order that it
// has begun it sees undone.
func (s *stage) keepDeclining(ctx context.Context, g *sagas, count *report.Sagas) {
	for ; ctx.Err() == nil; sleep(ctx, declinedEvery) {
		count.Orders++
		order := declinedOrder(count.Orders)
		_, err := checkout.Saga.Run(context.WithoutCancel(ctx), g.engine, childkey.MustParse(order.ID), order)
		if errors.Is(err, saga.ErrCompensated) {
			count.Undone++
		}
	}
}
