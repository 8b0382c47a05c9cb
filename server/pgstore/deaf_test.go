package pgstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/store"
)

// Only a warning about a standby makes a commit unknown; other warnings do not.
func TestHearing_otherWarnings(t *testing.T) {
	t.Parallel()
	s, look := open(t, pgstore.Config{})
	exec(t, look, "create table effect (what text)")
	exec(t, look, `create function ours() returns void language plpgsql as $$ begin raise warning 'mine' using errcode = '01000'; end $$`)
	for name, query := range map[string]string{
		"raised":        "select ours()",
		"advisory_lock": "select pg_advisory_unlock(42)",
		"cancel":        "select pg_cancel_backend(2147483647)",
		"terminate":     "select pg_terminate_backend(2147483647)",
		"set_local":     "set local lock_timeout = '1s'",
	} {
		t.Run(name, func(t *testing.T) {
			batch := new(pgx.Batch)
			batch.Queue("insert into effect values ($1)", name)
			batch.Queue(query)
			first, err := s.SendOnce(t.Context(), invoice(t, name, "p"), batch)
			require.NoError(t, err)
			require.True(t, first)
			require.True(t, queryRow[bool](t, look, "select exists (select from effect where what = $1)", name))
		})
	}
}

// deaf gives each connection settings under which the server sends no warnings.
func deaf(cfg *pgxpool.Config) {
	cfg.MaxConns = 1
	cfg.ConnConfig.RuntimeParams["synchronous_commit"] = "on"
	cfg.ConnConfig.RuntimeParams["client_min_messages"] = "error"
}

// The warning that no standby confirmed a commit is the only sign of it. So every write receives it, whatever message
// level the connection had before.
func TestHearing_everyWrite(t *testing.T) {
	t.Parallel()
	look := ghostly(t)
	exec(t, look, "create table effect (what text)")
	local := openOn(t, look, pgstore.Config{ConfirmReplays: pgstore.ConfirmNever})
	inState := func(state store.State) store.Owner {
		o := claim(t, local)
		exec(t, look, "update idempotency set state = $2, lease_until = clock_timestamp(), expires_at = clock_timestamp() where key = $1", [16]byte(o.ID), int16(state))
		return o
	}
	by := store.Audit{Verb: store.VerbForget, Actor: "a", Reason: "r"}
	for name, prepare := range map[string]func() func(ctx context.Context, s *pgstore.Store) error{
		"claim": func() func(context.Context, *pgstore.Store) error {
			return func(ctx context.Context, s *pgstore.Store) error { _, _, err := s.Claim(ctx, newClaim()); return err }
		},
		"settle": func() func(context.Context, *pgstore.Store) error {
			o := claim(t, local)
			return func(ctx context.Context, s *pgstore.Store) error { return s.Settle(ctx, o, completion) }
		},
		"take over": func() func(context.Context, *pgstore.Store) error {
			o := inState(store.StateReleased)
			return func(ctx context.Context, s *pgstore.Store) error {
				_, _, err := s.TakeOver(ctx, claimOf(o.ID), o.Fence)
				return err
			}
		},
		"quarantine": func() func(context.Context, *pgstore.Store) error {
			o := inState(store.StateInProgress)
			return func(ctx context.Context, s *pgstore.Store) error {
				_, _, err := s.Quarantine(ctx, store.QuarantineRequest{ID: o.ID, From: o.Fence, To: store.StateQuarantined})
				return err
			}
		},
		"renew": func() func(context.Context, *pgstore.Store) error {
			o := claim(t, local)
			return func(ctx context.Context, s *pgstore.Store) error {
				_, err := s.Renew(ctx, []store.Owner{o}, time.Hour)
				return err
			}
		},
		"cancel": func() func(context.Context, *pgstore.Store) error {
			return func(ctx context.Context, s *pgstore.Store) error {
				_, _, err := s.Cancel(ctx, store.CancelRequest{ID: random(), Token: random(), Keep: time.Hour})
				return err
			}
		},
		"resolve": func() func(context.Context, *pgstore.Store) error {
			o := inState(store.StateUnknown)
			return func(ctx context.Context, s *pgstore.Store) error {
				_, _, err := s.Resolve(ctx, store.ResolveRequest{ID: o.ID, From: o.Fence, To: store.StateReleased, Token: random(), By: by})
				return err
			}
		},
		"forget": func() func(context.Context, *pgstore.Store) error {
			o := inState(store.StateReleased)
			return func(ctx context.Context, s *pgstore.Store) error {
				_, _, err := s.Forget(ctx, o.ID, o.Fence, by)
				return err
			}
		},
		"defer": func() func(context.Context, *pgstore.Store) error {
			o := inState(store.StateUnknown)
			return func(ctx context.Context, s *pgstore.Store) error {
				_, err := s.Defer(ctx, o.ID, o.Fence, time.Hour)
				return err
			}
		},
		"confirm": func() func(context.Context, *pgstore.Store) error {
			o := claim(t, local)
			require.NoError(t, local.Settle(t.Context(), o, completion))
			return func(ctx context.Context, s *pgstore.Store) error { _, err := s.Read(ctx, o.ID); return err }
		},
		"settle in a transaction": func() func(context.Context, *pgstore.Store) error {
			o := claim(t, local)
			return func(ctx context.Context, s *pgstore.Store) error {
				tx, err := s.Begin(ctx)
				if err != nil {
					return err
				}
				inside := tx.NewContext(ctx)
				if _, err := pgstore.Tx(inside).Exec(inside, "insert into effect values ('settle')"); err != nil {
					return err
				}
				return tx.Settle(ctx, o, completion)
			}
		},
		"OnceFunc": func() func(context.Context, *pgstore.Store) error {
			return func(ctx context.Context, s *pgstore.Store) error {
				_, err := s.OnceFunc(ctx, invoice(t, "f", "p"), effect)
				return err
			}
		},
		"OnceFunc whose work hears nothing": func() func(context.Context, *pgstore.Store) error {
			return func(ctx context.Context, s *pgstore.Store) error {
				_, err := s.OnceFunc(ctx, invoice(t, "g", "p"), func(ctx context.Context, tx pgx.Tx) error {
					_, err := tx.Exec(ctx, "set local client_min_messages = error")
					return err
				})
				return err
			}
		},
		"SendOnce": func() func(context.Context, *pgstore.Store) error {
			return func(ctx context.Context, s *pgstore.Store) error {
				batch := new(pgx.Batch)
				batch.Queue("set local client_min_messages = error")
				_, err := s.SendOnce(ctx, invoice(t, "s", "p"), batch)
				return err
			}
		},
		"intent": func() func(context.Context, *pgstore.Store) error {
			return func(ctx context.Context, s *pgstore.Store) error {
				_, _, err := s.Intents().Begin(ctx, keyOf(t, "i"), "n", []string{"a"})
				return err
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			write := prepare()
			s := openOn(t, look, pgstore.Config{CloseTimeout: time.Millisecond}, deaf)
			done := inBackground(func() error { return write(t.Context(), s) })
			cancelWait(t, look)
			require.ErrorIs(t, <-done, store.ErrFateUnknown)
			until(t, "nobody waits any more", func() bool { return !waits(t, look, "SyncRep") })
		})
	}
}
