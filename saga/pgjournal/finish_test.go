package pgjournal_test

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/internal/pgkit"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/saga/pgjournal"
)

// The short statements for a saga that completes leave the row that the general ones
// leave, and refuse what those refuse.
func TestFinish_isAppend(t *testing.T) {
	t.Parallel()
	j, look := open(t, pgjournal.Config{})
	engine := beat(t, j, time.Hour)
	for _, c := range []struct {
		name    string
		before  string // what an update sets
		owner   func(*journal.Owner)
		entries []byte
		result  []byte
		refused bool
	}{
		{name: "new", entries: []byte("entry"), result: []byte("{}")},
		{name: "without entries or result", before: "recovery_attempts = 2", entries: []byte{}},
		{name: "with much behind it", before: "recovery_attempts = 2, entries = 'one', failed_at = now(), cause = 'c', stuck_on = 's', cancel = true", entries: []byte("two")},
		{name: "with an empty result", before: "result = 'r'", entries: []byte{}, result: []byte{}},
		{name: "with a result", before: "result = 'r'", entries: []byte{}},
		{name: "failed", before: "status = 2", entries: []byte("entry")},
		{name: "stuck", before: "status = 5", entries: []byte("entry"), refused: true},
		{name: "over", before: "status = 3, expires_at = now()", entries: []byte("entry"), refused: true},
		{name: "written meanwhile", before: "revision = 2", entries: []byte("entry"), refused: true},
		{name: "taken over", owner: func(o *journal.Owner) { o.Fence-- }, entries: []byte("entry"), refused: true},
		{name: "somebody else's", owner: func(o *journal.Owner) { o.Engine = newEngine() }, entries: []byte("entry"), refused: true},
		{name: "full", before: "entry_room = 4", entries: []byte("entry"), refused: true},
		{name: "just not full", before: "entry_room = 5", entries: []byte("entry")},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := ""
			for _, form := range []string{"append", "finish", "append_many", "finish_many"} {
				r := start(t, j, engine)
				if c.before != "" {
					exec(t, look, "update saga set "+c.before+" where id = $1", [16]byte(r.ID))
				}
				o := ownerOf(r)
				if c.owner != nil {
					c.owner(&o)
				}
				require.Equal(t, !c.refused, finishBy(t, look, form, o, c.entries, c.result), form)
				got := leftBy(t, look, r.ID)
				if want == "" {
					want = got
				}
				require.JSONEq(t, want, got, form)
			}
		})
	}
}

// leftBy is a saga's row without what differs between any two of them.
func leftBy(t *testing.T, look *pgxpool.Pool, id journal.ID) string {
	t.Helper()
	return queryRow[string](t, look, `select (to_jsonb(s) - '{id, key, created_at, first_claimed_at, deadline_at, wake_at, failed_at, finished_at, expires_at}'::text[]
		|| jsonb_build_object('sleeps', wake_at is not null, 'has failed', failed_at is not null, 'is over', finished_at is not null, 'kept', expires_at - finished_at))::text
		from saga s where id = $1`, [16]byte(id))
}

// finishBy completes a saga by a form of append.sql, and reports whether it did.
func finishBy(t *testing.T, look *pgxpool.Pool, form string, o journal.Owner, entries, result []byte) bool {
	t.Helper()
	id, engine := pgtype.UUID{Bytes: o.ID, Valid: true}, pgtype.UUID{Bytes: o.Engine, Valid: true}
	var none pgtype.Timestamptz
	status := pgtype.Int2{Int16: int16(journal.Completed), Valid: true}
	args := pgx.NamedArgs{
		"id": id, "engine": engine, "fence": o.Fence, "revision": int64(2), "entries": entries, "result": result, "keep": pgtype.Interval{Microseconds: time.Hour.Microseconds(), Valid: true}, "n": int32(1),
	}
	if strings.HasPrefix(form, "append") {
		args["status"], args["deadline_at"], args["wake_at"], args["cause"], args["stuck_on"] = status, none, none, []byte(nil), []byte(nil)
		args["fails"], args["sleeps"], args["ends"] = pgtype.Interval{}, pgtype.Interval{}, pgtype.Interval{Valid: true}
	}
	if strings.HasSuffix(form, "_many") {
		for name, value := range args {
			array := reflect.MakeSlice(reflect.SliceOf(reflect.TypeOf(value)), 1, 1)
			array.Index(0).Set(reflect.ValueOf(value))
			args[name] = array.Interface()
		}
	} else {
		args["lock_timeout"] = "50"
	}
	st := formOf(t, form).Bind(args)
	require.NoError(t, st.Err())
	tag, err := look.Exec(t.Context(), st.SQL, st.Args...)
	require.NoError(t, err)
	return tag.RowsAffected() == 1
}

func formOf(t *testing.T, name string) pgkit.Query {
	t.Helper()
	forms, err := pgjournal.Forms()
	require.NoError(t, err)
	require.Contains(t, forms, name)
	return forms[name]
}

// Writes that complete sagas go by the short statement where they are among themselves,
// and by the general one beside others.
func TestFinish_isUsed(t *testing.T) {
	t.Parallel()
	_, look := open(t, pgjournal.Config{})
	sent := new(texts)
	j, pool := openSingle(t, look, pgjournal.Config{}, sent.under)
	engine := beat(t, j, time.Hour)
	end := func() func() error {
		r := start(t, j, engine)
		return func() error {
			return j.Append(t.Context(), ownerOf(r), journal.Write{Revision: 2, Status: journal.Completed, Keep: time.Hour})
		}
	}
	step := func() func() error {
		r := start(t, j, engine)
		return func() error {
			return j.Append(t.Context(), ownerOf(r), journal.Write{Revision: 2, Entries: []journal.Entry{completed("a.b")}})
		}
	}
	for _, c := range []struct {
		name       string
		dos        []func() error
		is, others string
	}{
		{"one", []func() error{end()}, "finish", "append"},
		{"several", []func() error{end(), end(), end()}, "finish_many", "append_many"},
		{"a step", []func() error{step()}, "append", "finish"},
		{"with a step among them", []func() error{end(), step(), end()}, "append_many", "finish_many"},
	} {
		sent.forget()
		for _, err := range flushing(t, j, pool, c.dos...)() {
			require.NoError(t, err, c.name)
		}
		require.Contains(t, sent.all(), formOf(t, c.is).SQL(), c.name)
		require.NotContains(t, sent.all(), formOf(t, c.others).SQL(), c.name)
	}
	require.Equal(t, 6, queryRow[int](t, look, "select count(*) from saga where status = 3 and expires_at is not null"))
}

// texts are the statements that a pool sends.
type texts struct {
	mu   sync.Mutex
	sent []string
}

func (x *texts) under(cfg *pgxpool.Config) { cfg.ConnConfig.Tracer = x }

func (x *texts) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	x.note(data.SQL)
	return ctx
}

func (x *texts) TraceBatchQuery(_ context.Context, _ *pgx.Conn, data pgx.TraceBatchQueryData) {
	x.note(data.SQL)
}

func (x *texts) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}
func (*texts) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}
func (*texts) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

func (x *texts) note(sql string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.sent = append(x.sent, sql)
}

func (x *texts) all() []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Clone(x.sent)
}

func (x *texts) forget() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.sent = nil
}
