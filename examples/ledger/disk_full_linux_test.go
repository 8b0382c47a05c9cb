package main

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/examples/internal/blackboxtest"
	"github.com/fanonce/fanonce/server/pgtest"
)

// diskVariable tells a child of TestDiskFull how its disk becomes full.
const diskVariable = "LEDGER_TEST_DISK"

// sharedMemory is where pgtest makes clusters if there is much room, and where this test mounts a disk with little.
const sharedMemory = "/dev/shm"

const (
	smallDisk = "tmpfs" // a file system of its own, which has little room
	noDisk    = "none"  // none that may be filled: the server is killed instead
)

// The database's disk is full: its server panics and does not come back. Every caller hears
// 503, or nothing. When there is room again and the server has been restarted, every key
// gets its answer and has one effect.
//
// The test runs in a child with mounts of its own, which the kernel takes away with the
// child's last process, however that ends. Where a user may not have such mounts, or a container
// has no place for one, the server is killed instead: the test says so, and shows the rest.
func TestDiskFull(t *testing.T) {
	if disk := os.Getenv(diskVariable); disk != "" {
		withFullDisk(t, disk)
		return
	}
	t.Parallel()
	_, err := os.Stat(sharedMemory)
	if err == nil {
		err = runWithDisk(t, smallDisk, ownMounts())
	}
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EINVAL) {
		t.Logf("NO DISK WAS FILLED: there is no %s, or this user may have no mounts of its own (%v). The server is killed instead.", sharedMemory, err)
		err = runWithDisk(t, noDisk, &syscall.SysProcAttr{})
	}
	require.NoError(t, err)
}

// ownMounts gives a child mounts of its own. A user other than root needs users of its own for
// that, in which it may mount.
func ownMounts() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	if uid, gid := os.Getuid(), os.Getgid(); uid != 0 {
		const mayMount = 21 // CAP_SYS_ADMIN
		attr.Cloneflags = syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}}
		attr.AmbientCaps = []uintptr{mayMount}
	}
	return attr
}

// runWithDisk runs the test in a child. Its error is that of the start; what the child finds
// fails t.
func runWithDisk(t *testing.T, disk string, attr *syscall.SysProcAttr) error {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), self, "-test.run=^TestDiskFull$", "-test.v", "-test.timeout=5m")
	cmd.Env = append(os.Environ(), diskVariable+"="+disk)
	attr.Pdeathsig = syscall.SIGKILL
	cmd.SysProcAttr = attr
	output, err := cmd.CombinedOutput()
	var ended *exec.ExitError
	if err == nil || errors.As(err, &ended) {
		require.NoError(t, err, "%s", output)
		t.Logf("%s", output)
	}
	return err
}

// A disk holds the cluster of a test.
type disk struct {
	folder string
	t      *testing.T
}

// newDisk mounts the disk, and has clusters made there from now on.
func newDisk(t *testing.T) disk {
	t.Helper()
	const folder = sharedMemory // of the child's own mounts
	require.NoError(t, syscall.Mount("tmpfs", folder, "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV, "size=160m,mode=1777"))
	t.Setenv("TMPDIR", folder)
	return disk{folder, t}
}

func (d disk) filler() string { return filepath.Join(d.folder, "filler") }

// fill leaves room for the server's messages, and for no segment of its log.
func (d disk) fill() {
	d.t.Helper()
	file, err := os.Create(d.filler())
	require.NoError(d.t, err)
	defer file.Close()
	const room = 1 << 20
	size := int64(0)
	for ; err == nil; size += room {
		_, err = file.Write(make([]byte, room))
	}
	require.ErrorIs(d.t, err, syscall.ENOSPC)
	require.NoError(d.t, file.Truncate(size-2*room))
}

func (d disk) free() { require.NoError(d.t, os.Remove(d.filler())) }

// panicked waits until the server has ended because nothing more can be written, and looks
// whether it stays so.
func (d disk) panicked(cluster *pgtest.Cluster, pool *pgxpool.Pool) {
	d.t.Helper()
	require.Eventually(d.t, func() bool {
		_, _ = pool.Exec(d.t.Context(), "select pg_logical_emit_message(false, 'filler', repeat('x', 1000000))") // until it cannot
		return !d.serverRuns()
	}, 2*time.Minute, time.Millisecond, "the server goes on")
	require.ErrorContains(d.t, cluster.Restart(d.t.Context()), "No space left on device", "no restart until there is room")
	logs, err := filepath.Glob(filepath.Join(d.folder, "pgtest-*", "log"))
	require.NoError(d.t, err)
	log, err := os.ReadFile(logs[0])
	require.NoError(d.t, err)
	require.Contains(d.t, string(log), "PANIC:")
}

// serverRuns reports whether the postmaster of the cluster on the disk still runs.
func (d disk) serverRuns() bool {
	files, err := filepath.Glob(filepath.Join(d.folder, "pgtest-*", "data", "postmaster.pid"))
	if err != nil || len(files) != 1 {
		return false
	}
	var pid int
	text, err := os.ReadFile(files[0])
	_, scanErr := fmt.Sscan(string(text), &pid)
	return err == nil && scanErr == nil && syscall.Kill(pid, 0) == nil
}

// withFullDisk is the test, in the child.
func withFullDisk(t *testing.T, kind string) {
	t.Helper()
	fill, free := func() {}, func() {}
	ended := func(cluster *pgtest.Cluster, _ *pgxpool.Pool) { require.NoError(t, cluster.Kill()) }
	if kind == smallDisk {
		d := newDisk(t)
		fill, free, ended = d.fill, d.free, d.panicked
	}
	cluster, err := pgtest.Start(t.Context(), pgtest.Config{Settings: map[string]string{
		"min_wal_size": "32MB", "max_wal_size": "32MB", "checkpoint_timeout": "1h",
	}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cluster.Stop()) })
	database, err := cluster.CreateDatabase(t.Context(), "ledger")
	require.NoError(t, err)
	p := ledger(t, database, "LEASE=1s")
	pool := connect(t, database)
	callers := &insistent{url: p.URL + "/v1/effect", answers: make(map[string]string)}
	stop := callers.start(t, 8)
	require.Eventually(t, func() bool { return callers.answered() > 50 }, time.Minute, time.Millisecond, "nobody is served")

	fill()
	ended(cluster, pool)
	for key := range callers.asked(t, stop) {
		a := blackboxtest.Post(t.Context(), callers.request(key))
		require.Equal(t, http.StatusServiceUnavailable, a.Status, "%s: %s", key, a.Body)
		require.NotEmpty(t, a.Header.Get("Retry-After"))
	}
	require.Equal(t, http.StatusServiceUnavailable, blackboxtest.Status(t.Context(), p.URL+"/healthz"))
	free()
	require.NoError(t, cluster.Restart(t.Context()))
	p.AwaitReady()
	callers.requireOnce(t, pool)
}
