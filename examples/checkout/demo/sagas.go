package demo

import (
	"context"
	"errors"
	"fmt"
	"maps"
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
	"github.com/fanonce/fanonce/saga/journal"
)

// declined is how many orders are placed with a card that has no money.
const declined = 5

// declinedPrefix tells their orders from those of the crowd.
const declinedPrefix = "declined-"

// sagas are an engine and its own edges to the services.
type sagas struct {
	edges   map[string]*faultnet.Edge
	engine  *saga.Engine
	journal journal.Journal
	done    func() // closes the journal
}

// openSagas opens an engine behind a network as bad as the crowd's. extra are the addresses of services that
// only sagas call.
func (s *stage) openSagas(ctx context.Context, extra map[string]string, definitions ...saga.AnyDefinition) (_ *sagas, err error) {
	g := &sagas{edges: make(map[string]*faultnet.Edge), done: func() {}}
	defer func() {
		if err != nil {
			err = errors.Join(err, g.close(ctx))
		}
	}()
	addresses := map[string]string{
		"inventory": s.nodes["inventory"].Addr(), "payment": "", "notification": s.nodes["notification"].Addr(),
	}
	maps.Copy(addresses, extra)
	for name, addr := range addresses {
		if err := g.listen(name, addr, s.opts); err != nil {
			return nil, err
		}
	}
	s.payment.lead(g.edges["payment"]) // its address changes
	client, err := clientOver(g.edges)
	if err != nil {
		return nil, err
	}
	j, done, err := s.storages["checkout"].OpenJournal(ctx)
	if err != nil {
		return nil, err
	}
	g.journal, g.done = j, done
	g.engine, err = saga.Open(ctx, j, saga.Config{
		Client:      client,
		Definitions: definitions,
		Backoff:     retry.Backoff{Base: 100 * time.Millisecond, Cap: time.Second},
	})
	return g, err
}

// listen adds an edge, which leads nowhere if addr is empty. The crowd does not use it, so that the crowd's edges count only the crowd.
func (s *sagas) listen(name, addr string, opts options) error {
	edge, err := faultnet.Listen(faultnet.Config{Name: "saga to " + name, Seed: opts.seed, Profile: opts.network})
	if err != nil {
		return err
	}
	s.edges[name] = edge
	if addr != "" {
		edge.Forward(addr)
	}
	return nil
}

// close ends the engine, and waits for late copies, which must arrive before anything is counted.
func (s *sagas) close(ctx context.Context) (err error) {
	ctx = context.WithoutCancel(ctx)
	if s.engine != nil {
		err = s.engine.Close(ctx)
	}
	for _, edge := range s.edges {
		err = errors.Join(err, edge.Close(ctx))
	}
	s.done()
	return err
}

// placeDeclined places orders as sagas whose payment is refused, and returns how many of them were undone.
func (s *stage) placeDeclined(ctx context.Context) (undone int, err error) {
	g, err := s.openSagas(ctx, nil, checkout.Saga)
	if err != nil {
		return 0, err
	}
	undone, err = runDeclined(ctx, g.engine)
	return undone, errors.Join(err, g.close(ctx))
}

// declinedOrder is an order whose payment is refused.
func declinedOrder(n int) checkoutapi.Order {
	return checkoutapi.Order{
		ID: fmt.Sprintf("%s%d", declinedPrefix, n), Card: paymentapi.DeclinedCard,
		Items: []inventoryapi.Item{{SKU: "sku-01", Count: 1, Cents: 100}},
	}
}

// runDeclined runs the sagas side by side.
func runDeclined(ctx context.Context, engine *saga.Engine) (undone int, err error) {
	errs := make([]error, declined)
	var all sync.WaitGroup
	for i := range errs {
		order := declinedOrder(i + 1)
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
