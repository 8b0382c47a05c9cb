package pgstore_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/pgtest"
)

// The URL lists the standby first. A store finds the primary behind it, and a service has its effects there. A store
// that accepts any host, or that knows the standby alone, does not open.
func TestOpen_standbyListedFirst(t *testing.T) {
	t.Parallel()
	primary, standby, _ := replicated(t)
	url, err := pgtest.FailoverURL("shop", standby, primary)
	require.NoError(t, err)
	cfg, err := pgxpool.ParseConfig(url)
	require.NoError(t, err)
	look, err := pgxpool.NewWithConfig(t.Context(), cfg.Copy())
	require.NoError(t, err)
	t.Cleanup(look.Close)
	require.NoError(t, pgstore.Migrate(t.Context(), look, ""))
	exec(t, look, "create table effect (what text)")
	s, err := pgstore.Open(t.Context(), cfg, pgstore.Config{AllowNonDurable: true})
	require.NoError(t, err)
	t.Cleanup(s.Close)
	c := newCallee(t, s, server.Config{}, func(*http.Request) {})
	require.Equal(t, http.StatusCreated, c.post(t.Context(), "order-1").status)
	require.True(t, c.post(t.Context(), "order-1").replayed)
	require.Equal(t, 1, queryRow[int](t, look, "select count(*) from effect"))

	opens := func(ctx context.Context, url string) error {
		cfg, err := pgxpool.ParseConfig(url)
		require.NoError(t, err)
		s, err := pgstore.Open(ctx, cfg, pgstore.Config{AllowNonDurable: true})
		if err == nil {
			s.Close()
		}
		return err
	}
	any, err := pgxpool.ParseConfig(url)
	require.NoError(t, err)
	any.ConnConfig.ValidateConnect = nil // as without target_session_attrs
	_, err = pgstore.Open(t.Context(), any, pgstore.Config{AllowNonDurable: true})
	require.ErrorIs(t, err, pgstore.ErrReadOnly)
	require.ErrorIs(t, opens(t.Context(), standby.URL("shop")), pgstore.ErrReadOnly)
	require.NoError(t, opens(t.Context(), primary.URL("shop")))
}
