package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/examples/checkout/internal/report"
	"github.com/fanonce/fanonce/server/pgtest"
)

// demoArg makes the test binary the demo.
const demoArg = "demo"

// TestMain lets the test binary be the demo, and the demo's payment process.
func TestMain(m *testing.M) {
	switch {
	case isPaymentProcess(os.Args):
		os.Exit(Main(nil))
	case len(os.Args) > 1 && os.Args[1] == demoArg:
		os.Args = append(os.Args[:1], os.Args[2:]...)
		os.Exit(Main(nil))
	default:
		os.Exit(m.Run())
	}
}

// runJSON runs the demo and returns its report, exit code and standard error.
func runJSON(t *testing.T, args ...string) (report.Report, int, string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), append([]string{"-json"}, args...), nil, &stdout, &stderr)
	var r report.Report
	if err := json.Unmarshal(stdout.Bytes(), &r); err != nil {
		t.Fatalf("run(%q) = %d without a report: %v\n%s", args, code, err, stderr.String())
	}
	return r, code, stderr.String()
}

func TestRun_everyKeyOnce(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		args  []string
		kills int
	}{
		{"postgres, brutal", []string{"-faults=brutal", "-seed=1"}, 4},
		{"postgres, normal", []string{"-faults=normal", "-seed=2"}, 2},
		{"memory, brutal", []string{"-faults=brutal", "-seed=3", "-database=memory"}, 4},
		{"memory, none", []string{"-faults=none", "-database=memory"}, 0},
	}
	const n = 40
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r, code, stderr := runJSON(t, append(tt.args, "-n", fmt.Sprint(n))...)
			require.Equal(t, exitOK, code, stderr)
			require.True(t, r.OK)
			require.Equal(t, n, r.Accepted, "unaccepted: %v", r.Unaccepted)
			require.Equal(t, tt.kills, r.Kills)
			require.Len(t, r.Hops, len(services))
			require.Equal(t, &report.Sagas{Orders: declined, Undone: declined, Reserved: r.Sagas.Reserved, Released: r.Sagas.Reserved}, r.Sagas)
			require.Positive(t, r.Sagas.Reserved)
			for _, hop := range r.Hops {
				require.Equal(t, []int{n, 1, 1, 0}, []int{hop.Effects, hop.Min, hop.Max, hop.Lost}, "%+v", hop)
				if tt.kills > 0 {
					require.NotEmpty(t, hop.Faults, "%+v", hop)
					require.Positive(t, hop.Suppressed, "%+v", hop)
				}
			}
		})
	}
}

func TestRun_unsafeChargesTwice(t *testing.T) {
	t.Parallel()
	for _, database := range []string{"", onMemory} {
		t.Run("database "+database, func(t *testing.T) {
			t.Parallel()
			r, code, _ := runJSON(t, "-unsafe", "-n=40", "-faults=brutal", "-database", database)
			require.Equal(t, exitBroken, code)
			require.False(t, r.OK)
			require.NotEmpty(t, r.Charged)
			require.Greater(t, r.Charged[0].Times, 1)
		})
	}
}

// Without keys, only the bad network causes errors: over a good network plain retries are
// correct.
func TestRun_unsafeOnGoodNetwork(t *testing.T) {
	t.Parallel()
	r, code, _ := runJSON(t, "-unsafe", "-n=20", "-faults=none", "-database=memory")
	require.Equal(t, exitOK, code)
	require.Empty(t, r.Charged)
}

func TestRun_text(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	require.Equal(t, exitOK, run(t.Context(), []string{"-n=5", "-database=memory"}, nil, &stdout, &stderr))
	require.Contains(t, stdout.String(), "OK: every accepted checkout took effect exactly once at every hop.\n")
	require.Contains(t, stderr.String(), "5 of 5 accepted")
}

func TestRun_noVerdict(t *testing.T) {
	t.Parallel()
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	tests := []struct {
		name   string
		ctx    context.Context
		args   []string
		stdout io.Writer
		want   string
	}{
		{"unknown flag", t.Context(), []string{"-x"}, io.Discard, "flag provided but not defined"},
		{"not a flag", t.Context(), []string{"x"}, io.Discard, `"x" is not a flag`},
		{"no checkouts", t.Context(), []string{"-n=0"}, io.Discard, "-n: 0"},
		{"nobody", t.Context(), []string{"-c=-1"}, io.Discard, "-c: -1"},
		{"keys without keys", t.Context(), []string{"-serve", "-unsafe"}, io.Discard, "-unsafe has none"},
		{"an address for nothing", t.Context(), []string{"-listen=localhost:7070"}, io.Discard, "-listen goes with -serve"},
		{"an address for all", t.Context(), []string{"-serve", "-listen=0.0.0.0:7070"}, io.Discard, `"0.0.0.0:7070"`},
		{"no address", t.Context(), []string{"-serve", "-listen=7070"}, io.Discard, `"7070"`},
		{"no such network", t.Context(), []string{"-faults=worse"}, io.Discard, `"worse"`},
		{"interrupted", cancelled, []string{"-database=memory"}, io.Discard, "interrupted"},
		{"full disk", t.Context(), []string{"-n=1", "-database=memory"}, fullDisk{}, errFull.Error()},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var stderr bytes.Buffer
			require.Equal(t, exitNoVerdict, run(tt.ctx, tt.args, nil, tt.stdout, &stderr))
			require.Contains(t, stderr.String(), tt.want)
		})
	}
}

