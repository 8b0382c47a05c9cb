package demo

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/fanonce/fanonce/examples/checkout/internal/node"
	"github.com/fanonce/fanonce/examples/checkout/internal/payment"
	"github.com/fanonce/fanonce/examples/checkout/internal/process"
)

// paymentArg makes this program the payment service: the demo starts itself
// again with it.
const paymentArg = "payment-process"

func isPaymentProcess(args []string) bool { return len(args) == 2 && args[1] == paymentArg }

// paymentConfig is what the demo tells its payment process.
type paymentConfig struct {
	Database string
	Unsafe   bool
}

var paymentService = node.Service{Name: "payment", Guarded: payment.Serve, Unguarded: payment.ServeUnguarded}

func paymentMain(stdin io.Reader, stdout, stderr io.Writer) int {
	if err := process.Serve(stdin, stdout, startPayment); err != nil {
		fmt.Fprintln(stderr, "payment:", err)
		return exitNoVerdict
	}
	return exitOK
}

func startPayment(ctx context.Context, cfg paymentConfig) (process.Server, error) {
	storage, err := node.OpenPostgres(ctx, cfg.Database, cfg.Unsafe)
	if err != nil {
		return nil, err
	}
	n, err := node.Start(storage, paymentService)
	if err != nil {
		storage.Close()
		return nil, err
	}
	return ownedNode{n, storage}, nil
}

// ownedNode is a node that is alone with its storage.
type ownedNode struct {
	*node.Node
	storage *node.Storage
}

// Stop stops the node, and closes its storage.
func (o ownedNode) Stop(ctx context.Context) error {
	defer o.storage.Close()
	return o.Node.Stop(ctx)
}

// A victim is a payment service that can be killed.
type victim interface {
	Addr() string
	Stop(ctx context.Context) error
	kill(ctx context.Context) error
}

// child is a victim in a process of its own: SIGKILL, as the kernel would.
type child struct{ *process.Process }

func startChild(ctx context.Context, cfg paymentConfig) (victim, error) {
	path, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p, err := process.Start(ctx, process.Command{Path: path, Args: []string{paymentArg}, Config: cfg, Stderr: os.Stderr})
	if err != nil {
		return nil, err
	}
	return child{p}, nil
}

func (c child) Stop(context.Context) error { return c.Process.Stop() }
func (c child) kill(context.Context) error { return c.Kill() }

// roommate is a victim in this process: its memory has to survive it.
type roommate struct{ *node.Node }

func startRoommate(storage *node.Storage) (victim, error) {
	n, err := node.Start(storage, paymentService)
	if err != nil {
		return nil, err
	}
	return roommate{n}, nil
}

func (r roommate) kill(ctx context.Context) error { return r.Break(ctx) }
