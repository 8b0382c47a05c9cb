package main_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("fanonce.update", false, "write the golden files anew")

// binary is the program, built once for all tests.
var binary string

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(testMain(m))
}

func testMain(m *testing.M) int {
	dir, err := os.MkdirTemp("", "fanonce-cli-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "fanonce")
	if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		panic(fmt.Sprintf("go build: %v\n%s", err, out))
	}
	return m.Run()
}

// A result has the exit code and the output of one run of the program.
type result struct {
	code           int
	stdout, stderr string
}

// A call is one run of the program.
type call struct {
	database string
	stdin    string
	args     []string
	env      []string
}

func (c call) command(ctx context.Context) (*exec.Cmd, *bytes.Buffer, *bytes.Buffer) {
	cmd := exec.CommandContext(ctx, binary, c.args...)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "PG") })
	cmd.Env = append(cmd.Env, "USER=ann", "DATABASE_URL="+c.database)
	cmd.Env = append(cmd.Env, c.env...)
	cmd.Stdin = strings.NewReader(c.stdin)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	return cmd, &stdout, &stderr
}

const patience = time.Minute

func (c call) run(tb testing.TB) result {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), patience)
	defer cancel()
	cmd, stdout, stderr := c.command(ctx)
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		tb.Fatalf("fanonce %v: %v", c.args, err)
	}
	return result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// fanonce runs the program without a database.
func fanonce(tb testing.TB, args ...string) result {
	tb.Helper()
	return call{args: args}.run(tb)
}

// on runs the program on a database.
func on(tb testing.TB, url string, args ...string) result {
	tb.Helper()
	return call{database: url, args: args}.run(tb)
}

func (r result) requireCode(tb testing.TB, want int) result {
	tb.Helper()
	require.Equal(tb, want, r.code, "stdout: %s\nstderr: %s", r.stdout, r.stderr)
	return r
}

// parse reads the output of --json, which is one document with the fields of T and no others.
func parse[T any](tb testing.TB, r result) T {
	tb.Helper()
	decoder := json.NewDecoder(strings.NewReader(r.stdout))
	decoder.DisallowUnknownFields()
	var out T
	require.NoError(tb, decoder.Decode(&out), "%s\n%s", r.stdout, r.stderr)
	require.False(tb, decoder.More(), "more than one document: %s", r.stdout)
	return out
}

// execute runs statements on a database, one at a time.
func execute(tb testing.TB, url string, statements ...string) {
	tb.Helper()
	conn := dial(tb, url)
	for _, statement := range statements {
		_, err := conn.Exec(tb.Context(), statement)
		require.NoError(tb, err, statement)
	}
	require.NoError(tb, conn.Close(context.Background()))
}

// dial opens a connection that ends with the test.
func dial(tb testing.TB, url string) *pgx.Conn {
	tb.Helper()
	conn, err := pgx.Connect(tb.Context(), url)
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// golden compares text with a file of testdata.
func golden(tb testing.TB, name, got string) {
	tb.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		require.NoError(tb, os.WriteFile(file, []byte(got), 0o600))
	}
	want, err := os.ReadFile(file)
	require.NoError(tb, err)
	require.Equal(tb, string(want), got, "go test -fanonce.update writes the file anew")
}
