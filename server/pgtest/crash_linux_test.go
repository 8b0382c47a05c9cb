package pgtest_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server/pgtest"
)

// roleVar makes a child process of this test binary act as a program that uses
// pgtest and never stops its cluster.
const roleVar = "PGTEST_TEST_ROLE"

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVar); role != "" {
		play(role)
	}
	os.Exit(m.Run())
}

// play starts a cluster, prints its folder, and ends as role says.
func play(role string) {
	ctx := context.Background()
	cluster, err := pgtest.Start(ctx, pgtest.Config{})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	if _, err := cluster.CreateDatabase(ctx, "left_behind"); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	conn, err := pgx.Connect(ctx, cluster.URL(""))
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	var data string
	if err := conn.QueryRow(ctx, "show data_directory").Scan(&data); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(data)
	switch role {
	case "exit":
		os.Exit(0)
	case "panic":
		panic("on purpose")
	default: // to be killed
		time.Sleep(time.Hour)
	}
}

// runRole runs the child until it has printed the folder of its cluster's data.
func runRole(t *testing.T, role string, env ...string) (child *exec.Cmd, data string) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	child = exec.Command(self, "-test.run=^$") //nolint:gosec // ourselves
	child.Env = append(append(os.Environ(), roleVar+"="+role), env...)
	out, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	t.Cleanup(func() {
		_ = child.Process.Kill()
		_ = child.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	return child, strings.TrimSpace(line)
}

// postmaster returns the process id of the server on data.
func postmaster(t *testing.T, data string) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(data, "postmaster.pid"))
	require.NoError(t, err)
	first, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(first)
	require.NoError(t, err)
	return pid
}

// running reports whether pid is a process that is not a zombie.
func running(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(state, "Z")
}

// eventually waits for actions of other processes; only a defect takes the whole limit.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !cond(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: still not so", what)
		}
	}
}

func missing(path string) func() bool {
	return func() bool {
		_, err := os.Lstat(path)
		return os.IsNotExist(err)
	}
}

func TestProcess_leavesNothingHoweverItEnds(t *testing.T) {
	t.Parallel()
	for _, role := range []string{"exit", "panic", "killed"} {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			child, data := runRole(t, role, pgtest.EnvDatabaseURL+"=")
			if role == "killed" {
				require.NoError(t, child.Process.Signal(syscall.SIGKILL))
			}
			_ = child.Wait()
			eventually(t, "the folder is gone", missing(filepath.Dir(data)))
		})
	}
}

func TestProcess_killedWithItsReaperIsSweptByTheNextStart(t *testing.T) {
	t.Parallel()
	child, data := runRole(t, "killed", pgtest.EnvDatabaseURL+"=")
	server := postmaster(t, data)
	require.NoError(t, syscall.Kill(reaperOf(t, child.Process.Pid), syscall.SIGKILL))
	require.NoError(t, child.Process.Signal(syscall.SIGKILL))
	_ = child.Wait()
	eventually(t, "the kernel ended Postgres", func() bool { return !running(server) })

	require.DirExists(t, filepath.Dir(data))
	startPrivate(t, pgtest.Config{})
	eventually(t, "the folder is gone", missing(filepath.Dir(data)))
}

// Not parallel: it sets the environment.
func TestStart_dropsTheDatabasesOfDeadTenantsOnly(t *testing.T) {
	server := startPrivate(t, pgtest.Config{})
	admin := connect(t, server.URL(""))
	_, err := admin.Exec(t.Context(), "create database pgtest_mine") // a user's database: not of our form
	require.NoError(t, err)
	t.Setenv(pgtest.EnvDatabaseURL, server.URL(""))

	dead, _ := runRole(t, "killed")
	require.NoError(t, dead.Process.Signal(syscall.SIGKILL))
	_ = dead.Wait()
	orphan := databaseNames(t, admin)
	require.Len(t, orphan, 2)

	living, err := pgtest.Start(t.Context(), pgtest.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, living.Stop()) })
	_, err = living.CreateDatabase(t.Context(), "alive")
	require.NoError(t, err)

	eventually(t, "the orphan is dropped and the others are not", func() bool {
		next, err := pgtest.Start(context.WithoutCancel(t.Context()), pgtest.Config{})
		require.NoError(t, err)
		require.NoError(t, next.Stop())
		names := strings.Join(databaseNames(t, admin), " ")
		require.Contains(t, names, "_alive")
		require.Contains(t, names, "pgtest_mine")
		return !strings.Contains(names, "left_behind")
	})
}

// reaperOf returns the child of parent that is a shell.
func reaperOf(t *testing.T, parent int) int {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	require.NoError(t, err)
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // ended meanwhile
		}
		var pid, ppid int
		var name, state string
		if _, err := fmt.Sscanf(string(stat), "%d %s %s %d", &pid, &name, &state, &ppid); err == nil && ppid == parent && name == "(sh)" {
			return pid
		}
	}
	t.Fatal("no reaper among the children")
	return 0
}
