package process

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
)

// A Server is what a child serves.
type Server interface {
	Addr() string
	Stop(ctx context.Context) error
}

// Serve is the child's whole main: it reads the configuration, starts, tells
// the address, and stops the server when stdin ends.
func Serve[Config any](stdin io.Reader, stdout io.Writer, start func(context.Context, Config) (Server, error)) error {
	// Ctrl-C in a terminal reaches every process there. The parent stops this
	// one, in order.
	signal.Ignore(os.Interrupt)
	var config Config
	in := json.NewDecoder(stdin)
	if err := in.Decode(&config); err != nil {
		return fmt.Errorf("process: configuration: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		defer cancel()
		_, _ = io.Copy(io.Discard, stdin) // ends when the parent closes it, or dies
	}()
	server, err := start(ctx, config)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(stdout, server.Addr()); err != nil {
		cancel() // nobody listens
	}
	<-ctx.Done()
	ctx, cancelStop := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancelStop()
	return server.Stop(ctx)
}
