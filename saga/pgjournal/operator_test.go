package pgjournal_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/pgjournal"
)

// An operator in a process of its own, which has no engine, lists what is stuck and says that a
// call did not happen. It leaves no lease and no plan. An engine elsewhere carries that out.
func TestOperator(t *testing.T) {
	t.Parallel()
	j, look := open(t, pgjournal.Config{})
	c := newTown(t)
	key := childkey.MustNew()
	req, err := trip.Request(key, journey{Trip: "t"})
	require.NoError(t, err)
	req.Engine = beat(t, j, time.Hour)
	r, created, err := j.Start(t.Context(), req)
	require.NoError(t, err)
	require.True(t, created)
	unknown := saga.Entry{Step: "hotel.book", Outcome: retry.Unknown, At: r.Now, Tries: 3}
	refused := saga.Entry{Step: "hotel.book", Undo: true, Outcome: retry.Rejected, At: r.Now, Tries: 1, Status: 422}
	r = write(t, j, r, saga.Write{Status: saga.Compensating, Entries: []saga.Entry{unknown}, Cause: &saga.Failure{Reason: saga.ReasonCancel}})
	r = write(t, j, r, saga.Write{Status: saga.Stuck, Entries: []saga.Entry{refused}, StuckOn: &saga.Failure{Step: "hotel.book", Undo: true}})

	o, err := saga.NewOperator(j, trip)
	require.NoError(t, err)
	stuck, err := o.List(t.Context(), saga.ListRequest{Statuses: []saga.Status{saga.Stuck}, Limit: 10})
	require.NoError(t, err)
	require.Len(t, stuck, 1)
	by := saga.Audit{Actor: "ann", Reason: "the hotel has no such guest", Revision: stuck[0].Revision}
	r, err = o.ForceRejected(t.Context(), r.ID, "hotel.book", by)
	require.NoError(t, err)
	require.Equal(t, saga.Compensating, r.Status)
	read, err := o.Lookup(t.Context(), r.ID)
	require.NoError(t, err)
	for _, e := range []saga.Entry{
		{Step: "hotel.book", Outcome: retry.Rejected, Tries: 3, Forced: "ann"},
		{Step: "hotel.book", Undo: true, Outcome: retry.Completed, Tries: 1, Forced: "ann", Nothing: true},
	} {
		e.At = read.Entries[0].At
		require.Contains(t, read.Entries, e)
	}
	_, err = o.ForceRejected(t.Context(), r.ID, "hotel.book", by)
	require.ErrorIs(t, err, saga.ErrConflict)
	log, err := o.AuditLog(t.Context(), r.ID, 10)
	require.NoError(t, err)
	require.Len(t, log, 1)
	require.Equal(t, saga.Audit{Verb: saga.VerbForceRejected, Step: "hotel.book", Actor: "ann", Reason: by.Reason}, log[0].Audit)
	require.Equal(t, 1, queryRow[int](t, look, "select count(*) from saga_engine"), "the dead engine's")
	require.Zero(t, queryRow[int](t, look, "select count(*) from saga_plan"))

	engineWith(t, j, c, saga.Config{Poll: quickPoll})
	require.Equal(t, saga.Compensated, ended(t, j, r.ID).Status)
	require.Empty(t, c.deliveries(), "the hotel was asked again")
}
