package main_test

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server/pgtest"
)

// hold leaves a connection in a transaction until the test ends.
func hold(t *testing.T, url string, statements ...string) *pgx.Conn {
	t.Helper()
	conn := dial(t, url)
	for _, statement := range append([]string{"begin isolation level repeatable read"}, statements...) {
		_, err := conn.Exec(t.Context(), statement)
		require.NoError(t, err, statement)
	}
	return conn
}

// record is a row of idempotency; the values are state, effect and the offset of expires_at.
const record = `insert into idempotency (fence, created_at, lease_until, expires_at, effect, fingerprint_version, key, token, state, status, replay_until)
	select 1, now(), now(), now() + %OFFSET%, 1, 1, gen_random_uuid(), gen_random_uuid(), 2, 200, now() + %OFFSET% from generate_series(1, %N%)`

func records(n, offset string) string {
	return strings.NewReplacer("%N%", n, "%OFFSET%", "interval '"+offset+"'").Replace(record)
}

// Each misconfiguration is planted alone, in a healthy database. The doctor names it and nothing else.
func TestDoctor_ofOneDatabase(t *testing.T) {
	t.Parallel()
	h := open(t, nil)
	for _, tt := range []struct {
		name  string
		want  string // several, with commas
		plant func(t *testing.T, b bed)
		args  []string
	}{
		{"nothing", "", func(*testing.T, bed) {}, nil},
		{"no tables of sagas", "schema-missing", func(t *testing.T, b bed) {
			execute(t, b.admin, fanonce(t, "migrate", "print", "--down", "--component", "sagas").stdout)
		}, []string{"--component", "sagas"}},
		{"no tables", "schema-missing", func(t *testing.T, b bed) {
			execute(t, b.admin, fanonce(t, "migrate", "print", "--down").stdout)
		}, nil},
		{"old tables", "schema-old", func(t *testing.T, b bed) {
			execute(t, b.admin, fanonce(t, "migrate", "print", "--down", "--component", "keys", "--from", "1").stdout)
		}, nil},
		{"new tables", "schema-newer", func(t *testing.T, b bed) {
			execute(t, b.admin, "insert into saga_version (version, oldest) values (100, 100)")
		}, nil},
		{"another search_path", "schema-elsewhere,schema-missing", func(t *testing.T, b bed) {
			execute(t, b.admin, "create schema other", "alter database "+b.name+" set search_path = other")
		}, nil},
		{"tables twice", "schema-twice", func(t *testing.T, b bed) {
			on(t, b.admin, "migrate", "up", "--component", "sagas", "--schema", "other").requireCode(t, 0)
		}, nil},
		{"a dropped index", "index-missing", func(t *testing.T, b bed) { execute(t, b.admin, "drop index idempotency_expires_at") }, nil},
		{"an index that failed", "index-invalid", func(t *testing.T, b bed) {
			execute(t, b.admin, records("2", "1 day"))
			_, err := dial(t, b.admin).Exec(t.Context(), "create unique index concurrently twice on idempotency (effect)")
			require.Error(t, err)
		}, nil},
		{"a right taken back", "grant-missing", func(t *testing.T, b bed) {
			execute(t, b.admin, "revoke update (lease_until) on idempotency from fanonce_runtime")
		}, nil},
		{"a right on sagas taken back", "grant-missing", func(t *testing.T, b bed) {
			execute(t, b.admin, "revoke delete on saga from fanonce_runtime")
		}, nil},
		{"a service that is superuser", "role-superuser", func(t *testing.T, b bed) {
			execute(t, b.admin, "create role careless superuser")
		}, []string{"--role", "careless"}},
		{"a service whose role has what its database lacks", "", func(t *testing.T, b bed) {
			execute(t, b.admin, "create role neat in role fanonce_runtime",
				"alter database "+b.name+" set idle_in_transaction_session_timeout = 0",
				"alter role neat set idle_in_transaction_session_timeout = 0",
				"alter role neat in database "+b.name+" set idle_in_transaction_session_timeout = '1min'")
		}, []string{"--role", "neat"}},
		{"a service whose role has bad settings", "jit-short,schema-elsewhere,synchronous-commit-off", func(t *testing.T, b bed) {
			execute(t, b.admin, "create role untidy in role fanonce_runtime", "alter role untidy set synchronous_commit = off",
				"alter role untidy set jit_above_cost = 10", "alter role untidy set search_path = elsewhere, \"$user\"")
		}, []string{"--role", "untidy"}},
		{"synchronous_commit", "synchronous-commit-off", func(t *testing.T, b bed) {
			execute(t, b.admin, "alter database "+b.name+" set synchronous_commit = off")
		}, nil},
		{"read only", "read-only", func(t *testing.T, b bed) {
			execute(t, b.admin, "alter database "+b.name+" set default_transaction_read_only = on")
		}, nil},
		{"JIT", "jit-short", func(t *testing.T, b bed) { execute(t, b.admin, "alter database "+b.name+" set jit_above_cost = 10") }, nil},
		{"idle in transaction", "idle-in-transaction-unbounded", func(t *testing.T, b bed) {
			execute(t, b.admin, "alter database "+b.name+" set idle_in_transaction_session_timeout = 0")
		}, nil},
		{"autovacuum of a table", "autovacuum-off-table", func(t *testing.T, b bed) {
			execute(t, b.admin, "alter table saga set (autovacuum_enabled = false)")
		}, nil},
		{"dead rows", "dead-rows", func(t *testing.T, b bed) {
			execute(t, b.admin, records("20000", "1 day"), "delete from idempotency", "select pg_stat_force_next_flush()")
		}, nil},
		{"a bloated index", "index-bloat", func(t *testing.T, b bed) {
			execute(t, b.admin, records("300000", "1 day"), "delete from idempotency where key > '01000000-0000-0000-0000-000000000000'",
				// Counts of the delete that arrive after the vacuum would look like dead rows.
				"select pg_stat_force_next_flush()", "vacuum (analyze) idempotency")
		}, nil},
		{"partitions end", "partitions-behind", func(t *testing.T, b bed) {
			execute(t, b.admin, "create table day partition of idempotency_answer for values from ('2020-01-01') to ('2020-01-02')")
		}, nil},
		{"a default partition", "partitions-default", func(t *testing.T, b bed) {
			execute(t, b.admin, "create table other partition of idempotency_answer default")
		}, nil},
		{"no sweep of keys", "sweep-lag", func(t *testing.T, b bed) { execute(t, b.admin, records("10", "-2 hours")) }, nil},
		{"no sweep of sagas", "sweep-lag", func(t *testing.T, b bed) {
			startedSaga(t, b.admin, "s")
			execute(t, b.admin, "update saga set status = 3, wake_at = null, finished_at = now() - interval '1 day', expires_at = now() - interval '2 hours'")
		}, nil},
		{"a long transaction", "transaction-long", func(t *testing.T, b bed) { hold(t, b.admin, "select 1", "select pg_sleep(0.2)") }, []string{"--long", "150ms"}},
		{"a prepared transaction", "transaction-prepared", func(t *testing.T, b bed) {
			conn := hold(t, b.admin, "create table later ()", "prepare transaction 'forgotten "+b.name+"'", "select pg_sleep(0.2)")
			t.Cleanup(func() {
				_, err := conn.Exec(context.Background(), "rollback prepared 'forgotten "+b.name+"'")
				require.NoError(t, err)
			})
		}, []string{"--long", "150ms"}},
		{"another clock", "clock-skew", func(t *testing.T, b bed) {
			execute(t, b.admin, "create schema skewed", "grant usage on schema skewed to public",
				"create function skewed.clock_timestamp() returns timestamptz language sql as $$ select pg_catalog.clock_timestamp() + interval '3 s' $$",
				"alter database "+b.name+" set search_path = skewed, pg_catalog, public")
		}, nil},
		{"few connections", "connections-low", func(t *testing.T, b bed) {
			execute(t, b.admin, "alter database "+b.name+" connection limit 4")
		}, nil},
		{"an unknown key", "keys-attention", func(t *testing.T, b bed) { unknownKeys(t, b.admin, "k") }, nil},
		{"a stuck saga", "sagas-stuck", func(t *testing.T, b bed) { stuckSagas(t, b.admin, "s") }, nil},
		{"no engine", "sagas-no-engine", func(t *testing.T, b bed) { startedSaga(t, b.admin, "s") }, nil},
		{"a deferred saga", "sagas-deferred,sagas-no-engine", func(t *testing.T, b bed) {
			startedSaga(t, b.admin, "s")
			execute(t, b.admin, "update saga set engine = 'ffffffff-ffff-ffff-ffff-ffffffffffff'")
		}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := h.bed(t)
			tt.plant(t, b)
			want := []string{}
			if tt.want != "" {
				want = strings.Split(tt.want, ",")
			}
			requireFindings(t, b.service, want, tt.args...)
			if tt.want != "" {
				out := doctor(t, b.service, append(tt.args, "--ignore", tt.want)...)
				require.True(t, out.Healthy)
				require.NotZero(t, out.Ignored)
			}
		})
	}
}

