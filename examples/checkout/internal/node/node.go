// Package node runs one service: a listener, a guard, and the storage under
// it. Start with [Start].
package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/fanonce/fanonce/examples/checkout/internal/ledger"
	"github.com/fanonce/fanonce/server"
)

// config is every guard's, beside its namespace. The lease is short because the demo kills: a dead
// owner's key is free again when its lease ends, after half a minute by default.
// A duplicate waits that long for the first run, too, before it is told to come back.
var config = server.Config{Lease: time.Second, Wait: time.Second}

// A Service is what a node serves: the contract on a mux, with the guard or
// without.
type Service struct {
	// Name is the namespace of the service's guard.
	Name      string
	Guarded   func(mux *http.ServeMux, guard *server.Guard, book ledger.Ledger) error
	Unguarded func(mux *http.ServeMux, book ledger.Ledger) error
}

// A Node is a running service. It is safe for concurrent use.
type Node struct {
	listener net.Listener
	server   *http.Server
	guard    *server.Guard // nil: unguarded
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

func (n *Node) register(mux *http.ServeMux, storage *Storage, service Service) (err error) {
	if storage.store == nil {
		return service.Unguarded(mux, storage.Ledger)
	}
	// The services of the demo have one caller each. A real one would name the
	// tenant and the user here.
	cfg := config
	cfg.Namespace = service.Name
	if n.guard, err = server.NewGuard(storage.store, server.Unscoped, cfg); err != nil {
		return err
	}
	return service.Guarded(mux, n.guard, storage.Ledger)
}

// Addr returns host:port.
func (n *Node) Addr() string { return n.listener.Addr().String() }

// Stop lets what runs finish, at most until ctx ends. A second Stop does
// nothing.
func (n *Node) Stop(ctx context.Context) error {
	err := n.server.Shutdown(ctx)
	if n.guard != nil {
		err = errors.Join(err, n.guard.Shutdown(ctx))
	}
	return errors.Join(err, n.close())
}

// Break cuts every connection at once, as a crash would, and waits for the
// runs: memory cannot take their effects back.
func (n *Node) Break(ctx context.Context) error {
	err := n.close()
	if n.guard != nil {
		err = errors.Join(err, n.guard.Shutdown(ctx))
	}
	return err
}

func (n *Node) close() error {
	err := n.server.Close()
	n.serving.Wait()
	return err
}
