package pgstore_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/pgtest"
)

// Users choose the exec mode that their pooler can take; each sends arguments
// in another way. Every operation sends what it sends at least once.
func TestStore_execModes(t *testing.T) {
	t.Parallel()
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec,
	} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			s, _ := open(t, pgstore.Config{ConfirmReplays: pgstore.ConfirmAlways}, func(cfg *pgxpool.Config) {
				cfg.ConnConfig.DefaultQueryExecMode = mode
			})
			everyOperation(t, s)
		})
	}
}

func everyOperation(t *testing.T, s *pgstore.Store) {
	t.Helper()
	ctx := t.Context()
	req := newClaim()
	req.FirstSent, req.Window = time.Now().Add(-time.Minute), time.Hour
	o := claimAs(t, s, req)
	stranger := server.Owner{ID: random(), Token: random(), Fence: 1}
	got, err := s.Renew(ctx, []server.Owner{o, stranger}, time.Minute)
	require.NoError(t, err)
	require.Equal(t, server.Renewal{Renewed: []server.Owner{o}, Lost: []server.Owner{stranger}}, got)
	require.NoError(t, s.Settle(ctx, o, completion))
	require.NoError(t, s.Settle(ctx, o, completion))
	r, won, err := s.Claim(ctx, claimOf(o.ID))
	require.NoError(t, err)
	require.False(t, won)
	require.Equal(t, completion.Answer, r.Answer)
	require.WithinDuration(t, req.FirstSent, r.FirstSent, time.Microsecond)

	old := newClaim()
	old.FirstSent, old.Window = time.Now().Add(-time.Hour), time.Minute
	_, _, err = s.Claim(ctx, old)
	require.ErrorIs(t, err, server.ErrExpired)

	o = claim(t, s)
	require.NoError(t, s.Settle(ctx, o, server.Settlement{State: server.StateReleased, MaybeRan: true}))
	r, won, err = s.TakeOver(ctx, claimOf(o.ID), 1)
	require.NoError(t, err)
	require.True(t, won)
	_, buried, err := s.Bury(ctx, server.BuryRequest{ID: o.ID, From: r.Fence, To: server.StatePoisoned})
	require.NoError(t, err)
	require.False(t, buried, "its lease is not over")

	o = claim(t, s)
	tx, txCtx := begin(t, s)
	_, existed, err := tx.Cancel(txCtx, server.CancelRequest{ID: r.ID, Token: random(), Keep: time.Hour})
	require.NoError(t, err)
	require.True(t, existed)
	_, existed, err = tx.Cancel(txCtx, server.CancelRequest{ID: random(), Token: random(), Keep: time.Hour})
	require.NoError(t, err)
	require.False(t, existed)
	require.NoError(t, tx.Settle(ctx, o, completion))
	tx, _ = begin(t, s)
	require.ErrorIs(t, tx.Settle(ctx, o, completion), server.ErrLeaseLost)

	n, err := s.Sweep(ctx, 10)
	require.NoError(t, err)
	require.Zero(t, n)
	stats, err := s.Stats(ctx)
	require.NoError(t, err)
	require.EqualValues(t, 2, stats.ByState[server.StateCompleted])
	require.Positive(t, stats.Bytes)
}

// A standby that is listed first, or a host that is gone, is passed over.
func TestOpen_severalHosts(t *testing.T) {
	t.Parallel()
	look := pgtest.NewPool(t, pgstore.Migrate)
	at := look.Config().ConnConfig
	cfg, err := pgxpool.ParseConfig(look.Config().ConnString())
	require.NoError(t, err)
	several, err := pgxpool.ParseConfig("postgres://127.0.0.1:1,127.0.0.1:2/x?target_session_attrs=read-write")
	require.NoError(t, err)
	cfg.ConnConfig.Port = 1 // nobody listens there
	cfg.ConnConfig.ValidateConnect = several.ConnConfig.ValidateConnect
	next := *several.ConnConfig.Fallbacks[0]
	next.Host, next.Port = at.Host, at.Port
	cfg.ConnConfig.Fallbacks = append(cfg.ConnConfig.Fallbacks[:0], &next)
	s, err := pgstore.Open(t.Context(), cfg, pgstore.Config{AllowNonDurable: true})
	require.NoError(t, err)
	defer s.Close()
	claim(t, s)
}