// These are settings of the whole server, changed one after the other. A role that sees no sessions of others is told
// so: a check that cannot run is a finding.
func TestDoctor_ofTheServer(t *testing.T) {
	t.Parallel()
	h := open(t, map[string]string{})
	b := h.bed(t)
	for _, tt := range []struct{ name, value, want string }{
		{"fsync", "off", "fsync-off"},
		{"full_page_writes", "off", "full-page-writes-off"},
		{"autovacuum", "off", "autovacuum-off"},
		{"track_counts", "off", "autovacuum-off"},
		{"synchronous_standby_names", "nobody", "standby-sync-missing"},
	} {
		t.Run(tt.name, func(t *testing.T) { // not parallel: the setting is the server's
			h.alter(t, tt.name, tt.value)
			requireFindings(t, b.service, []string{tt.want})
		})
	}
	t.Run("slot", func(t *testing.T) {
		execute(t, b.admin, "select pg_create_physical_replication_slot('gone', true)")
		requireFindings(t, b.service, []string{"slot-inactive"})
		execute(t, b.admin, "select pg_drop_replication_slot('gone')")
	})
	t.Run("rights", func(t *testing.T) {
		execute(t, b.admin, "revoke pg_monitor from orders")
		requireFindings(t, b.service, []string{"unchecked"})
		execute(t, b.admin, "grant pg_monitor to orders")
		requireFindings(t, b.service, []string{})
	})
	t.Run("output", func(t *testing.T) {
		r := on(t, b.service, "doctor").requireCode(t, 0)
		golden(t, "doctor_healthy.txt", r.stdout)
		execute(t, b.admin, "drop index saga_finished", "alter database "+b.name+" set synchronous_commit = off")
		r = on(t, b.service, "doctor").requireCode(t, 1)
		golden(t, "doctor.txt", r.stdout)
		require.Empty(t, r.stderr)
	})
}

