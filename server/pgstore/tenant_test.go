package pgstore_test

import (
	"context"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net/http"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/pgtest"
	"github.com/fanonce/fanonce/server/store"
)

// A tenancy is a database with a tenant: a schema, with a table idempotency of its own, and a role that may write the
// tenant's table and nothing else.
type tenancy struct {
	look *pgxpool.Pool
	role string
}

func newTenancy(t *testing.T) tenancy {
	t.Helper()
	b := random()
	y := tenancy{pgtest.NewPool(t, pgstore.Migrate), "tenant_" + hex.EncodeToString(b[:6])}
	exec(t, y.look, "create role "+y.role)
	t.Cleanup(func() {
		_, err := y.look.Exec(context.Background(), "drop owned by "+y.role+" cascade; drop role "+y.role) // t's ctx is done
		require.NoError(t, err)
	})
	exec(t, y.look, "create schema tenant; create table tenant.orders (by text default current_user, path text default current_setting('search_path'))")
	exec(t, y.look, "create table tenant.idempotency (like idempotency including all)")
	exec(t, y.look, "grant usage on schema tenant to "+y.role+"; grant select, insert on tenant.orders to "+y.role)
	return y
}

// settings are what a handler sets for its transaction, and the order that it makes then.
func (y tenancy) settings() map[string][]string {
	return map[string][]string{
		"search_path":       {"set local search_path to tenant", "insert into orders default values"},
		"empty search_path": {"select set_config('search_path', '', true)", "insert into tenant.orders default values"},
		"role":              {"set local role " + y.role, "insert into tenant.orders default values"},
		"both":              {"set local search_path to tenant", "set local role " + y.role, "insert into orders default values"},
		"both, and back":    {"set local search_path to tenant", "set local role " + y.role, "insert into orders default values", "reset role", "set local search_path to default"},
	}
}

// stores are the stores of the ways in which a service makes one.
func (y tenancy) stores(t *testing.T) map[string]*pgstore.Store {
	t.Helper()
	cfg := y.look.Config()
	pgstore.Prepare(cfg)
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	made, err := pgstore.New(pool, pgstore.Config{AllowNonDurable: true})
	require.NoError(t, err)
	t.Cleanup(made.Close)
	return map[string]*pgstore.Store{
		"Open": openOn(t, y.look, pgstore.Config{}), "New": made,
		"Open with a Schema": openOn(t, y.look, pgstore.Config{Schema: "public"}),
		"partitions":         openOn(t, y.look, pgstore.Config{Answers: pgstore.AnswersPartitioned}),
	}
}

func sendAll(ctx context.Context, statements []string) {
	for _, sql := range statements {
		_, err := pgstore.Tx(ctx).Exec(ctx, sql)
		must(err)
	}
}

// A handler chooses the schema and the role of its tenant. The settlement finds and writes the guard's tables all the
// same, and not those of the tenant.
func TestTenant_runIsSettled(t *testing.T) {
	t.Parallel()
	y := newTenancy(t)
	for name, s := range y.stores(t) {
		g, err := server.NewGuard(s, server.Unscoped, server.Config{Namespace: "n"})
		require.NoError(t, err)
		second := 0 // of all runs on s: the store knows after the first role without rights
		for set, statements := range y.settings() {
			for _, end := range []string{"answer", "dead letter"} {
				t.Run(fmt.Sprint(name, "/", set, "/", end), func(t *testing.T) {
					runs := 0
					h := routeOn(t, g, server.Route{Effect: server.Transactional}, func(w http.ResponseWriter, r *http.Request) {
						runs++
						sendAll(r.Context(), statements)
						if end == "dead letter" {
							must(server.Settle(r.Context(), server.DeadLetter()))
						}
						fmt.Fprint(w, "ordered")
					})
					b := random()
					for range 2 {
						w := postTo(h, hex.EncodeToString(b[:]))
						require.Equal(t, "200 ordered", fmt.Sprint(w.Code, " ", w.Body))
					}
					second += runs - 1
				})
			}
		}
		require.Equal(t, 1, second, name)
	}
	require.Equal(t, 2*4*5, queryRow[int](t, y.look, "select count(*) from tenant.orders"))
	require.Equal(t, 4*5, queryRow[int](t, y.look, "select count(*) from idempotency_attention"))
	require.Zero(t, queryRow[int](t, y.look, "select count(*) from tenant.idempotency"))
}

