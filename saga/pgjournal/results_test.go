package pgjournal_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/saga/pgjournal"
)

func withResult(step string, result []byte) journal.Entry {
	e := completed(step)
	e.Result = result
	return e
}

// Results above 32 KiB are written once: further steps do not write them again. They
// are read wherever the saga is, and go with it.
func TestResults_aside(t *testing.T) {
	t.Parallel()
	j, look := open(t, pgjournal.Config{})
	small, large := bytes.Repeat([]byte("s"), 32<<10), bytes.Repeat([]byte("l"), 32<<10+1)
	rows := func() int { return queryRow[int](t, look, "select count(*) from saga_result") }

	engine := beat(t, j, time.Minute)
	r := start(t, j, engine)
	r = write(t, j, r, journal.Write{Entries: []journal.Entry{withResult("a.a", small)}})
	require.Zero(t, rows())
	r = write(t, j, r, journal.Write{Entries: []journal.Entry{withResult("b.b", large), completed("c.c"), withResult("d.d", large)}})
	require.Equal(t, 2, rows())
	check := func(what string, r journal.Record) {
		t.Helper()
		require.NoError(t, r.Corrupt, what)
		require.Len(t, r.Entries, 4, what)
		require.Equal(t, small, r.Entries[0].Result, what)
		require.Equal(t, large, r.Entries[1].Result, what)
		require.Equal(t, `{}`, string(r.Entries[2].Result), what)
		require.Equal(t, large, r.Entries[3].Result, what)
	}
	check("read", r)
	again, _, err := j.Start(t.Context(), journal.StartRequest{ID: r.ID, Key: r.Key, Name: r.Name})
	require.NoError(t, err)
	check("started again", again)
	require.NoError(t, j.Leave(t.Context(), engine))
	other := beat(t, j, time.Minute)
	claimed, err := j.Claim(t.Context(), journal.ClaimRequest{Engine: other, Plans: []journal.PlanHash{aPlan}, Limit: 10})
	require.NoError(t, err)
	check("claimed", claimed[0])
	listed, err := j.List(t.Context(), journal.ListRequest{Engine: other, Limit: 1})
	require.NoError(t, err)
	require.Len(t, listed[0].Entries, 4)
	require.Nil(t, listed[0].Entries[1].Result)
	forced := withResult("b.b", bytes.Repeat([]byte("f"), 40<<10))
	r, won, err := j.Change(t.Context(), journal.Change{ID: r.ID, Revision: claimed[0].Revision, Status: journal.Running, Entries: []journal.Entry{forced}, By: someone})
	require.NoError(t, err)
	require.True(t, won)
	require.Equal(t, forced.Result, r.Entries[1].Result, "the later one counts")
	_, won, err = j.Change(t.Context(), journal.Change{ID: r.ID, Revision: r.Revision, Status: journal.Abandoned, By: someone})
	require.NoError(t, err)
	require.True(t, won)
	n, err := j.Sweep(t.Context(), 10)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.Zero(t, rows())
}

// Large results that come with a wake are readable, and in the way of nothing that the saga's owner
// writes: its next write may name the revision of the wake.
func TestResults_ofAWord(t *testing.T) {
	t.Parallel()
	j, _ := open(t, pgjournal.Config{})
	r := start(t, j, beat(t, j, time.Minute))
	large := func(step, text string) journal.Entry { return withResult(step, bytes.Repeat([]byte(text), 40<<10)) }
	r = write(t, j, r, journal.Write{Entries: []journal.Entry{large("a.a", "a")}})
	for _, step := range []string{"b.b", "c.c"} {
		got, won, err := j.Change(t.Context(), journal.Change{ID: r.ID, Revision: r.Revision, Wake: true, Entries: []journal.Entry{large(step, "w")}, By: someone})
		require.NoError(t, err)
		require.True(t, won)
		require.NoError(t, got.Corrupt)
		r = got
	}
	r = write(t, j, r, journal.Write{Entries: []journal.Entry{large("d.d", "d")}})
	require.NoError(t, r.Corrupt)
	require.Len(t, r.Entries, 4)
	for i, text := range []string{"a", "w", "w", "d"} {
		require.Equal(t, bytes.Repeat([]byte(text), 40<<10), r.Entries[i].Result)
	}
}

