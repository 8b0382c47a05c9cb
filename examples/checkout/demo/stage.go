package demo

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/fanonce/fanonce/examples/checkout/internal/checkout"
	"github.com/fanonce/fanonce/examples/checkout/internal/inventory"
	"github.com/fanonce/fanonce/examples/checkout/internal/ledger"
	"github.com/fanonce/fanonce/examples/checkout/internal/node"
	"github.com/fanonce/fanonce/examples/checkout/internal/notification"
	"github.com/fanonce/fanonce/examples/internal/faultnet"
	"github.com/fanonce/fanonce/sdk"
	"github.com/fanonce/fanonce/server"
)

// services are the hops, in the order in which they are taken down: a caller comes before its
// callee.
var services = []string{"checkout", "inventory", "payment", "notification"}

const (
	// restTimeout is how long the stage may take to come to rest: more than any
	// call may.
	restTimeout = 20 * time.Second
	// abortTimeout is how long it may when the result is not wanted any more.
	abortTimeout = 3 * time.Second
)

// A stage is the four services and the network between them:
//
//	customers ~> checkout ~> inventory, payment, notification
//
// Each ~> is an edge, named for the service behind it.
type stage struct {
	opts     options
	edges    map[string]*faultnet.Edge
	urls     map[string]string        // of the databases
	storages map[string]*node.Storage // payment's is for the audit, where a child has its own
	nodes    map[string]*node.Node
	payment  *payments
	place    placeFunc
}

// setUp starts everything. If something does not start, the rest is taken
// down again. Nil keys means that each service has its keys in its database.
func setUp(ctx context.Context, opts options, db *databases, keys *node.Keys) (*stage, error) {
	s := &stage{
		opts: opts, edges: make(map[string]*faultnet.Edge), urls: make(map[string]string),
		storages: make(map[string]*node.Storage), nodes: make(map[string]*node.Node),
	}
	if err := s.start(ctx, db, keys); err != nil {
		return nil, errors.Join(err, s.tearDown(ctx))
	}
	return s, nil
}

func (s *stage) start(ctx context.Context, db *databases, keys *node.Keys) (err error) {
	for _, name := range services {
		if s.edges[name], err = faultnet.Listen(faultnet.Config{Name: name, Seed: s.opts.seed, Profile: s.opts.network}); err != nil {
			return err
		}
		if s.urls[name], err = db.create(ctx, name); err != nil {
			return err
		}
		if s.storages[name], err = db.open(ctx, s.urls[name]); err != nil {
			return err
		}
		s.storages[name].Keys = keys
	}
	if s.payment, err = startPayments(ctx, s.urls["payment"], s.storages["payment"], s.edges["payment"], s.opts); err != nil {
		return err
	}
	client, err := s.clientFor("inventory", "payment", "notification")
	if err != nil {
		return err
	}
	customer, err := s.clientFor("checkout")
	if err != nil {
		return err
	}
	s.place = s.placer(customer)
	return errors.Join(
		s.serve("inventory", node.Service{Name: "inventory", Guarded: inventory.Serve, Unguarded: inventory.ServeUnguarded}),
		s.serve("notification", node.Service{
			Name: "notification", Guarded: notification.Serve, Apart: notification.ServeApart, Unguarded: notification.ServeUnguarded,
		}),
		s.serve("checkout", s.checkoutService(client)),
	)
}

func (s *stage) serve(name string, service node.Service) (err error) {
	n, err := node.Start(s.storages[name], service)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	s.nodes[name] = n
	s.edges[name].Forward(n.Addr())
	return nil
}

func (s *stage) checkoutService(client *sdk.Client) node.Service {
	return node.Service{
		Name: "checkout",
		Guarded: func(mux *http.ServeMux, guard *server.Guard, book ledger.Ledger) error {
			return checkout.Serve(mux, guard, book, client)
		},
		Apart: func(mux *http.ServeMux, guard, rows *server.Guard, book ledger.Ledger) error {
			return checkout.ServeApart(mux, guard, rows, book, client)
		},
		Unguarded: func(mux *http.ServeMux, book ledger.Ledger) error {
			return checkout.ServeUnguarded(mux, book, checkout.URLs{
				Inventory: s.edges["inventory"].URL(), Payment: s.edges["payment"].URL(), Notification: s.edges["notification"].URL(),
			})
		},
	}
}

// rest waits until nothing is on its way any more, late copies included, and
// stops the services. The ledgers can be read then. Resting twice does nothing.
func (s *stage) rest(ctx context.Context, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var errs []error
	for _, name := range services {
		if edge := s.edges[name]; edge != nil {
			errs = append(errs, edge.Close(ctx))
		}
		if n := s.nodes[name]; n != nil {
			errs = append(errs, n.Stop(ctx))
		}
	}
	if s.payment != nil {
		errs = append(errs, s.payment.stop(ctx))
	}
	return errors.Join(errs...)
}

// tearDown stops what runs, and frees what the stage holds, even when ctx has
// ended: that is how a run is interrupted.
func (s *stage) tearDown(ctx context.Context) error {
	err := s.rest(context.WithoutCancel(ctx), abortTimeout)
	for _, name := range slices.Backward(services) {
		if storage := s.storages[name]; storage != nil {
			storage.Close()
		}
	}
	return err
}
