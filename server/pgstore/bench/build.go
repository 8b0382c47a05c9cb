package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
)

// errNotBuilt: a program that a figure is measured with cannot be built here.
var errNotBuilt = errors.New("bench: a program cannot be built: it takes go, and to be started in the bench's folder")

// build makes a program of one of our main packages. Its error wraps [errNotBuilt], but
// where ctx ended it.
func build(ctx context.Context, program string, args ...string) error {
	cmd := exec.CommandContext(ctx, "go", append([]string{"build", "-o", program}, args...)...)
	said, err := cmd.CombinedOutput()
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return fmt.Errorf("%w: %w: %s", errNotBuilt, err, said)
	}
	return nil
}
