package main_test

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server/pgtest"
)

// A hospital is a server whose databases the doctor looks at. Its settings are those of a healthy server.
type hospital struct {
	cluster *pgtest.Cluster
	beds    atomic.Int64
}

// healthy are settings with which the doctor finds nothing. Autovacuum is on, and comes after the test only.
var healthy = map[string]string{
	"idle_in_transaction_session_timeout": "1min", "autovacuum_naptime": "1h", "max_prepared_transactions": "5", "wal_level": "logical",
}

// open starts a server. settings change those of a healthy one; nil changes none, and lets alter system change neither
// fsync nor full_page_writes.
func open(t *testing.T, settings map[string]string) *hospital {
	t.Helper()
	all := map[string]string{}
	for name, value := range healthy {
		all[name] = value
	}
	for name, value := range settings {
		all[name] = value
	}
	cfg := pgtest.Config{Settings: all}
	if settings == nil {
		// The folder may be in memory, where fsync costs nothing.
		all["fsync"], all["full_page_writes"] = "on", "on"
	} else {
		cfg.Durable = true // Postgres has fsync and full_page_writes on by itself, so that alter system can change them
	}
	cluster, err := pgtest.Start(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cluster.Stop()) })
	execute(t, cluster.URL(""), "create role orders login password 'secret'", "create database healthy")
	template := cluster.URL("healthy")
	on(t, template, "migrate", "up", "--component", "keys,sagas").requireCode(t, 0)
	execute(t, template, fanonce(t, "migrate", "print", "--component", "keys", "--from", "2", "--roles").stdout,
		fanonce(t, "migrate", "print", "--component", "sagas", "--from", "3", "--roles").stdout,
		"grant fanonce_runtime, pg_monitor to orders",
		"vacuum (analyze)")
	return &hospital{cluster: cluster}
}

// A bed is a database of a test's own.
type bed struct {
	name    string
	admin   string // its address as a superuser
	service string // and as the role of a service
}

// bed makes a healthy database.
func (h *hospital) bed(t *testing.T) bed {
	t.Helper()
	name := fmt.Sprintf("bed%d", h.beds.Add(1))
	execute(t, h.cluster.URL(""), "create database "+name+" template healthy")
	return h.at(t, name)
}

func (h *hospital) at(t *testing.T, name string) bed {
	t.Helper()
	b := bed{name: name, admin: h.cluster.URL(name)}
	u, err := url.Parse(b.admin)
	require.NoError(t, err)
	u.User = url.UserPassword("orders", "secret")
	b.service = u.String()
	return b
}

type findings struct {
	Healthy  bool
	Checks   int
	Findings []struct {
		ID, Severity, Subject, Problem, Why string
		Fix                                 []string
	}
	Ignored int
}

func (f findings) ids() []string {
	ids := []string{}
	for _, one := range f.Findings {
		if !slices.Contains(ids, one.ID) {
			ids = append(ids, one.ID)
		}
	}
	slices.Sort(ids)
	return ids
}

// doctor runs the doctor, and checks the form of what it says.
func doctor(t *testing.T, url string, args ...string) findings {
	t.Helper()
	r := on(t, url, append([]string{"doctor", "--json"}, args...)...)
	out := parse[findings](t, r)
	require.Equal(t, out.Healthy, r.code == 0, "%d %s", r.code, r.stdout)
	require.Empty(t, r.stderr)
	for _, f := range out.Findings {
		require.NotEmpty(t, f.Problem)
		require.NotEmpty(t, f.Why)
		require.NotEmpty(t, f.Fix, f.ID)
		require.Contains(t, []string{"error", "warning"}, f.Severity)
	}
	return out
}

// requireFindings runs the doctor until it finds these and no others. Statistics and replication come a little late.
func requireFindings(t *testing.T, url string, want []string, args ...string) findings {
	t.Helper()
	var out findings
	for deadline := time.Now().Add(patience / 2); ; time.Sleep(50 * time.Millisecond) {
		out = doctor(t, url, args...)
		if slices.Equal(out.ids(), want) || time.Now().After(deadline) {
			break
		}
	}
	require.Equal(t, want, out.ids(), "%+v", out)
	return out
}

// alter changes a setting of the server until the test ends, and waits until sessions have it.
func (h *hospital) alter(t *testing.T, name, value string) {
	t.Helper()
	conn := dial(t, h.cluster.URL(""))
	set := func(statement string) {
		_, err := conn.Exec(context.Background(), statement)
		require.NoError(t, err)
		_, err = conn.Exec(context.Background(), "select pg_reload_conf()")
		require.NoError(t, err)
	}
	shown := func() (now string) {
		require.NoError(t, conn.QueryRow(context.Background(), "select current_setting($1)", name).Scan(&now))
		return now
	}
	before := shown()
	set("alter system set " + name + " = '" + value + "'")
	require.Eventually(t, func() bool { return shown() == value }, patience, 5*time.Millisecond)
	t.Cleanup(func() {
		set("alter system reset " + name)
		require.Eventually(t, func() bool { return shown() == before }, patience, 5*time.Millisecond)
		require.NoError(t, conn.Close(context.Background()))
	})
}
