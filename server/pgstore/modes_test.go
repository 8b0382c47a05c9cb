package pgstore_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/pgtest"
	"github.com/fanonce/fanonce/server/store"
)

// Users choose the exec mode that their pooler supports. Each mode sends
// arguments in another way. The test sends every statement of every operation
// at least once.
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
	stranger := store.Owner{ID: random(), Token: random(), Fence: 1}
	got, err := s.Renew(ctx, []store.Owner{o, stranger}, time.Minute)
	require.NoError(t, err)
	require.Equal(t, store.Renewal{Renewed: []store.Owner{o}, Lost: []store.Owner{stranger}}, got)
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
	require.ErrorIs(t, err, store.ErrExpired)

	o = claim(t, s)
	require.NoError(t, s.Settle(ctx, o, store.Settlement{State: store.StateReleased, MaybeRan: true}))
	r, won, err = s.TakeOver(ctx, claimOf(o.ID), 1)
	require.NoError(t, err)
	require.True(t, won)
	_, quarantined, err := s.Quarantine(ctx, store.QuarantineRequest{ID: o.ID, From: r.Fence, To: store.StateQuarantined})
	require.NoError(t, err)
	require.False(t, quarantined, "its lease is not over")

	o = claim(t, s)
	tx, txCtx := begin(t, s)
	_, existed, err := tx.Cancel(txCtx, store.CancelRequest{ID: r.ID, Token: random(), Keep: time.Hour})
	require.NoError(t, err)
	require.True(t, existed)
	_, existed, err = tx.Cancel(txCtx, store.CancelRequest{ID: random(), Token: random(), Keep: time.Hour})
	require.NoError(t, err)
	require.False(t, existed)
	require.NoError(t, tx.Settle(ctx, o, completion))
	tx, _ = begin(t, s)
	require.ErrorIs(t, tx.Settle(ctx, o, completion), store.ErrLeaseLost)

	n, err := s.Sweep(ctx, 10)
	require.NoError(t, err)
	require.Zero(t, n)
	stats, err := s.Stats(ctx)
	require.NoError(t, err)
	require.EqualValues(t, 2, stats.ByState[store.StateCompleted])
	require.Positive(t, stats.Bytes)
}

// The store skips a standby that is listed first, and a host that is gone.
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