func TestRun_help(t *testing.T) {
	t.Parallel()
	var stderr bytes.Buffer
	require.Equal(t, exitOK, run(t.Context(), []string{"-h"}, nil, io.Discard, &stderr))
	for _, name := range []string{"-n", "-c", "-seed", "-faults", "-database", "-json", "-unsafe", "-store", "-serve", "-listen"} {
		require.Contains(t, stderr.String(), "  "+name)
	}
}

var errFull = errors.New("disk full")

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errFull }

// Not parallel: it changes the environment.
func TestRun_withoutPostgres(t *testing.T) {
	t.Setenv(pgtest.EnvDatabaseURL, "")
	t.Setenv(pgtest.EnvBin, pgtest.NoBin)
	r, code, stderr := runJSON(t, "-n=5")
	require.Equal(t, exitOK, code)
	require.Equal(t, report.Memory, r.Storage)
	require.Contains(t, stderr, "NO POSTGRES HERE")
}

// Not parallel: it changes the environment and the folder.
func TestRun_installPostgres(t *testing.T) {
	t.Setenv(pgtest.EnvDatabaseURL, "")
	t.Setenv(pgtest.EnvBin, pgtest.NoBin)
	t.Chdir(t.TempDir())
	var stdout, stderr bytes.Buffer
	require.Equal(t, exitOK, run(t.Context(), []string{"-n=5"}, nil, &stdout, &stderr))
	require.True(t, strings.HasSuffix(stdout.String(), "go run ./examples/checkout -install-postgres\n"), stdout.String())

	require.Equal(t, exitNoVerdict, run(t.Context(), []string{"-n=5", "-install-postgres"}, nil, &stdout, &stderr))
	require.Contains(t, stderr.String(), "works at the root of a clone")

	require.NoError(t, os.Mkdir(".ci", 0o700))
	require.NoError(t, os.WriteFile(programs, []byte(`echo "installing: $*"`), 0o600))
	require.Equal(t, exitNoVerdict, run(t.Context(), []string{"-n=5", "-install-postgres"}, nil, &stdout, &stderr), "it asked for one")
	require.Contains(t, stderr.String(), "installing: install postgresql")
}

// Not parallel: it changes the environment.
func TestRun_databaseThatIsNotThere(t *testing.T) {
	t.Setenv(pgtest.EnvDatabaseURL, "")
	var stderr bytes.Buffer
	code := run(t.Context(), []string{"-database=postgres://u:geheim@127.0.0.1:1/x"}, nil, io.Discard, &stderr)
	require.Equal(t, exitNoVerdict, code, "asked for a Postgres: memory is no substitute")
	require.NotContains(t, stderr.String(), "geheim")
}

// Not parallel: it changes the environment.
func TestRun_databaseOfYours(t *testing.T) {
	t.Setenv(pgtest.EnvDatabaseURL, "")
	cluster, err := pgtest.Start(t.Context(), pgtest.Config{Private: true})
	require.NoError(t, err)
	defer func() { require.NoError(t, cluster.Stop()) }()
	before := databaseNames(t, cluster)
	r, code, stderr := runJSON(t, "-n=5", "-database", cluster.URL(""))
	require.Equal(t, exitOK, code, stderr)
	require.Equal(t, "the Postgres of DATABASE_URL", r.Storage)
	require.Equal(t, before, databaseNames(t, cluster), "databases are left behind")
}

// Not parallel: it counts goroutines.
func TestRun_leavesNoGoroutine(t *testing.T) {
	before := runtime.NumGoroutine()
	_, code, _ := runJSON(t, "-n=10", "-faults=brutal", "-database=memory")
	require.Equal(t, exitOK, code)
	stacks := func() string {
		buf := make([]byte, 1<<20)
		return string(buf[:runtime.Stack(buf, true)])
	}
	for deadline := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines, want %d:\n%s", runtime.NumGoroutine(), before, stacks())
		}
	}
}

// A payment service that does not come back ends the run at once, with its
// error; the customers need not lose their patience first.
func TestPerform_paymentStaysDead(t *testing.T) {
	t.Parallel()
	opts, err := parseOptions([]string{"-n=500", "-database=memory"}, nil, io.Discard)
	require.NoError(t, err)
	s, err := setUp(t.Context(), opts, &databases{}, nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, s.tearDown(t.Context())) }()
	dead := errors.New("dead")
	s.payment.start = func(context.Context) (victim, error) { return nil, dead }
	crowd := newCustomers(s.place, opts)
	require.ErrorIs(t, s.perform(t.Context(), crowd, io.Discard), dead)
	require.Less(t, len(crowd.confirmations)+len(crowd.failures), opts.checkouts, "the last customers did not even begin")
}

func TestStartProgress(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	startProgress(&b, func() string { return "all done" })()
	require.Equal(t, "all done\n", b.String())
}
