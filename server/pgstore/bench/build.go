package main

import (
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// errNotBuilt: a program that a figure is measured with cannot be built here.
var errNotBuilt = errors.New("bench: a program cannot be built: it takes go, cc for the race detector, and to be started in the bench's folder")

// raceProgram returns this program with the race detector: the file that runs, if it
// has it, else one that is built for it. Remove the folder, if it is not "".
func raceProgram(ctx context.Context) (program, folder string, err error) {
	if program, err = os.Executable(); err != nil || detects(program) {
		return program, "", err
	}
	if folder, err = os.MkdirTemp("", "fanonce-bench-"); err != nil {
		return "", "", err
	}
	program = filepath.Join(folder, "bench")
	if err := build(ctx, program, "-race", "github.com/fanonce/fanonce/server/pgstore/bench"); err != nil {
		return "", folder, err
	}
	if !detects(program) {
		return "", folder, fmt.Errorf("%w: it has no race detector", errNotBuilt)
	}
	return program, folder, nil
}

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

// detects reports whether a program was built with the race detector.
func detects(program string) bool {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return false
	}
	for _, s := range info.Settings {
		if s.Key == "-race" && s.Value == "true" {
			return true
		}
	}
	return false
}
