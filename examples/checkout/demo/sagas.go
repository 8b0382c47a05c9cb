package demo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/examples/checkout/internal/checkout"
	"github.com/fanonce/fanonce/examples/checkout/internal/checkoutapi"
	"github.com/fanonce/fanonce/examples/checkout/internal/inventoryapi"
	"github.com/fanonce/fanonce/examples/checkout/internal/ledger"
	"github.com/fanonce/fanonce/examples/checkout/internal/paymentapi"
	"github.com/fanonce/fanonce/examples/checkout/internal/report"
	"github.com/fanonce/fanonce/examples/internal/faultnet"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga"
)

// declined is how many orders are placed with a card that has no money.
const declined = 5

// declinedPrefix tells their orders from those of the crowd.
const declinedPrefix = "declined-"

// placeDeclined places orders as sagas whose payment is refused, through a network
// as bad as the crowd's, and returns how many of them were undone.
func (s *stage) placeDeclined(ctx context.Context) (undone int, err error) {
	edges, err := s.sagaEdges()
	if err != nil {
		return 0, err
	}
	defer func() {
		for _, edge := range edges { // late copies may still come: nothing is counted before they did
			err = errors.Join(err, edge.Close(context.WithoutCancel(ctx)))
		}
	}()
	client, err := clientOver(edges)
	if err != nil {
		return 0, err
	}
	journal, done, err := s.storages["checkout"].OpenJournal(ctx)
	if err != nil {
		return 0, err
	}
	defer done()
	engine, err := saga.Open(ctx, journal, saga.Config{
		Client:      client,
		Definitions: []saga.AnyDefinition{checkout.Saga},
		Backoff:     retry.Backoff{Base: 100 * time.Millisecond, Cap: time.Second},
	})
	if err != nil {
		return 0, err
	}
	undone, err = runDeclined(ctx, engine)
	return undone, errors.Join(err, engine.Close(context.WithoutCancel(ctx)))
}

// sagaEdges are edges of their own, so that those of the crowd count the crowd.
func (s *stage) sagaEdges() (map[string]*faultnet.Edge, error) {
	edges := make(map[string]*faultnet.Edge)
	for name, addr := range map[string]string{
		"inventory": s.nodes["inventory"].Addr(), "payment": s.payment.victim.Addr(), "notification": s.nodes["notification"].Addr(),
	} {
		edge, err := faultnet.Listen(faultnet.Config{Name: "saga to " + name, Seed: s.opts.seed, Profile: s.opts.network})
		if err != nil {
			return nil, err
		}
		edge.Forward(addr)
		edges[name] = edge
	}
	return edges, nil
}

// runDeclined runs the sagas side by side.
func runDeclined(ctx context.Context, engine *saga.Engine) (undone int, err error) {
	errs := make([]error, declined)
	var all sync.WaitGroup
	for i := range errs {
		order := checkoutapi.Order{
			ID: fmt.Sprintf("%s%d", declinedPrefix, i+1), Card: paymentapi.DeclinedCard,
			Items: []inventoryapi.Item{{SKU: "sku-01", Count: 1, Cents: 100}},
		}
		all.Go(func() { _, errs[i] = checkout.Saga.Run(ctx, engine, childkey.MustParse(order.ID), order) })
	}
	all.Wait()
	for i, e := range errs {
		if errors.Is(e, saga.ErrCompensated) {
			undone, errs[i] = undone+1, nil
		}
	}
	return undone, errors.Join(errs...)
}

// split takes the sagas' entries out of a ledger's.
func split(tallies []ledger.Tally) (crowd, sagas []ledger.Tally) {
	for _, t := range tallies {
		if strings.HasPrefix(strings.TrimPrefix(t.Order, ledger.UndoOf("")), declinedPrefix) {
			sagas = append(sagas, t)
		} else {
			crowd = append(crowd, t)
		}
	}
	return crowd, sagas
}

// auditSagas counts what a service did and undid for sagas.
func auditSagas(r *report.Sagas, service string, tallies []ledger.Tally) {
	for _, t := range tallies {
		undo := strings.HasPrefix(t.Order, ledger.UndoOf(""))
		switch {
		case len(t.IDs) != 1:
			r.Twice++
		case service == "inventory" && undo:
			r.Released++
		case service == "inventory":
			r.Reserved++
		default: // the payment was refused, and the customer hears nothing
			r.Wrong++
		}
	}
}
