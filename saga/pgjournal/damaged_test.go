package pgjournal_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/saga/pgjournal"
)

// damages are rows that no build writes, and what is said of them.
var damages = []struct{ name, set, says string }{
	{"created at -infinity", `created_at = '-infinity'`, "created_at is -infinity"},
	{"created at infinity", `created_at = 'infinity'`, "created_at is infinity"},
	{"first claimed at infinity", `first_claimed_at = 'infinity'`, "first_claimed_at is infinity"},
	{"a deadline at -infinity", `deadline_at = '-infinity'`, "deadline_at is -infinity"},
	{"failed at infinity", `failed_at = 'infinity'`, "failed_at is infinity"},
	{"resumed at -infinity", `resumed_at = '-infinity'`, "resumed_at is -infinity"},
	{"asleep for ever", `wake_at = 'infinity', engine = '00000000-0000-0000-0000-000000000000'`, "wake_at is infinity"},
	{"awake since -infinity", `wake_at = '-infinity', engine = '00000000-0000-0000-0000-000000000000'`, "wake_at is -infinity"},
	{"finished at infinity", `finished_at = 'infinity'`, "finished_at is infinity"},
	{"status 0", `status = 0`, "status 0"},
	{"status 258", `status = 258`, "status 258"},
	{"fence -5", `fence = -5`, "fence -"},
	{"recovery attempts -1", `recovery_attempts = -1`, "recovery_attempts -1"},
	{"a short plan", `plan = '\x01'`, "plan of 1 bytes"},
	{"a long plan", `plan = plan || '\x00'`, "plan of 33 bytes"},
	{"a short input hash", `input_hash = '\x'`, "input_hash of 0 bytes"},
	{"another key", `key = 'k-of-another'`, "not those of the ID"},
	{"no key", `key = ''`, "key of 0 bytes"},
	{"another scope", `scope = 'other'`, "not those of the ID"},
	{"entries cut off", `entries = substr(entries, 1, octet_length(entries) - 2)`, "cannot be read"},
	{"garbage as entries", `entries = '\xdeadbeef'`, "cannot be read"},
	{"a cause cut off", `cause = '\x01'`, "cause cannot be read"},
	{"garbage as what it is stuck on", `status = 5, stuck_on = '\xff'`, "stuck_on cannot be read"},
}

// One damaged row among others is listed as damaged, with the reason. It is read, counted
// and swept beside, and an engine executes the others to their end.
func TestDamaged_harmsNoOther(t *testing.T) {
	t.Parallel()
	j, look := open(t, pgjournal.Config{}, func(cfg *pgxpool.Config) { cfg.MaxConns = 8 })
	defer exec(t, look, "delete from saga") // the rows do not stand the test of the others
	c := newCallees(t)
	dead := beat(t, j, time.Minute)
	reasons, healthy := make(map[journal.ID]string), []journal.ID(nil)
	for i, d := range damages {
		r := startTrip(t, j, dead, journey{Trip: fmt.Sprint(i)})
		r = write(t, j, r, journal.Write{Entries: []journal.Entry{{Step: "train.book", Pending: true, Attempts: 1}}})
		healthy = append(healthy, startTrip(t, j, dead, journey{Trip: fmt.Sprint("healthy ", i)}).ID)
		exec(t, look, "update saga set "+d.set+" where id = $1", [16]byte(r.ID))
		reasons[r.ID] = d.says
	}
	wantListed(t, j, reasons, len(healthy))
	_, err := j.Stats(t.Context())
	require.NoError(t, err)
	_, err = j.Sweep(t.Context(), 100)
	require.NoError(t, err)

	require.NoError(t, j.Leave(t.Context(), dead))
	e := engineOn(t, j, c)
	for _, id := range healthy {
		require.Equal(t, journal.Completed, ended(t, j, id).Status)
	}
	for i, d := range damages {
		require.Zero(t, c.done[place{fmt.Sprint(i), "train"}], "a call was sent for one with "+d.name)
	}
	wantListed(t, j, reasons, 0)
	for id := range reasons {
		until(t, "a person can end it", func() bool {
			r, err := e.Abandon(t.Context(), id, someone)
			return err == nil && r.Status == journal.Abandoned
		})
	}
}

// wantListed wants a list to have the damaged sagas, each with its reason, and the given number
// of other sagas. It reads the list page by page.
func wantListed(t *testing.T, j *pgjournal.Journal, reasons map[journal.ID]string, others int) {
	t.Helper()
	req := journal.BrowseRequest{Statuses: unfinished, Limit: 5}
	seen := make(map[journal.ID]bool)
	for {
		page, err := j.Reader().Browse(t.Context(), req)
		require.NoError(t, err)
		for _, r := range page {
			require.False(t, seen[r.ID], "listed twice")
			seen[r.ID] = true
			if why, damaged := reasons[r.ID]; damaged {
				read, err := j.Read(t.Context(), r.ID)
				require.NoError(t, err)
				if on := read.StuckOn; read.Corrupt == nil && on != nil { // the write that made it stuck mended it
					require.Equal(t, journal.ReasonCorrupt, on.Reason)
					require.Contains(t, on.Detail, why)
					continue
				}
				require.ErrorIs(t, read.Corrupt, journal.ErrCorrupt, why)
				require.ErrorContains(t, read.Corrupt, why)
			} else {
				require.NoError(t, r.Corrupt)
				others--
			}
		}
		if len(page) < req.Limit {
			break
		}
		last := page[len(page)-1]
		req.Before = journal.Cursor{CreatedAt: last.CreatedAt, ID: last.ID}
	}
	require.Zero(t, others, "healthy sagas are missing")
	for id, why := range reasons {
		require.True(t, seen[id], "not listed: "+why)
	}
}

