package main

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
)

// A ledger is killed between the commit of its row and the acknowledgement, while it has a second copy of the message.
// The broker delivers both again, and nothing is booked a second time.
func TestLedger_killedBeforeAcknowledgement(t *testing.T) {
	t.Parallel()
	eachBroker(t, func(t *testing.T, at *place) {
		to, err := at.options().connect(t.Context())
		require.NoError(t, err)
		t.Cleanup(to.close)
		m := newMessage(at.topic)
		require.NoError(t, to.publish(t.Context(), m))
		time.Sleep(2 * at.copies) // else the broker drops the copy
		m.Account = "another"     // in Kafka another partition, so that both are handled at the same time
		require.NoError(t, to.publish(t.Context(), m))

		tx, err := at.pool.Begin(t.Context())
		require.NoError(t, err)
		_, err = tx.Exec(t.Context(), "lock table entry")
		require.NoError(t, err)
		first := at.start(t, "ledger")
		require.Eventually(t, func() bool { return countTx(t, tx, blocked) == 1 }, time.Minute, 5*time.Millisecond, "it has the message")
		at.mute(true)
		require.NoError(t, tx.Commit(t.Context()))
		at.untilBooked(t, 1)
		first.kill(t)
		at.mute(false)

		require.Eventually(t, func() bool {
			second := at.start(t, "ledger")
			time.Sleep(lease) // the first one's claim may be as old as that
			second.stop(t)
			return at.waiting(t) == 0
		}, time.Minute, time.Millisecond, "the copies are acknowledged")
		require.Equal(t, 1, count(t, at.pool, "select count(*) from entry"))
		require.Zero(t, count(t, at.pool, "select count(*) from dead_letter"))
	})
}

// blocked counts the runs that wait for the table of entries.
const blocked = `select count(*) from pg_locks l join pg_database d on d.oid = l.database
	where not granted and relation = 'entry'::regclass and datname = current_database()`

func countTx(t *testing.T, tx pgx.Tx, sql string) (n int) {
	t.Helper()
	require.NoError(t, tx.QueryRow(t.Context(), sql).Scan(&n))
	return n
}

// newMessage returns the message of a payment.
func newMessage(topic string) Message {
	id := childkey.MustNew().String()
	return Message{Key: id, Topic: topic, Account: "a", Payload: []byte(`{"ID": "` + id + `", "Account": "a", "Cents": 1}`)}
}