// A large write that is refused leaves no result behind.
func TestResults_ofARefusedWrite(t *testing.T) {
	t.Parallel()
	j, look := open(t, pgjournal.Config{})
	r := start(t, j, beat(t, j, time.Minute))
	w := journal.Write{Revision: 2, Entries: []journal.Entry{withResult("a.b", make([]byte, 40<<10))}}
	zombie := ownerOf(r)
	zombie.Fence++
	require.ErrorIs(t, j.Append(t.Context(), zombie, w), journal.ErrLeaseLost)
	require.NoError(t, j.Append(t.Context(), ownerOf(r), w))
	require.NoError(t, j.Append(t.Context(), ownerOf(r), w), "repeated")
	require.Equal(t, 1, queryRow[int](t, look, "select count(*) from saga_result"))
}

// A call that is retried for weeks does not fill its saga's row. Sometimes an update drops the
// replaced entries and leaves the revision unchanged.
func TestAppend_compacts(t *testing.T) {
	t.Parallel()
	for _, separate := range []bool{false, true} {
		t.Run(fmt.Sprint(separate), func(t *testing.T) {
			t.Parallel()
			c := new(counter)
			j, look := open(t, pgjournal.Config{SeparateCommits: separate}, c.under)
			r := start(t, j, beat(t, j, time.Hour))
			keep := withResult("a.a", bytes.Repeat([]byte("k"), 20<<10))
			r = write(t, j, r, journal.Write{Entries: []journal.Entry{keep}})
			const tries = 300
			statements := c.count(func() {
				for n := range tries {
					e := journal.Entry{Step: "b.b", Outcome: retry.Unknown, Pending: true, Attempts: n, Detail: string(bytes.Repeat([]byte("d"), 1000))}
					w := journal.Write{Revision: r.Revision + 1 + int64(n), Entries: []journal.Entry{e}}
					require.NoError(t, j.Append(t.Context(), ownerOf(r), w))
				}
			})
			require.Less(t, statements, int64(tries+50), "statements for %d writes", tries)
			size := queryRow[int](t, look, "select octet_length(entries) from saga")
			require.Less(t, size, 120<<10)
			r, err := j.Read(t.Context(), r.ID)
			require.NoError(t, err)
			require.EqualValues(t, 2+tries, r.Revision)
			require.Len(t, r.Entries, 2)
			require.Equal(t, keep.Result, r.Entries[0].Result)
			require.Equal(t, tries-1, r.Entries[1].Attempts)
			large := withResult("c.c", bytes.Repeat([]byte("l"), 40<<10))
			r = write(t, j, r, journal.Write{Entries: []journal.Entry{large}})
			require.Equal(t, large.Result, r.Entries[2].Result)
		})
	}
}

// An interloper does something once, before a statement that has the text is sent.
type interloper struct {
	text string
	do   func()
}

func (x *interloper) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	x.look(q.SQL)
	return ctx
}

func (x *interloper) TraceBatchStart(ctx context.Context, _ *pgx.Conn, b pgx.TraceBatchStartData) context.Context {
	for _, q := range b.Batch.QueuedQueries {
		x.look(q.SQL)
	}
	return ctx
}

func (x *interloper) look(sql string) {
	if do := x.do; do != nil && strings.Contains(sql, x.text) {
		x.do = nil
		do()
	}
}

func (*interloper) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData)     {}
func (*interloper) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (*interloper) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}

// A person wakes a saga while a write of its owner makes room. Whenever the wake comes, it is kept, and
// so is the write.
func TestAppend_compactsBesideAWake(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]string{
		"before the write": "saga i\nset revision = o.revision", "before the log is read": "select revision, entries", "before the log is compacted": "entry_room = 65536",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := &interloper{text: before}
			j, look := open(t, pgjournal.Config{}, func(cfg *pgxpool.Config) { cfg.ConnConfig.Tracer = x })
			r := start(t, j, beat(t, j, time.Hour))
			waiting := journal.Entry{Step: "a.b", Outcome: retry.NotSent, Pending: true, Attempts: 2, At: r.Now, RetryAt: r.Now.Add(time.Hour)}
			for range 2 {
				r = write(t, j, r, journal.Write{Entries: []journal.Entry{waiting}})
			}
			exec(t, look, "update saga set entry_room = octet_length(entries) where id = $1", [16]byte(r.ID))
			person := openOn(t, look, pgjournal.Config{})
			x.do = func() {
				now := waiting
				now.RetryAt = time.Time{}
				_, won, err := person.Change(context.WithoutCancel(t.Context()), journal.Change{ID: r.ID, Revision: r.Revision, Wake: true, Entries: []journal.Entry{now}, By: someone})
				if err != nil || !won {
					t.Errorf("the wake: won = %v, error %v", won, err)
				}
			}
			r = write(t, j, r, journal.Write{Entries: []journal.Entry{completed("c.d")}})
			require.Nil(t, x.do, "nobody woke the saga")
			require.Len(t, r.Entries, 2)
			require.True(t, r.Entries[0].RetryAt.IsZero(), "the wake is lost: RetryAt %v", r.Entries[0].RetryAt)
			require.EqualValues(t, 1, r.Wakes)
			require.EqualValues(t, 5, r.Revision)
		})
	}
}