// A finished saga that lacks some of its entries is never shown as finished. This holds if the
// entries end within an entry, and if they end between two.
func TestDamaged_entriesOfWhatIsOver(t *testing.T) {
	t.Parallel()
	j, look := open(t, pgjournal.Config{}, func(cfg *pgxpool.Config) { cfg.MaxConns = 8 })
	defer exec(t, look, "delete from saga") // the rows do not stand the test of the others
	c := newCallees(t)
	e := engineOn(t, j, c)
	for i, set := range []string{
		`entries = ''`, `entries = substr(entries, 1, octet_length(entries) - 1)`, `entries = substr(entries, 1, octet_length(entries) - 2)`,
		`entries = substr(entries, 1, 1 + get_byte(entries, 0))`, `entries = '\xff'::bytea || entries`,
		`expires_at = null`, `expires_at = 'infinity'`, `finished_at = '-infinity'`, `status = 9`,
	} {
		in := journey{Trip: fmt.Sprint("over ", i)}
		key := childkey.MustNew()
		_, err := trip.Run(t.Context(), e, key, in)
		require.NoError(t, err)
		id := journal.IDOf("", "trip", key)
		r, err := j.Read(t.Context(), id)
		require.NoError(t, err)
		require.NoError(t, r.Corrupt)
		require.Len(t, r.Entries, 3)
		exec(t, look, "update saga set "+set+" where id = $1", [16]byte(id))
		_, err = trip.Run(t.Context(), e, key, in)
		require.ErrorIs(t, err, journal.ErrCorrupt, set)
		shown, err := j.Reader().Show(t.Context(), id)
		require.NoError(t, err)
		require.ErrorIs(t, shown.Corrupt, journal.ErrCorrupt, set)
	}
}

// A saga that is not over is not swept, whatever its row says of when it expires. A damaged
// one is never taken for one with another input.
func TestDamaged_isKept(t *testing.T) {
	t.Parallel()
	j, look := open(t, pgjournal.Config{})
	defer exec(t, look, "delete from saga")
	r := start(t, j, beat(t, j, time.Minute))
	for _, at := range []string{"-infinity", "2020-01-01"} {
		exec(t, look, "update saga set expires_at = $1::text::timestamptz where id = $2", at, [16]byte(r.ID))
		n, err := j.Sweep(t.Context(), 10)
		require.NoError(t, err)
		require.Zero(t, n)
		read, err := j.Read(t.Context(), r.ID)
		require.NoError(t, err)
		require.ErrorContains(t, read.Corrupt, "expires_at of a saga that is running")
	}
	key, in := childkey.MustNew(), journey{Trip: "hashed"}
	exec(t, look, "create table orders (id text)")
	_, err := starters[0].start(t.Context(), look, key, in, pgjournal.StartConfig{}, true)
	require.NoError(t, err)
	exec(t, look, "update saga set input_hash = '\\x00' where id = $1", [16]byte(journal.IDOf("", "trip", key)))
	tx, err := look.Begin(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, tx.Rollback(t.Context())) }()
	_, err = pgjournal.Start(t.Context(), tx, trip, key, in, pgjournal.StartConfig{})
	require.ErrorIs(t, err, journal.ErrCorrupt)
	require.NotErrorIs(t, err, saga.ErrKeyReused)
}

// A damaged line of the audit log is shown as damaged, and the others as they are; a damaged
// plan is an error of its definition alone.
func TestDamaged_auditAndPlan(t *testing.T) {
	t.Parallel()
	j, look := open(t, pgjournal.Config{})
	r := start(t, j, beat(t, j, time.Minute))
	for _, set := range []string{`at = '-infinity'`, `from_status = 9`, `to_status = -1`, `actor = 'bob'`} {
		next, won, err := j.Change(t.Context(), journal.Change{ID: r.ID, Revision: r.Revision, Status: journal.Running, By: someone})
		require.NoError(t, err)
		require.True(t, won)
		r = next
		exec(t, look, "update saga_audit set "+set+" where id = (select max(id) from saga_audit)")
	}
	log, err := j.Reader().AuditPage(t.Context(), journal.AuditRequest{ID: r.ID, Limit: 10})
	require.NoError(t, err)
	require.Len(t, log, 4)
	require.NoError(t, log[0].Corrupt)
	for i, says := range []string{"to_status -1", "from_status 9", "at is -infinity"} {
		require.ErrorIs(t, log[i+1].Corrupt, journal.ErrCorrupt)
		require.ErrorContains(t, log[i+1].Corrupt, says)
		require.Equal(t, someone.Actor, log[i+1].Actor)
	}
	plan := journal.PlanRecord{Name: "a", Version: 1, Hash: aPlan}
	_, err = j.Plan(t.Context(), plan)
	require.NoError(t, err)
	for _, hash := range []string{`substr(hash, 1, 31)`, `hash || hash`} {
		exec(t, look, "update saga_plan set hash = "+hash)
		_, err = j.Plan(t.Context(), plan)
		require.ErrorIs(t, err, journal.ErrCorrupt)
		plan.Name += "a"
		_, err = j.Plan(t.Context(), plan)
		require.NoError(t, err)
	}
}
