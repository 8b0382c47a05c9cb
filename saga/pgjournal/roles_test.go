package pgjournal_test

import (
	"context"
	"encoding/hex"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/internal/pgkit/component"
	"github.com/fanonce/fanonce/saga/pgjournal"
	"github.com/fanonce/fanonce/server/pgtest"
)

const rolePassword = "of-a-test"

// roles makes roles of tb's own: they belong to the cluster, not to a database.
func roles(tb testing.TB, look *pgxpool.Pool) pgjournal.Roles {
	tb.Helper()
	b := newEngine()
	suffix := hex.EncodeToString(b[:6])
	r := pgjournal.Roles{Owner: "owner_" + suffix, Runtime: "runtime_" + suffix, Observer: "observer_" + suffix}
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

// Open refuses a role that cannot write, so that not each call fails.
func TestOpen_asObserver(t *testing.T) {
	t.Parallel()
	look := pgtest.NewPool(t, pgjournal.Migrate)
	observer := roles(t, look).Observer
	cfg := look.Config()
	as(observer)(cfg)
	_, err := pgjournal.Open(t.Context(), cfg, pgjournal.Config{AllowNonDurable: true})
	var missing *component.PrivilegeError
	require.ErrorAs(t, err, &missing)
	require.Equal(t, observer, missing.Role)
}

// The runtime role lacks all other rights. The observer role sees less.
func TestRoles_refuse(t *testing.T) {
	t.Parallel()
	_, look := open(t, pgjournal.Config{})
	r := roles(t, look)
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
		{"select count(*) from saga", allowed, allowed},
		{"select id, name, status, engine, created_at, recovery_attempts, finished_at from saga", allowed, allowed},
		{"select key from saga", allowed, denied},
		{"select scope from saga", allowed, denied},
		{"select input from saga", allowed, denied},
		{"select input_hash from saga", allowed, denied},
		{"select entries from saga", allowed, denied},
		{"select result from saga", allowed, denied},
		{"select cause, stuck_on from saga", allowed, denied},
		{"select result from saga_result", allowed, denied},
		{"select * from saga_engine", allowed, allowed},
		{"select * from saga_plan", allowed, allowed},
		{"select * from saga_audit", allowed, allowed},
		{"select version from saga_version", allowed, allowed},
		{"update saga set revision = 1 where false", allowed, denied},
		{"update saga set plan = plan, version = version where false", allowed, denied},
		{"update saga set key = key where false", denied, denied},
		{"update saga set input = input where false", denied, denied},
		{"update saga set created_at = clock_timestamp() where false", denied, denied},
		{"delete from saga where false", allowed, denied},
		{"update saga_result set result = '' where false", denied, denied},
		{"select output, refusal, key from saga_local", allowed, denied},
		{"update saga_local set undone = true, output = '' where false", allowed, denied},
		{"update saga_local set refusal = '' where false", denied, denied},
		{"select name, value from saga_signal", allowed, denied},
		{"update saga_signal set woken = true, check_at = clock_timestamp() where false", allowed, denied},
		{"update saga_signal set value = '' where false", denied, denied},
		{"delete from saga_signal where false", allowed, denied},
		{"update saga_engine set lease_until = clock_timestamp() where false", allowed, denied},
		{"update saga_plan set hash = '' where false", denied, denied},
		{"delete from saga_plan where false", denied, denied},
		{"update saga_audit set actor = 'nobody' where false", denied, denied},
		{"delete from saga_audit where false", denied, denied},
		{"insert into saga_version values (9)", denied, denied},
		{"truncate saga", denied, denied},
		{"drop table saga", denied, denied},
		{"alter table saga add column x int", denied, denied},
		{"create index on saga (status)", denied, denied},
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
	require.NoError(t, pgjournal.Migrate(t.Context(), pools[r.Owner], ""), "the owner migrates")
	_, err := pools[r.Owner].Exec(t.Context(), "alter table saga add column later int")
	require.NoError(t, err)
}

func TestRoles_names(t *testing.T) {
	t.Parallel()
	for _, r := range []pgjournal.Roles{
		{Owner: "x; drop table y"},
		{Runtime: "X"},
		{Observer: "pg_read_all_data"},
		{Owner: "same", Runtime: "same"},
	} {
		_, err := r.SQL()
		require.ErrorIs(t, err, pgjournal.ErrConfig)
		require.ErrorIs(t, r.Grant(t.Context(), nil), pgjournal.ErrConfig)
	}
	text, err := pgjournal.Roles{}.SQL()
	require.NoError(t, err)
	require.Equal(t, pgjournal.RolesSQL, text)
}