// What a handler defers to COMMIT runs with the handler's settings, not with the pool's.
func TestTenant_deferredTriggersRunAsTheHandler(t *testing.T) {
	t.Parallel()
	y := newTenancy(t)
	exec(t, y.look, "create table seen (role text, path text); grant insert on seen to public")
	exec(t, y.look, `create function see() returns trigger language plpgsql as
		$$ begin insert into public.seen values (current_user, current_setting('search_path')); return null; end $$`)
	exec(t, y.look, "create constraint trigger late after insert on tenant.orders deferrable initially deferred for each row execute function see()")
	for name, s := range y.stores(t) {
		g, err := server.NewGuard(s, server.Unscoped, server.Config{Namespace: "n"})
		require.NoError(t, err)
		h := routeOn(t, g, server.Route{Effect: server.Transactional}, func(_ http.ResponseWriter, r *http.Request) {
			sendAll(r.Context(), y.settings()["both"])
		})
		b := random()
		require.Equal(t, http.StatusOK, postTo(h, hex.EncodeToString(b[:])).Code, name)
		require.Equal(t, y.role+" tenant", queryRow[string](t, y.look, "select string_agg(role || ' ' || path, ',') from seen"), name)
		exec(t, y.look, "delete from seen")
	}
}

// An undo asks for the fate of the forward call in the middle of its transaction, and goes on as the tenant.
func TestTenant_undo(t *testing.T) {
	t.Parallel()
	y := newTenancy(t)
	for name, s := range y.stores(t) {
		g, err := server.NewGuard(s, server.Unscoped, server.Config{Namespace: "n"})
		require.NoError(t, err)
		for set, statements := range y.settings() {
			b := random()
			forward := hex.EncodeToString(b[:])
			h := routeOn(t, g, server.Route{Effect: server.Transactional}, func(w http.ResponseWriter, r *http.Request) {
				sendAll(r.Context(), statements)
				const settings = "select current_user || ' ' || current_setting('search_path') || ' ' || current_setting('lock_timeout')"
				var before, after string
				must(pgstore.Tx(r.Context()).QueryRow(r.Context(), settings).Scan(&before))
				fate, err := server.Barrier(r.Context())
				must(err, pgstore.Tx(r.Context()).QueryRow(r.Context(), settings).Scan(&after))
				if before != after {
					t.Errorf("Barrier left %q as %q", before, after)
				}
				fmt.Fprint(w, fate)
			})
			w := postTo(h, "undo-"+forward, wire.HeaderCancels, forward)
			require.Equal(t, "200 never ran", fmt.Sprint(w.Code, " ", w.Body), "%s, %s", name, set)
			w = postTo(h, forward)
			requireCode(t, w, wire.KeyCancelled, "%s, %s", name, set)
		}
	}
	require.Zero(t, queryRow[int](t, y.look, "select count(*) from tenant.idempotency"))
}

// A pool that chooses the tenant's schema for each use of a connection does not lead the store to other tables.
func TestTenant_poolWithASearchPathOfEachUse(t *testing.T) {
	t.Parallel()
	y := newTenancy(t)
	chosen := false
	s := openOn(t, y.look, pgstore.Config{}, func(cfg *pgxpool.Config) {
		cfg.PrepareConn = func(ctx context.Context, conn *pgx.Conn) (bool, error) {
			if !chosen {
				return true, nil
			}
			_, err := conn.Exec(ctx, "set search_path to tenant")
			return err == nil, err
		}
	})
	chosen = true
	o := claim(t, s)
	tx, ctx := begin(t, s)
	_, err := pgstore.Tx(ctx).Exec(ctx, "insert into orders default values")
	require.NoError(t, err)
	require.NoError(t, tx.Settle(t.Context(), o, completion))
	require.Equal(t, store.StateCompleted, read(t, s, o.ID).State)
	_, err = s.Sweep(t.Context(), 10)
	require.NoError(t, err)
	_, err = s.Stats(t.Context())
	require.NoError(t, err)
	_, err = s.Reader().List(t.Context(), store.ListRequest{DeadLetters: true, Limit: 1})
	require.NoError(t, err)
	require.Equal(t, 1, queryRow[int](t, y.look, "select count(*) from idempotency"))
	require.Zero(t, queryRow[int](t, y.look, "select count(*) from tenant.idempotency"))
}

// Where the pool's own role cannot come back, the answer says what to do, and that no retry helps.
func TestTenant_settlementWithoutRights(t *testing.T) {
	t.Parallel()
	y := newTenancy(t)
	s := openOn(t, y.look, pgstore.Config{})
	out := new(logOutput)
	g, err := server.NewGuard(s, server.Unscoped, server.Config{Logger: slog.New(slog.NewJSONHandler(out, nil))})
	require.NoError(t, err)
	h := routeOn(t, g, server.Route{Effect: server.Transactional}, func(_ http.ResponseWriter, r *http.Request) {
		sendAll(r.Context(), []string{"set local session authorization " + y.role, "insert into tenant.orders default values"})
	})
	requireCode(t, postTo(h, "k"), wire.TransactionFailed)
	require.Contains(t, out.String(), "reset role")
	require.Zero(t, queryRow[int](t, y.look, "select count(*) from tenant.orders"))
}
