package main_test

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A terminal is a pseudo-terminal, with all that was written to it.
type terminal struct {
	file *os.File // the side of a program
	done sync.WaitGroup

	mu   sync.Mutex
	seen strings.Builder
}

// openTerminal opens a terminal of so many columns, which ends with the test. It skips the test where the system has
// no pseudo-terminals.
func openTerminal(t *testing.T, columns uint16) *terminal {
	t.Helper()
	for _, file := range []string{"/dev/ptmx", "/dev/pts/ptmx"} { // the second shows that devpts is mounted
		if _, err := os.Stat(file); err != nil {
			t.Skipf("no pseudo-terminals in this container: %v", err)
		}
	}
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	fd := int(screen.Fd())
	require.NoError(t, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	require.NoError(t, err)
	require.NoError(t, unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: columns}))
	x := &terminal{}
	x.file, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	x.done.Go(func() {
		buf := make([]byte, 4096)
		for {
			n, err := screen.Read(buf)
			x.mu.Lock()
			x.seen.Write(buf[:n])
			x.mu.Unlock()
			if err != nil { // EIO: no program has the terminal any more
				return
			}
		}
	})
	t.Cleanup(func() {
		_ = x.file.Close()
		x.done.Wait()
		require.NoError(t, screen.Close())
	})
	return x
}

func (x *terminal) text() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.seen.String()
}
