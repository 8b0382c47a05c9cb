package pgtest

import (
	"bufio"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
)

const (
	memoryMount = "/dev/shm"
	tmpfsMagic  = 0x01021994 // statfs(2)
	// memoryNeeded is what must be free there, and on the machine. A suite of two
	// hundred tests takes a tenth of it.
	memoryNeeded = 4 << 30
)

// memoryFolder returns the file system that Linux keeps in memory. It returns the empty string if that is missing or
// has little room, as in containers.
func memoryFolder() string {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(memoryMount, &fs); err != nil || fs.Type != tmpfsMagic {
		return ""
	}
	// Its size is a limit, and may be more than the machine still has.
	if fs.Bavail*uint64(fs.Bsize) < memoryNeeded || availableMemory() < memoryNeeded { //nolint:gosec // not negative
		return ""
	}
	return memoryMount
}

// availableMemory is the number of bytes that programs can still take without swapping. It is zero if the kernel does
// not tell.
func availableMemory() uint64 {
	file, err := os.Open("/proc/meminfo")
	if err != nil {
		return 0
	}
	defer file.Close() //nolint:errcheck // only read
	return availableIn(file)
}

// availableIn reads it from the text of /proc/meminfo, see proc(5).
func availableIn(meminfo io.Reader) uint64 {
	lines := bufio.NewScanner(meminfo)
	for lines.Scan() {
		if kib, ok := strings.CutPrefix(lines.Text(), "MemAvailable:"); ok {
			n, _ := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(kib), " kB"), 10, 64)
			return n << 10
		}
	}
	return 0
}
