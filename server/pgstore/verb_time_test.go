package pgstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/internal/pgkit"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/store"
)

// The server itself ends a verb of an operator that takes too long. It says that nothing changed, before the end of ctx
// leaves the fate unknown. A process that died meanwhile would leave no statement behind.
func TestVerbs_statementTimeout(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		cfg  pgstore.Config
		verb func(ctx context.Context, s *pgstore.Store, o store.Owner) error
	}{
		{"resolve", pgstore.Config{}, func(ctx context.Context, s *pgstore.Store, o store.Owner) error {
			_, _, err := s.Resolve(ctx, store.ResolveRequest{ID: o.ID, From: o.Fence, To: store.StateReleased, Token: random(), By: byAnn(store.VerbResolve)})
			return err
		}},
		{"forget", pgstore.Config{}, forgets},
		{"forget with partitions", pgstore.Config{Answers: pgstore.AnswersPartitioned}, forgets},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, look := open(t, tt.cfg)
			o := claim(t, s)
			require.NoError(t, s.Settle(t.Context(), o, givenUp))
			exec(t, look, "create function nap() returns trigger language plpgsql as $$ begin perform pg_sleep(60); return new; end $$")
			exec(t, look, "create trigger nap before insert on idempotency_audit for each row execute function nap()")
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			err := tt.verb(ctx, s, o)
			require.ErrorIs(t, err, pgkit.ErrTooSlow)
			require.NotErrorIs(t, err, store.ErrFateUnknown)
			require.NoError(t, ctx.Err(), "the server ends the statement, not the caller")
			require.Zero(t, queryRow[int](t, look, "select count(*) from pg_stat_activity where wait_event = 'PgSleep' and datname = current_database()"))
			exec(t, look, "drop trigger nap on idempotency_audit")
			require.Equal(t, store.StateUnknown, read(t, s, o.ID).State)
			require.NoError(t, tt.verb(t.Context(), s, o))
		})
	}
}

func byAnn(verb store.Verb) store.Audit {
	return store.Audit{Verb: verb, Actor: "ann", Reason: "a test"}
}

func forgets(ctx context.Context, s *pgstore.Store, o store.Owner) error {
	_, _, err := s.Forget(ctx, o.ID, o.Fence, byAnn(store.VerbForget))
	return err
}
