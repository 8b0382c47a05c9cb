package pgjournal_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/internal/pgkit"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/saga/pgjournal"
)

// The server itself ends a change that takes too long. It says that nothing changed, before the end of ctx leaves the fate
// unknown. A process that died meanwhile would leave no statement behind.
func TestChange_statementTimeout(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		change journal.Change
	}{
		{"change", journal.Change{Status: journal.Abandoned, Keep: time.Hour}},
		{"wake", journal.Change{Wake: true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			j, look := open(t, pgjournal.Config{})
			r := start(t, j, beat(t, j, time.Hour))
			exec(t, look, "create function nap() returns trigger language plpgsql as $$ begin perform pg_sleep(60); return new; end $$")
			exec(t, look, "create trigger nap before insert on saga_audit for each row execute function nap()")
			c := tt.change
			c.ID, c.Revision, c.By = r.ID, r.Revision, journal.Audit{Verb: journal.VerbAbandon, Actor: "ann", Reason: "a test"}
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			_, done, err := j.Change(ctx, c)
			require.False(t, done)
			require.ErrorIs(t, err, pgkit.ErrTooSlow)
			require.NotErrorIs(t, err, journal.ErrFateUnknown)
			require.NoError(t, ctx.Err(), "the server ends the statement, not the caller")
			require.Zero(t, queryRow[int](t, look, "select count(*) from pg_stat_activity where wait_event = 'PgSleep' and datname = current_database()"))
			exec(t, look, "drop trigger nap on saga_audit")
			_, done, err = j.Change(t.Context(), c)
			require.NoError(t, err)
			require.True(t, done)
		})
	}
}
