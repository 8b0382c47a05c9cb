package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

//go:embed preload/slowdisk.c
var slowDiskSource []byte

// slowDiskDelay is by how much a flush takes longer on the slow disk.
const slowDiskDelay = time.Millisecond

// startSlowPostgres starts the same server as another, but on a disk that takes
// longer for each flush. End it with stop, then remove the folder.
func startSlowPostgres(ctx context.Context, like *postgres, log int) (p *postgres, folder string, err error) {
	folder, err = slowPrograms(ctx, like.bin)
	if err != nil {
		return nil, folder, err
	}
	p, err = startPostgres(ctx, folder, log)
	return p, folder, err
}

// slowPrograms makes a folder of programs in which postgres is the one in bin, with a
// library that waits before each flush. Initdb is the real one: it flushes nothing
// that is measured.
func slowPrograms(ctx context.Context, bin string) (folder string, err error) {
	// The server's user must be able to enter it.
	if folder, err = os.MkdirTemp("/tmp", "fanonce-bench-"); err != nil {
		return "", err
	}
	library := filepath.Join(folder, "slowdisk.so")
	source := filepath.Join(folder, "slowdisk.c")
	server := fmt.Sprintf("#!/bin/sh\nLD_PRELOAD='%s' exec '%s' \"$@\"\n", library, filepath.Join(bin, "postgres"))
	err = errors.Join(
		os.Chmod(folder, 0o755), //nolint:gosec // as above; there is nothing secret in it
		os.WriteFile(source, slowDiskSource, 0o600),
		os.WriteFile(filepath.Join(folder, "postgres"), []byte(server), 0o755), //nolint:gosec // as above
		os.Symlink(filepath.Join(bin, "initdb"), filepath.Join(folder, "initdb")),
	)
	if err == nil {
		err = compile(ctx, source, library)
	}
	return folder, err
}

func compile(ctx context.Context, source, library string) error {
	cc, err := exec.LookPath("cc")
	if err != nil {
		return fmt.Errorf("bench: the slow disk needs a C compiler: %w", err)
	}
	cmd := exec.CommandContext(ctx, cc, "-O2", "-shared", "-fPIC", fmt.Sprintf("-DDELAY_NS=%dL", slowDiskDelay.Nanoseconds()), "-o", library, source, "-ldl")
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("bench: %s: %w: %s", cc, err, said)
	}
	return os.Chmod(library, 0o755) //nolint:gosec // the server's user must read it
}
