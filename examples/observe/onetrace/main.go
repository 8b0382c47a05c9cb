// Onetrace draws the trace of one checkout over four services, whose first shop is killed in the middle.
//
//	go run ./onetrace onetrace.svg
//
// Each service is a process with a database of its own, on a real socket. A client places an order at the shop. The
// shop runs a saga: reserve, charge, book. While the charge is running, SIGKILL ends the shop's process. The engine of the second
// shop takes the saga over, and the client's retry attaches to it there. The picture is made of the spans that the
// processes wrote to files.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := start(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "onetrace:", err)
		os.Exit(1)
	}
}

// start runs a service if this process is one, and else the whole checkout.
func start(ctx context.Context, args []string) error {
	if cfg, ok := configFromEnv(); ok {
		return serve(ctx, cfg)
	}
	if len(args) != 1 {
		return errors.New("usage: onetrace FILE.svg")
	}
	story, err := play(ctx)
	if err != nil {
		return err
	}
	for _, line := range story.summary() {
		fmt.Println(line)
	}
	return os.WriteFile(args[0], story.picture(), 0o644) //nolint:gosec // a picture for everybody
}