func TestDoctor_ofStandbys(t *testing.T) {
	t.Parallel()
	h := open(t, map[string]string{"max_wal_size": "1GB"})
	b := h.bed(t)
	standby, err := h.cluster.StartStandby(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, standby.Stop()) }()
	requireFindings(t, b.service, []string{})

	execute(t, b.admin, "alter database "+b.name+" set synchronous_commit = local")
	requireFindings(t, b.service, []string{"synchronous-commit-local"})
	execute(t, b.admin, "alter database "+b.name+" reset synchronous_commit")

	execute(t, b.admin, "alter system set synchronous_standby_names = ''", "select pg_reload_conf()")
	requireFindings(t, b.service, []string{"standby-asynchronous"})

	execute(t, standby.URL(""), "select pg_wal_replay_pause()")
	execute(t, b.admin, "select pg_logical_emit_message(false, 'fill', repeat('x', 70000000))", "select pg_switch_wal()")
	requireFindings(t, b.service, []string{"standby-asynchronous", "standby-lagging"})
	execute(t, standby.URL(""), "select pg_wal_replay_resume()")
	requireFindings(t, standby.URL(b.name), []string{"standby-server"}, "--role", "orders")
}

// The server's oldest row is old, and an open transaction keeps vacuum from it. Few connections are left.
func TestDoctor_ofExhaustion(t *testing.T) {
	t.Parallel()
	h := open(t, map[string]string{"autovacuum_freeze_max_age": "100000", "max_connections": "20"})
	b := h.bed(t)
	requireFindings(t, b.service, []string{})
	var held []*pgx.Conn
	for range 15 {
		held = append(held, dial(t, b.admin))
	}
	requireFindings(t, b.service, []string{"connections-low"})
	for _, conn := range held {
		require.NoError(t, conn.Close(t.Context()))
	}
	requireFindings(t, b.service, []string{})

	hold(t, b.admin, "select pg_current_xact_id()")
	execute(t, b.admin, "create temp table burnt (); do $$ begin for i in 1..160000 loop begin insert into burnt default values; "+
		"exception when others then raise; end; end loop; end $$")
	requireFindings(t, b.service, []string{"wraparound"})
}

func TestDoctor_ofPooler(t *testing.T) {
	t.Parallel()
	direct := pgtest.URL(t)
	on(t, direct, "migrate", "up", "--component", "keys").requireCode(t, 0)
	require.NotContains(t, doctor(t, direct).ids(), "pooler-transaction")
	require.Contains(t, doctor(t, pgtest.PooledURL(t, direct)).ids(), "pooler-transaction")
}

func TestDoctor_list(t *testing.T) {
	t.Parallel()
	list := parse[[]struct{ ID, Severity, Why string }](t, fanonce(t, "doctor", "--list", "--json").requireCode(t, 0))
	require.Greater(t, len(list), 30)
	text := fanonce(t, "doctor", "--list").requireCode(t, 0).stdout
	for _, one := range list {
		require.Contains(t, text, one.ID)
	}
}
