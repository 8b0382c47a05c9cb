package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/examples/checkout/internal/report"
	"github.com/fanonce/fanonce/server/memstore"
	"github.com/fanonce/fanonce/server/pgtest"
	"github.com/fanonce/fanonce/server/store"
)

// The routes of checkout and notification keep every key once in a store that is not beside their ledgers.
func TestRun_keysApart(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, address string
		args          []string
	}{
		{"memory, rows in memory", "memory://", []string{"-database=memory"}},
		{"memory, rows in postgres", "memory://", nil},
		{"postgres, rows in postgres", pgtest.URL(t), nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r, code, stderr := runJSON(t, append(tt.args, "-n=40", "-faults=brutal", "-store", tt.address)...)
			require.Equal(t, exitOK, code, stderr)
			requireEachOnce(t, r, 40)
			require.Contains(t, stderr, "Keyed and Opaque routes (checkout, notification) have their keys in "+r.Keys+".\n")
			require.Contains(t, stderr, "beside their ledgers, in "+r.Storage+".\n")
		})
	}
}

func requireEachOnce(t *testing.T, r report.Report, n int) {
	t.Helper()
	require.Equal(t, n, r.Accepted, "unaccepted: %v", r.Unaccepted)
	require.Len(t, r.Hops, len(services))
	for _, hop := range r.Hops {
		require.Equal(t, []int{n, 1, 1, 0}, []int{hop.Effects, hop.Min, hop.Max, hop.Lost}, "%+v", hop)
		require.Positive(t, hop.Suppressed, "%+v", hop)
	}
}

// A second run with the same store places the same orders, and finds no key of the first run.
func TestRun_keysApartTwice(t *testing.T) {
	t.Parallel()
	keys := memstore.New()
	kept := map[string]Opener{"kept": func(context.Context, *url.URL) (store.Store, func(), error) { return keys, func() {}, nil }}
	for range 2 {
		require.Equal(t, exitOK, run(t.Context(), []string{"-n=5", "-database=memory", "-store=kept://"}, kept, io.Discard, io.Discard))
	}
}

// forgetful is a store that forgets every completed run.
type forgetful struct{ store.Store }

// Settle releases a key instead of keeping its answer.
func (f forgetful) Settle(ctx context.Context, o store.Owner, s store.Settlement) error {
	if s.State == store.StateCompleted {
		s = store.Settlement{State: store.StateReleased}
	}
	return f.Store.Settle(ctx, o, s)
}

// A store that forgets lets messages go twice: the route is Opaque. Orders still take effect once: the route is Keyed,
// and a second run sends the same child keys.
func TestRun_forgetfulStore(t *testing.T) {
	t.Parallel()
	openers := map[string]Opener{"forgetful": func(context.Context, *url.URL) (store.Store, func(), error) {
		return forgetful{memstore.New()}, func() {}, nil
	}}
	var stdout bytes.Buffer
	code := run(t.Context(), []string{"-json", "-n=40", "-faults=brutal", "-database=memory", "-store=forgetful://"}, openers, &stdout, io.Discard)
	require.Equal(t, exitBroken, code)
	var r report.Report
	require.NoError(t, json.Unmarshal(stdout.Bytes(), &r))
	require.Equal(t, "notification", r.Hops[3].Name)
	require.Positive(t, r.Hops[3].Doubled)
	for _, hop := range r.Hops[:3] {
		require.Equal(t, []int{1, 1, 0}, []int{hop.Min, hop.Max, hop.Lost}, "%+v", hop)
	}
}

func TestParseKeys(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, address string
		args          []string
		want          string // of the error, or of the address
	}{
		{"memory", "memory://", nil, "memory:"},
		{"postgres", "postgres://u:secret@h/db", nil, "postgres://u:xxxxx@h/db"},
		{"redis", "redis://localhost:6379", []string{"-n=5"}, "type: STORE=redis://localhost:6379 go run -C examples/integrations ./stores/checkout -n=5"},
		{"rediss", "rediss://h", nil, "type: STORE=rediss://h go run -C examples/integrations ./stores/checkout"},
		{"parameters", "redis://h:6379?replicas=1&db=2", nil, "type: STORE='redis://h:6379?replicas=1&db=2' go run -C"},
		{"password", "redis://:secret@h", []string{"-store=redis://:secret@h", "-c=2"}, "type: STORE=redis://:xxxxx@h go run -C examples/integrations ./stores/checkout -c=2"},
		{"separate flag", "redis://:secret@h", []string{"-store", "redis://:secret@h", "-c=2"}, "./stores/checkout -c=2"},
		{"quote", "redis://h", []string{"-faults=it's"}, `./stores/checkout '-faults=it'\''s'`},
		{"unknown", "mysql://u:secret@h", nil, `no store has the scheme "mysql"`},
		{"no scheme", "localhost", nil, `no store has the scheme ""`},
		{"no URL", "redis://:secret@h:%", nil, "STORE is not a URL"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			k, err := parseKeys(tt.address, tt.args, nil)
			said := ""
			if err != nil {
				said = err.Error()
			} else {
				said = k.String()
			}
			require.Contains(t, said, tt.want)
			require.NotContains(t, said, "secret")
			require.NotContains(t, said, "\n")
		})
	}
}

// A store that does not answer ends the run. The error names the address without its password.
func TestRun_storeThatIsNotThere(t *testing.T) {
	t.Parallel()
	var stderr bytes.Buffer
	args := []string{"-database=memory", "-store=postgres://u:secret@127.0.0.1:1/x"}
	require.Equal(t, exitNoVerdict, run(t.Context(), args, nil, io.Discard, &stderr))
	require.Contains(t, stderr.String(), "STORE=postgres://u:xxxxx@127.0.0.1:1/x: ")
	require.NotContains(t, stderr.String(), "secret")
}

func TestRun_unsafeWithStore(t *testing.T) {
	t.Parallel()
	var stderr bytes.Buffer
	require.Equal(t, exitNoVerdict, run(t.Context(), []string{"-unsafe", "-store=memory://"}, nil, io.Discard, &stderr))
	require.Contains(t, stderr.String(), "unset STORE")
}

// Not parallel: it changes the environment.
func TestRun_storeOfTheEnvironment(t *testing.T) {
	t.Setenv(envStore, "redis://localhost:6379")
	var stderr bytes.Buffer
	require.Equal(t, exitNoVerdict, run(t.Context(), nil, nil, io.Discard, &stderr))
	require.Contains(t, stderr.String(), "STORE=redis://localhost:6379 go run -C examples/integrations ./stores/checkout\n")
}
