package pgstore_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/store"
)

// A renewal goes through although a flush hangs, the queue behind that flush is full, and further
// claims are refused: no run must lose its lease because others wait.
func TestRenew_besideAFullQueue(t *testing.T) {
	t.Parallel()
	const queued = 4
	s, look := open(t, pgstore.Config{MaxQueued: queued}, size(2))
	owner := claim(t, s)
	exec(t, look, "create table gate (closed int)")
	exec(t, look, "insert into gate values (1)")
	exec(t, look, `create function wait_at_gate() returns trigger language plpgsql as
		$$ begin while exists (select from gate) loop perform pg_sleep(0.005); end loop; return new; end $$`)
	exec(t, look, "create trigger hangs before insert on idempotency for each row execute function wait_at_gate()")

	claims := func() error { _, _, err := s.Claim(t.Context(), newClaim()); return err }
	waiting := []<-chan error{inBackground(claims)}
	until(t, "the flush hangs", func() bool { return waits(t, look, "PgSleep") })
	for range queued {
		waiting = append(waiting, inBackground(claims))
	}
	until(t, "the queue is full", func() bool { return s.Queued() == queued })
	require.ErrorIs(t, claims(), pgstore.ErrQueueFull)

	got, err := s.Renew(t.Context(), []store.Owner{owner}, time.Hour)
	require.NoError(t, err)
	require.Equal(t, []store.Owner{owner}, got.Renewed)
	renewed := read(t, s, owner.ID)
	require.Greater(t, renewed.LeaseLeft(), 30*time.Minute)

	exec(t, look, "delete from gate")
	for _, done := range waiting {
		<-done // a flush that took longer than five seconds has lost its connection
	}
}
