//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package pgtest

import (
	"errors"
	"os"
	"syscall"
)

// tryLock locks file until it is closed or this process ends. It returns false if another process holds the lock.
func tryLock(file *os.File) (bool, error) {
	err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}
