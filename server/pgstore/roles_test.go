package pgstore_test

import (
	"context"
	"encoding/hex"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/internal/pgkit/component"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/pgtest"
)

const rolePassword = "of-a-test"

// roles makes roles of tb's own: they belong to the cluster, not to a database.
func roles(tb testing.TB, look *pgxpool.Pool) pgstore.Roles {
	tb.Helper()
	b := random()
	suffix := hex.EncodeToString(b[:6])
	r := pgstore.Roles{Owner: "owner_" + suffix, Runtime: "runtime_" + suffix, Observer: "observer_" + suffix}
	for range 2 { // it can be run again
		require.NoError(tb, r.Grant(tb.Context(), look))
	}
	names := []string{r.Owner, r.Runtime, r.Observer}
	for _, name := range names {
		exec(tb, look, "alter role "+name+" login password '"+rolePassword+"'")
	}
	tb.Cleanup(func() {
		for _, name := range names {
			_, err := look.Exec(context.Background(), "drop owned by "+name+" cascade; drop role "+name) // tb's ctx is done
			require.NoError(tb, err)
		}
	})
	return r
}

// as makes a pool's connections those of a role.
func as(role string) func(*pgxpool.Config) {
	return func(cfg *pgxpool.Config) { cfg.ConnConfig.User, cfg.ConnConfig.Password = role, rolePassword }
}

// A role that cannot write gets the error from Open, and not from each call.
func TestOpen_asObserver(t *testing.T) {
	t.Parallel()
	look := pgtest.NewPool(t, pgstore.Migrate)
	observer := roles(t, look).Observer
	cfg := look.Config()
	as(observer)(cfg)
	_, err := pgstore.Open(t.Context(), cfg, pgstore.Config{AllowNonDurable: true})
	var missing *component.PrivilegeError
	require.ErrorAs(t, err, &missing)
	require.Equal(t, observer, missing.Role)
}

// No role has further rights, and an observer sees less than the other roles.
func TestRoles_refuse(t *testing.T) {
	t.Parallel()
	s, look := open(t, pgstore.Config{})
	r := roles(t, look)
	require.NoError(t, s.Settle(t.Context(), claim(t, s), completion))
	pools := make(map[string]*pgxpool.Pool)
	for _, role := range []string{r.Owner, r.Runtime, r.Observer} {
		cfg := look.Config()
		as(role)(cfg)
		pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
		require.NoError(t, err)
		t.Cleanup(pool.Close)
		pools[role] = pool
	}
	const allowed, denied = "", "42501"
	for _, tt := range []struct{ statement, runtime, observer string }{
		{"select count(*) from idempotency", allowed, allowed},
		{"select key, state, created_at, status, route from idempotency", allowed, allowed},
		{"select envelope from idempotency", allowed, denied},
		{"select memo from idempotency", allowed, denied},
		{"select fingerprint from idempotency", allowed, denied},
		{"select token from idempotency", allowed, denied},
		{"select * from idempotency", allowed, denied},
		{"select version from idempotency_version", allowed, allowed},
		{"select * from idempotency_audit", allowed, allowed},
		{"update idempotency set lease_until = now() where false", allowed, denied},
		{"update idempotency set waiters = true where false", allowed, denied},
		{"update idempotency set parent = null where false", denied, denied},
		{"update idempotency set created_at = now() where false", denied, denied},
		{"update idempotency set key = key where false", denied, denied},
		{"delete from idempotency where false", allowed, denied},
		{"insert into idempotency_audit (key, verb, actor, reason, from_state, to_state, fence) select key, '', '', '', 0, 0, 0 from idempotency where false", allowed, denied},
		{"update idempotency_audit set actor = 'nobody' where false", denied, denied},
		{"delete from idempotency_audit where false", denied, denied},
		{"insert into idempotency_version values (9)", denied, denied},
		{"select parts, began_at, done_at from idempotency_intent", allowed, allowed},
		{"select key from idempotency_intent", allowed, denied},
		{"update idempotency_intent set began_at = now() where false", denied, denied},
		{"update idempotency_intent set done_at = now() where false", allowed, denied},
		{"truncate idempotency", denied, denied},
		{"drop table idempotency", denied, denied},
		{"alter table idempotency add column x int", denied, denied},
		{"create index on idempotency (state)", denied, denied},
	} {
		for role, want := range map[string]string{r.Runtime: tt.runtime, r.Observer: tt.observer} {
			_, err := pools[role].Exec(t.Context(), tt.statement)
			var pgErr *pgconn.PgError
			switch {
			case want == allowed:
				require.NoError(t, err, "%s: %s", role, tt.statement)
			case !errors.As(err, &pgErr) || pgErr.Code != want:
				t.Errorf("%s: %s: error = %v, want %s", role, tt.statement, err, want)
			}
		}
	}
	require.NoError(t, pgstore.Migrate(t.Context(), pools[r.Owner], ""), "the owner migrates")
	_, err := pools[r.Owner].Exec(t.Context(), "alter table idempotency add column later int")
	require.NoError(t, err)
}

func TestRoles_names(t *testing.T) {
	t.Parallel()
	for _, r := range []pgstore.Roles{
		{Owner: "x; drop table y"},
		{Runtime: "X"},
		{Observer: "pg_read_all_data"},
		{Owner: "same", Runtime: "same"},
		{Runtime: "public"},
	} {
		_, err := r.SQL()
		require.ErrorIs(t, err, pgstore.ErrConfig)
		require.ErrorIs(t, r.Grant(t.Context(), nil), pgstore.ErrConfig)
	}
	require.ErrorIs(t, pgstore.Roles{Schema: "a, b"}.Grant(t.Context(), nil), pgstore.ErrConfig)
	text, err := pgstore.Roles{}.SQL()
	require.NoError(t, err)
	require.Equal(t, pgstore.RolesSQL, text)
}

// Each role gets its own rights under any name. The name can be that of another role or a reserved word of SQL.
func TestRoles_anyNames(t *testing.T) { // roles belong to a cluster
	t.Parallel()
	cluster, err := pgtest.Start(t.Context(), pgtest.Config{Private: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cluster.Stop()) })
	look, err := pgxpool.New(t.Context(), cluster.URL("postgres"))
	require.NoError(t, err)
	t.Cleanup(look.Close)
	require.NoError(t, pgstore.Migrate(t.Context(), look, ""))
	for _, r := range []pgstore.Roles{
		{Owner: "fanonce_runtime", Runtime: "fanonce_owner", Observer: "fanonce_observer"},
		{Owner: "my_fanonce_runtime", Runtime: "svc", Observer: "my_fanonce_owner"},
		{Owner: "user", Runtime: "order", Observer: "end"},
		{Owner: "current_user", Runtime: "session_user", Observer: "default"},
	} {
		require.NoError(t, r.Grant(t.Context(), look), "%+v", r)
		require.Equal(t, r.Owner, queryRow[string](t, look, "select tableowner::text from pg_tables where tablename = 'idempotency'"))
		for role, want := range map[string]bool{r.Runtime: true, r.Observer: false} {
			require.Equal(t, want, queryRow[bool](t, look, "select has_table_privilege($1::name, 'idempotency', 'insert')", role), role)
			require.False(t, queryRow[bool](t, look, "select has_table_privilege($1::name, 'idempotency', 'truncate')", role), role)
		}
	}
}
