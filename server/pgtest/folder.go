package pgtest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

const (
	folderPrefix = "pgtest-"
	lockName     = "lock"
	// longestFolder leaves room for Postgres's socket in the 107 bytes (103 on
	// some systems) that a socket's path may have.
	longestFolder = 80
)

// A folder holds one private cluster. As long as its owner lives the owner
// holds a lock on the file "lock" in it. By that lock others know that the
// folder is not stale.
type folder struct {
	path   string
	lock   *os.File
	reaper *reaper // of the folder, and of the server in it
}

// newFolder makes a locked folder that acct owns, and its reaper. If durable is set the folder is on a disk. After an
// error no file is left.
func newFolder(acct *account, durable bool) (*folder, error) {
	sweepFolders()
	parent, err := folderParent(acct, durable)
	if err != nil {
		return nil, err
	}
	path, err := os.MkdirTemp(parent, folderPrefix)
	if err != nil {
		return nil, fmt.Errorf("pgtest: make a folder for Postgres: %w", err)
	}
	f := &folder{path: path}
	if err := errors.Join(f.claim(), acct.chown(path)); err != nil {
		return nil, errors.Join(fmt.Errorf("pgtest: make a folder for Postgres: %w", err), os.RemoveAll(path))
	}
	if f.reaper, err = startReaper(path); err != nil {
		return nil, errors.Join(err, os.RemoveAll(path), f.lock.Close())
	}
	return f, nil
}

// remove lets the reaper remove the folder, and waits for that.
func (f *folder) remove() error { return errors.Join(f.reaper.reap(), f.lock.Close()) }

// claim locks the folder. The file gets its name after it is locked. So no process can see the file without its lock
// and treat the folder as stale.
func (f *folder) claim() error {
	unnamed := filepath.Join(f.path, lockName+".new")
	lock, err := os.OpenFile(unnamed, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	if _, err := tryLock(lock); err != nil {
		return errors.Join(err, lock.Close())
	}
	if err := os.Rename(unnamed, filepath.Join(f.path, lockName)); err != nil {
		return errors.Join(err, lock.Close())
	}
	f.lock = lock
	return nil
}

func (f *folder) data() string    { return filepath.Join(f.path, "data") }
func (f *folder) logFile() string { return filepath.Join(f.path, "log") }

// folderParent is the first temporary folder that acct can reach and that is not too deep for a socket's path. Data
// that need not be durable is best kept in memory: each database has three hundred files to make and remove. A user
// who sets TMPDIR chooses the folder.
func folderParent(acct *account, durable bool) (string, error) {
	dirs := diskFolders()
	if memory := memoryFolder(); memory != "" && !durable && os.Getenv("TMPDIR") == "" {
		dirs = append([]string{memory}, dirs...)
	}
	for _, dir := range dirs {
		if len(dir) <= longestFolder-len(folderPrefix)-10 && acct.canReach(dir) {
			return dir, nil
		}
	}
	return "", fmt.Errorf("pgtest: no temporary folder for Postgres: %s, /tmp and /var/tmp are missing, too long or closed to its user", os.TempDir())
}

func diskFolders() []string { return []string{os.TempDir(), "/tmp", "/var/tmp"} }

// sweepFolders removes the folders whose owner died together with its reaper, from all places for such folders. It
// ignores errors: a folder that it cannot remove stays.
func sweepFolders() {
	for _, parent := range append(diskFolders(), memoryMount) {
		found, err := filepath.Glob(filepath.Join(parent, folderPrefix+"*"))
		if err != nil {
			continue // not a pattern: a TMPDIR can have brackets
		}
		for _, path := range found {
			sweepFolder(path)
		}
	}
}

func sweepFolder(path string) {
	lock, err := os.OpenFile(filepath.Join(path, lockName), os.O_RDWR, 0)
	if err != nil {
		return // of another user, or not of a cluster
	}
	defer lock.Close() //nolint:errcheck // only read
	won, err := tryLock(lock)
	if err != nil || !won || postmasterAlive(filepath.Join(path, "data")) {
		return
	}
	_ = os.RemoveAll(path)
}

// postmasterAlive reports whether the process in data's pid file exists.
func postmasterAlive(data string) bool {
	pid, _ := readPIDFile(data)
	if pid == 0 {
		return false
	}
	process, err := os.FindProcess(pid)
	return err == nil && process.Signal(syscall.Signal(0)) == nil
}

// readPIDFile returns the process id that postmaster.pid names, 0 if none, and whether
// that server takes connections: the same lines that pg_ctl looks at.
func readPIDFile(data string) (pid int, ready bool) {
	const statusLine = 7
	text, err := os.ReadFile(filepath.Join(data, "postmaster.pid"))
	if err != nil {
		return 0, false
	}
	lines := strings.Split(string(text), "\n")
	pid, err = strconv.Atoi(strings.TrimSpace(lines[0]))
	if err != nil {
		return 0, false
	}
	return pid, len(lines) > statusLine && strings.TrimSpace(lines[statusLine]) == "ready"
}