// A row that no version of this package wrote is shown as damaged. Other rows can still be read,
// claimed and listed.
func TestCorrupt(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, mar string }{
		{"entries", `update saga set entries = '\x0501ff' where id = $1`},
		{"an entry cut off", `update saga set entries = substr(entries, 1, octet_length(entries) - 1) where id = $1`},
		{"another version of entries", `update saga set entries = set_byte(entries, 1, 2) where id = $1`},
		{"a cause", `update saga set cause = '\x00' where id = $1`},
		{"a plan", `update saga set plan = plan || '\x00' where id = $1`},
		{"a key", `update saga set key = 'secret key' where id = $1`},
		{"a result that is gone", `delete from saga_result where saga = $1`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			j, look := open(t, pgjournal.Config{})
			put := func() journal.Record {
				r := start(t, j, beat(t, j, time.Minute))
				return write(t, j, r, journal.Write{Entries: []journal.Entry{completed("a.a"), withResult("b.b", make([]byte, 40<<10))}})
			}
			bad, good := put(), put()
			exec(t, look, tt.mar, [16]byte(bad.ID))
			r, err := j.Read(t.Context(), bad.ID)
			require.NoError(t, err)
			require.ErrorIs(t, r.Corrupt, journal.ErrCorrupt)
			require.NotContains(t, r.Corrupt.Error(), "secret")
			require.Equal(t, journal.Running, r.Status)
			listed, err := j.Reader().Browse(t.Context(), journal.BrowseRequest{Statuses: unfinished, Limit: 10})
			require.NoError(t, err)
			require.Len(t, listed, 2)

			exec(t, look, "update saga_engine set has_left = true")
			exec(t, look, "update saga set plan = $1 where id = $2 and octet_length(plan) = 32", aPlan[:], [16]byte(good.ID))
			claimed, err := j.Claim(t.Context(), journal.ClaimRequest{Engine: beat(t, j, time.Minute), Plans: []journal.PlanHash{aPlan}, Limit: 10})
			require.NoError(t, err)
			healthy := 0
			for _, r := range claimed {
				if r.Corrupt == nil {
					healthy++
					require.Equal(t, good.ID, r.ID)
				}
			}
			require.Equal(t, 1, healthy)
			r, err = j.Read(t.Context(), bad.ID)
			require.NoError(t, err)
			r, won, err := j.Change(t.Context(), journal.Change{ID: r.ID, Revision: r.Revision, Status: journal.Abandoned, By: someone})
			require.NoError(t, err)
			require.True(t, won, "a person can end it")
			require.Equal(t, journal.Abandoned, r.Status)
		})
	}
}

// An engine puts it aside, and executes the others.
func TestCorrupt_harmsNoOther(t *testing.T) {
	t.Parallel()
	j, look := open(t, pgjournal.Config{}, func(cfg *pgxpool.Config) { cfg.MaxConns = 8 })
	c := newCallees(t)
	dead := beat(t, j, time.Minute)
	var ids []journal.ID
	for i := range 20 {
		r := startTrip(t, j, dead, journey{Trip: fmt.Sprint(i)})
		ids = append(ids, r.ID)
		if i == 7 {
			exec(t, look, `update saga set entries = '\xff' where id = $1`, [16]byte(r.ID))
		}
	}
	require.NoError(t, j.Leave(t.Context(), dead))
	e := engineOn(t, j, c)
	for i, id := range ids {
		r := ended(t, j, id)
		if i != 7 {
			require.Equal(t, journal.Completed, r.Status)
			c.check(t, fmt.Sprint(i), r.Status, "beside a corrupt one")
			continue
		}
		require.Equal(t, journal.Stuck, r.Status)
		require.Equal(t, journal.ReasonCorrupt, r.StuckOn.Reason)
		require.Zero(t, c.done[place{"7", "train"}], "a call was sent for it")
	}
	r, err := e.Abandon(t.Context(), ids[7], someone)
	require.NoError(t, err)
	require.Equal(t, journal.Abandoned, r.Status)
}
