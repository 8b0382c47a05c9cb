// Package node runs one service: a listener, a guard, and the storage under
// it. Start with [Start].
package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/fanonce/fanonce/examples/checkout/internal/ledger"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/store"
)

// config is every guard's, beside its namespace. The lease is short because the demo kills: a dead
// owner's key is free again when its lease ends, after half a minute by default.
// A duplicate waits that long for the first run, too, before it is told to come back.
var config = server.Config{Lease: time.Second, Wait: time.Second}

// A Service is what a node serves: the contract on a mux, with the guard or
// without.
type Service struct {
	// Name is the namespace of the service's guard.
	Name    string
	Guarded func(mux *http.ServeMux, guard *server.Guard, book ledger.Ledger) error
	// Apart serves the contract where the storage has [Keys]: guard has its keys there, rows has them beside the
	// ledger. Nil means that the service's routes need transactions: Guarded serves them.
	Apart     func(mux *http.ServeMux, guard, rows *server.Guard, book ledger.Ledger) error
	Unguarded func(mux *http.ServeMux, book ledger.Ledger) error
}

// A Node is a running service. It is safe for concurrent use.
type Node struct {
	listener net.Listener
	server   *http.Server
	guards   []*server.Guard // empty: unguarded
	serving  sync.WaitGroup
}

// Start runs service over storage, on a free port of 127.0.0.1.
func Start(storage *Storage, service Service) (*Node, error) {
	n := new(Node)
	mux := http.NewServeMux()
	if err := n.register(mux, storage, service); err != nil {
		return nil, fmt.Errorf("node: %w", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("node: %w", err)
	}
	n.listener = listener
	n.server = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	n.serving.Go(func() { _ = n.server.Serve(listener) }) // it returns when the server is closed, and says no more than that
	return n, nil
}

func (n *Node) register(mux *http.ServeMux, storage *Storage, service Service) error {
	if storage.store == nil {
		return service.Unguarded(mux, storage.Ledger)
	}
	cfg := config
	cfg.Namespace = service.Name
	rows, err := n.guard(storage.store, cfg)
	if err != nil {
		return err
	}
	if storage.Keys == nil || service.Apart == nil {
		return service.Guarded(mux, rows, storage.Ledger)
	}
	cfg = server.Config{Wait: config.Wait, Retention: KeysRetention, AuditRetention: KeysRetention}
	cfg.Namespace = service.Name + "/" + storage.Keys.Run
	guard, err := n.guard(storage.Keys.Store, cfg)
	if err != nil {
		return err
	}
	return service.Apart(mux, guard, rows, storage.Ledger)
}

// guard makes a guard that ends with the node.
func (n *Node) guard(under store.Store, cfg server.Config) (*server.Guard, error) {
	// The services of the demo have one caller each. A real one would name the
	// tenant and the user here.
	guard, err := server.NewGuard(under, server.Unscoped, cfg)
	if err == nil {
		n.guards = append(n.guards, guard)
	}
	return guard, err
}

// shutdown waits for the runs of the guards. A handler of the guard of [Keys] uses the guard of the rows, so the
// guard of the rows ends last.
func (n *Node) shutdown(ctx context.Context) error {
	var errs []error
	for _, guard := range slices.Backward(n.guards) {
		errs = append(errs, guard.Shutdown(ctx))
	}
	return errors.Join(errs...)
}

// Addr returns host:port.
func (n *Node) Addr() string { return n.listener.Addr().String() }

// Stop lets what runs finish, at most until ctx ends. A second Stop does
// nothing.
func (n *Node) Stop(ctx context.Context) error {
	return errors.Join(n.server.Shutdown(ctx), n.shutdown(ctx), n.close())
}

// Break cuts every connection at once, as a crash would, and waits for the
// runs: memory cannot take their effects back.
func (n *Node) Break(ctx context.Context) error {
	return errors.Join(n.close(), n.shutdown(ctx))
}

func (n *Node) close() error {
	err := n.server.Close()
	n.serving.Wait()
	return err
}
