//go:build !unix

package pgtest

import (
	"fmt"
	"os"
	"syscall"
)

// An account is the user that Postgres runs as. On this system it is always our own user: nil.
type account struct{ name string }

func serverAccount() (*account, error) { return nil, nil }

func (a *account) canReach(string) bool { return true }

func (a *account) chown(string) error { return nil }

func (a *account) sysProcAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }

// A reaper removes a cluster's folder. On this system it cannot live longer
// than our process: after a kill, the next start sweeps.
type reaper struct{ dir string }

func startReaper(dir string) (*reaper, error) { return &reaper{dir: dir}, nil }

func (r *reaper) watch(int) error { return nil }

func (r *reaper) reap() error {
	if err := os.RemoveAll(r.dir); err != nil {
		return fmt.Errorf("pgtest: remove the cluster: %w", err)
	}
	return nil
}
