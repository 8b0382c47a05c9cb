//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package pgtest

import (
	"errors"
	"os"
	"syscall"
)

// tryLock locks file until it is closed or this process ends, and reports whether it
// could: somebody else may hold the lock.
func tryLock(file *os.File) (bool, error) {
	err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}
