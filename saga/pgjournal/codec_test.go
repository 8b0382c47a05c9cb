package pgjournal_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/saga/pgjournal"
	"github.com/fanonce/fanonce/server"
)

// One codec serves a guard and a journal.
var (
	_ pgjournal.Codec = (*server.AESGCM)(nil)
	_ pgjournal.Codec = server.Codec(nil)
	_ server.Codec    = pgjournal.Codec(nil)
)

// aesKey is a key of that name.
func aesKey(id string) server.AESKey {
	return server.AESKey{ID: id, Secret: bytes.Repeat([]byte(id[:1]), server.AESKeyBytes)}
}

func aesGCM(tb testing.TB, current string, others ...string) *server.AESGCM {
	tb.Helper()
	var more []server.AESKey
	for _, id := range others {
		more = append(more, aesKey(id))
	}
	codec, err := server.NewAESGCM(aesKey(current), more...)
	require.NoError(tb, err)
	return codec
}

// A value that was copied to another saga, to another place of the same one, or changed, is
// refused: the saga is damaged.
func TestCodec_bindsToItsPlace(t *testing.T) {
	t.Parallel()
	const other = "(select %s from saga where id = $2)"
	for _, tt := range []struct{ name, mar string }{
		{"another saga's input and hash", `update saga s set (input, input_hash) = (select input, input_hash from saga where id = $2) where id = $1`},
		{"another saga's input hash", `update saga set input_hash = ` + fmt.Sprintf(other, "input_hash") + ` where id = $1`},
		{"another saga's entries", `update saga set entries = ` + fmt.Sprintf(other, "entries") + ` where id = $1`},
		{"another saga's cause", `update saga set cause = ` + fmt.Sprintf(other, "cause") + ` where id = $1`},
		{"another saga's large result", `update saga_result set result = (select result from saga_result where saga = $2 and revision = 2 and position = 1) where saga = $1 and revision = 2 and position = 1`},
		{"a large result of another step", `update saga_result set result = (select result from saga_result where saga = $1 and position = 2 and $2::uuid is not null) where saga = $1 and revision = 2 and position = 1`},
		{"an earlier large result of the step", `update saga_result set result = (select result from saga_result where saga = $1 and revision = 2 and position = 2 and $2::uuid is not null) where saga = $1 and revision = 3`},
		{"its cause as its result", `update saga set result = cause where id = $1 and $2::uuid is not null`},
		{"its input as its cause", `update saga set cause = input where id = $1 and $2::uuid is not null`},
		{"its input hash as its input", `update saga set input = input_hash where id = $1 and $2::uuid is not null`},
		{"one bit", `update saga set entries = set_bit(entries, 8 * octet_length(entries) - 1, 1 - get_bit(entries, 8 * octet_length(entries) - 1)) where id = $1 and $2::uuid is not null`},
		{"plain text", `update saga set input = '{}' where id = $1 and $2::uuid is not null`},
		{"a plain entry", `update saga set entries = entries || '\x080100060003632e64'::bytea where id = $1 and $2::uuid is not null`},
		{"another key of the caller", `update saga set key = key || 'x' where id = $1 and $2::uuid is not null`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			j, look := open(t, pgjournal.Config{Codec: aesGCM(t, "k1")})
			put := func() journal.Record {
				r := start(t, j, beat(t, j, time.Hour))
				large := func(step string) journal.Entry { return withResult(step, bytes.Repeat([]byte("l"), 40<<10)) }
				r = write(t, j, r, journal.Write{Entries: []journal.Entry{large("a.a"), large("b.b")}, Cause: &journal.Failure{Reason: journal.ReasonStep}})
				r = write(t, j, r, journal.Write{Entries: []journal.Entry{large("b.b")}})
				require.NoError(t, r.Corrupt)
				return r
			}
			bad, good := put(), put()
			exec(t, look, tt.mar, [16]byte(bad.ID), [16]byte(good.ID))
			r, err := j.Read(t.Context(), bad.ID)
			require.NoError(t, err)
			require.ErrorIs(t, r.Corrupt, journal.ErrCorrupt)
			require.NotErrorIs(t, r.Corrupt, journal.ErrNewer)
			r, err = j.Read(t.Context(), good.ID)
			require.NoError(t, err)
			require.NoError(t, r.Corrupt)
		})
	}
	t.Run("a reason of another line", func(t *testing.T) {
		t.Parallel()
		j, look := open(t, pgjournal.Config{Codec: aesGCM(t, "k1")})
		r := start(t, j, beat(t, j, time.Hour))
		for _, actor := range []string{"ann", "bob"} {
			next, _, err := j.Change(t.Context(), journal.Change{ID: r.ID, Revision: r.Revision, Status: journal.Running, By: journal.Audit{Verb: journal.VerbRetry, Actor: actor, Reason: actor}})
			require.NoError(t, err)
			r = next
		}
		exec(t, look, "update saga_audit set reason = (select reason from saga_audit where actor = 'ann')")
		log, err := j.Reader().AuditPage(t.Context(), journal.AuditRequest{ID: r.ID, Limit: 10})
		require.NoError(t, err)
		require.ErrorContains(t, log[0].Corrupt, "reason cannot be opened")
		require.Empty(t, log[0].Reason)
		require.Equal(t, "ann", log[1].Reason)
	})
}

// Keys rotate: old values are read with the old key and new ones are sealed with the new one.
// A process without the key of a value does not judge the saga.
func TestCodec_rotation(t *testing.T) {
	t.Parallel()
	old, look := open(t, pgjournal.Config{Codec: aesGCM(t, "old-key")})
	running, over := sagasOfAllKinds(t, old)
	next := openOn(t, look, pgjournal.Config{Codec: aesGCM(t, "new-key", "old-key")})
	for _, r := range []journal.Record{running, over} {
		got, err := next.Read(t.Context(), r.ID)
		require.NoError(t, err)
		r.Now, got.Now = time.Time{}, time.Time{}
		require.Equal(t, r, got)
	}
	got := write(t, next, running, journal.Write{Entries: []journal.Entry{completed("e.f")}})
	require.NoError(t, got.Corrupt)
	require.Len(t, got.Entries, 3)
	entries := queryRow[[]byte](t, look, "select entries from saga where id = $1", [16]byte(running.ID))
	require.Equal(t, 2, bytes.Count(entries, []byte("old-key")))
	require.Equal(t, 1, bytes.Count(entries, []byte("new-key")))

	got, err := old.Read(t.Context(), running.ID)
	require.NoError(t, err)
	require.ErrorIs(t, got.Corrupt, journal.ErrNewer)
	require.ErrorContains(t, got.Corrupt, "new-key")
	audit, err := next.Reader().AuditPage(t.Context(), journal.AuditRequest{Limit: 2})
	require.NoError(t, err)
	require.Equal(t, "canary-reason", audit[1].Reason)
}

// A process without the key of a saga cannot tell whether it was started with this input. It
// does not say that the key was reused.
func TestCodec_startWithoutTheKey(t *testing.T) {
	t.Parallel()
	next, look := open(t, pgjournal.Config{Codec: aesGCM(t, "new-key", "old-key")}, func(cfg *pgxpool.Config) { cfg.MaxConns = 8 })
	old := openOn(t, look, pgjournal.Config{Codec: aesGCM(t, "old-key")}, func(cfg *pgxpool.Config) { cfg.MaxConns = 8 })
	in := journey{Trip: "north"}
	r := startTrip(t, next, beat(t, next, time.Hour), in)
	_, err := trip.Run(t.Context(), engineOn(t, old, newCallees(t)), r.Key, in)
	require.ErrorIs(t, err, journal.ErrNewer)
	require.NotErrorIs(t, err, saga.ErrKeyReused)
}

// An introduction is a codec that comes to tables with plain sagas: it opens them, and first seals nothing.
type introduction struct {
	pgjournal.Codec
	storePlain bool
}

func (i introduction) Seal(plain, associated []byte) ([]byte, error) {
	if i.storePlain {
		return plain, nil
	}
	return i.Codec.Seal(plain, associated)
}

func (introduction) OpenPlain(stored []byte) ([]byte, error) { return stored, nil }

// A plain value may begin as sealed values do.
func TestCodec_plainValuesOfAnyForm(t *testing.T) {
	t.Parallel()
	plain, look := open(t, pgjournal.Config{})
	opens := openOn(t, look, pgjournal.Config{Codec: introduction{aesGCM(t, "k1"), true}})
	for first := range byte(5) {
		for _, j := range []*pgjournal.Journal{plain, opens} {
			req := newRequest(beat(t, j, time.Hour))
			for n := 0; req.InputHash[0] != first; n++ {
				req.Input = strconv.AppendInt(nil, int64(n), 10)
				req.InputHash = sha256.Sum256(req.Input)
			}
			r, created, err := j.Start(t.Context(), req)
			require.NoError(t, err)
			require.True(t, created)
			large := withResult("a.a", bytes.Repeat([]byte{first}, 40<<10))
			reason := "r"
			if first > 0 {
				reason = string(rune(first)) + "r" // no text has a NUL
			}
			write(t, j, r, journal.Write{Entries: []journal.Entry{large}, Status: journal.Completed, Result: []byte{first}, Keep: time.Hour})
			_, won, err := j.Change(t.Context(), journal.Change{
				ID: r.ID, Revision: 2, Status: journal.Completed, Keep: time.Hour, By: journal.Audit{Verb: journal.VerbRetry, Actor: "ann", Reason: reason},
			})
			require.NoError(t, err)
			require.True(t, won)
			for _, reader := range []*pgjournal.Journal{plain, opens} {
				got, err := reader.Read(t.Context(), r.ID)
				require.NoError(t, err)
				require.NoError(t, got.Corrupt)
				require.Equal(t, req.InputHash, got.InputHash)
				require.Equal(t, req.Input, got.Input)
				require.Equal(t, []byte{first}, got.Result)
				require.Equal(t, large.Result, got.Entries[0].Result)
				log, err := reader.Reader().AuditPage(t.Context(), journal.AuditRequest{ID: r.ID, Limit: 1})
				require.NoError(t, err)
				require.NoError(t, log[0].Corrupt)
				require.Equal(t, reason, log[0].Reason)
			}
		}
	}
}

// A long log is made short without a loss.
func TestCodec_compacts(t *testing.T) {
	t.Parallel()
	j, look := open(t, pgjournal.Config{Codec: aesGCM(t, "k1")})
	r := start(t, j, beat(t, j, time.Hour))
	r = write(t, j, r, journal.Write{Entries: []journal.Entry{completed("a.a")}})
	for n := range 40 {
		e := journal.Entry{Step: "b.b", Pending: true, Outcome: retry.Unknown, Attempts: n, Detail: strings.Repeat("d", 4<<10)}
		require.NoError(t, j.Append(t.Context(), ownerOf(r), journal.Write{Revision: r.Revision + 1, Entries: []journal.Entry{e}}))
		r.Revision++
	}
	r, err := j.Read(t.Context(), r.ID)
	require.NoError(t, err)
	require.NoError(t, r.Corrupt)
	require.Len(t, r.Entries, 2)
	require.Equal(t, 39, r.Entries[1].Attempts)
	require.Less(t, queryRow[int](t, look, "select octet_length(entries) from saga"), 40*4<<10, "nothing was taken out")
}

// How a codec comes to tables that have sagas: first all can open, then they seal, then they
// refuse what is plain.
func TestCodec_comesToPlainTables(t *testing.T) {
	t.Parallel()
	plain, look := open(t, pgjournal.Config{})
	codec := aesGCM(t, "k1")
	opens := openOn(t, look, pgjournal.Config{Codec: introduction{codec, true}})
	seals := openOn(t, look, pgjournal.Config{Codec: introduction{codec, false}})
	strict := openOn(t, look, pgjournal.Config{Codec: codec})
	put := func(j journal.Journal) journal.Record {
		r := start(t, j, beat(t, j, time.Hour))
		return write(t, j, r, journal.Write{Entries: []journal.Entry{completed("a.a")}})
	}
	read := func(j journal.Journal, r journal.Record) error {
		got, err := j.Read(t.Context(), r.ID)
		require.NoError(t, err)
		return got.Corrupt
	}
	old, between, sealed := put(plain), put(opens), put(seals)
	for _, r := range []journal.Record{old, between} {
		for _, j := range []journal.Journal{plain, opens, seals} {
			require.NoError(t, read(j, r))
		}
		require.ErrorContains(t, read(strict, r), "is not sealed, and the codec has no method OpenPlain")
		require.NotErrorIs(t, read(strict, r), journal.ErrNewer)
	}
	for _, j := range []journal.Journal{opens, seals, strict} {
		require.NoError(t, read(j, sealed))
	}
	require.ErrorIs(t, read(plain, sealed), journal.ErrNewer)
	require.ErrorContains(t, read(plain, sealed), "is sealed, and the journal has no codec")
	mixed := write(t, seals, old, journal.Write{Entries: []journal.Entry{completed("b.b")}})
	require.NoError(t, mixed.Corrupt)
	require.Len(t, mixed.Entries, 2)
}

// A faulty codec breaks, panics or is cut off, as its fields say.
type faulty struct {
	pgjournal.Codec
	seal, open func() error
}

func (c *faulty) Seal(plain, associated []byte) ([]byte, error) {
	if c.seal != nil {
		if err := c.seal(); err != nil {
			return nil, err
		}
	}
	return c.Codec.Seal(plain, associated)
}

func (c *faulty) Open(sealed, associated []byte) ([]byte, error) {
	if c.open != nil {
		if err := c.open(); err != nil {
			return nil, err
		}
	}
	return c.Codec.Open(sealed, associated)
}

// A saga is not stored if the codec cannot seal its content. A saga is damaged if the codec
// cannot open it. A panic of the codec is an error.
func TestCodec_fails(t *testing.T) {
	t.Parallel()
	broken := errors.New("the key service is away")
	for _, fail := range []func() error{func() error { return broken }, func() error { panic("canary-panic") }} {
		codec := &faulty{Codec: aesGCM(t, "k1")}
		j, look := open(t, pgjournal.Config{Codec: codec})
		r := start(t, j, beat(t, j, time.Hour))
		codec.seal = fail
		_, _, err := j.Start(t.Context(), newRequest(r.Engine))
		require.ErrorIs(t, err, pgjournal.ErrSeal)
		require.NotContains(t, err.Error(), "canary")
		err = j.Append(t.Context(), ownerOf(r), journal.Write{Revision: 2, Entries: []journal.Entry{completed("a.a")}})
		require.ErrorIs(t, err, pgjournal.ErrSeal)
		require.NotErrorIs(t, err, journal.ErrLeaseLost)
		_, _, err = j.Change(t.Context(), journal.Change{ID: r.ID, Revision: 1, Status: journal.Running, By: someone})
		require.ErrorIs(t, err, pgjournal.ErrSeal)
		require.Equal(t, 1, queryRow[int](t, look, "select count(*) from saga where revision = 1"))
		codec.seal, codec.open = nil, fail
		r, err = j.Read(t.Context(), r.ID)
		require.NoError(t, err)
		require.ErrorIs(t, r.Corrupt, journal.ErrCorrupt)
		require.NotContains(t, r.Corrupt.Error(), "canary")
		listed, err := j.List(t.Context(), journal.ListRequest{Engine: r.Engine, Limit: 10})
		require.NoError(t, err)
		require.ErrorIs(t, listed[0].Corrupt, journal.ErrCorrupt)
	}
}

func TestCodec_badConfig(t *testing.T) {
	t.Parallel()
	look, err := pgxpool.New(t.Context(), "postgres://nowhere.invalid/none")
	require.NoError(t, err)
	defer look.Close()
	_, err = pgjournal.Open(t.Context(), look.Config(), pgjournal.Config{Codec: (*server.AESGCM)(nil)})
	require.ErrorIs(t, err, pgjournal.ErrConfig)
}

// An engine executes sealed sagas, one that a transaction stored with the journal's codec as
// well. One that was stored without it, or with another saga's input, gets stuck, before a
// call. A process without the codec defers sealed sagas, and harms none.
func TestCodec_underAnEngine(t *testing.T) {
	t.Parallel()
	codec := aesGCM(t, "k1")
	j, look := open(t, pgjournal.Config{Codec: codec}, func(cfg *pgxpool.Config) { cfg.MaxConns = 8 })
	c := newCallees(t)
	exec(t, look, "create table orders (id text)")
	enqueued := func(s starter, name string, cfg pgjournal.StartConfig) journal.ID {
		key := childkey.MustNew()
		for _, created := range []bool{true, false} {
			got, err := s.start(t.Context(), look, key, journey{Trip: name}, cfg, true)
			require.NoError(t, err)
			require.Equal(t, created, got)
		}
		_, err := s.start(t.Context(), look, key, journey{Trip: name + ", another"}, cfg, true)
		require.ErrorIs(t, err, saga.ErrKeyReused)
		if cfg.Codec != nil {
			_, err = s.start(t.Context(), look, key, journey{Trip: name}, pgjournal.StartConfig{}, true)
			require.ErrorIs(t, err, pgjournal.ErrSeal, "it cannot be compared")
			require.NotErrorIs(t, err, saga.ErrKeyReused)
		}
		return journal.IDOf("", "trip", key)
	}
	var sealed []journal.ID
	for _, s := range starters {
		sealed = append(sealed, enqueued(s, "sealed by "+s.name, j.StartConfig()))
	}
	without := openOn(t, look, pgjournal.Config{}, func(cfg *pgxpool.Config) { cfg.MaxConns = 8 })
	e := engineOn(t, without, c)
	for _, id := range sealed {
		var r journal.Record
		until(t, "it is deferred", func() bool { // the engine claims it again and again: between two tries it is not
			var err error
			r, err = j.Read(t.Context(), id)
			require.NoError(t, err)
			return r.Deferred != nil
		})
		require.NoError(t, r.Corrupt)
		require.Contains(t, r.Deferred.Detail, "the journal has no codec")
	}
	require.NoError(t, e.Close(t.Context()))
	plain := enqueued(starters[0], "plain", pgjournal.StartConfig{})
	forged := enqueued(starters[0], "forged", j.StartConfig())
	exec(t, look, "update saga s set (input, input_hash) = (select input, input_hash from saga where id = $2) where id = $1", [16]byte(forged), [16]byte(sealed[0]))

	engineOn(t, j, c)
	for _, id := range sealed {
		require.Equal(t, journal.Completed, ended(t, j, id).Status)
	}
	r := ended(t, j, plain)
	require.Equal(t, journal.Stuck, r.Status)
	require.Contains(t, r.StuckOn.Detail, "is not sealed")
	require.Zero(t, c.done[place{"plain", "train"}], "a call was sent for it")
	r = ended(t, j, forged)
	require.Equal(t, journal.Stuck, r.Status)
	require.Contains(t, r.StuckOn.Detail, "input cannot be opened")
	require.Zero(t, c.done[place{"forged", "train"}], "a call was sent for it")
	require.Equal(t, 1, c.done[place{"sealed by " + starters[0].name, "train"}], "a call was sent for another one's input")
	require.NotContains(t, dumpTables(t, look), "sealed by")
}

// A table can refuse what is not sealed, whoever stores it.
func TestCodec_tableRefusesPlainText(t *testing.T) {
	t.Parallel()
	j, look := open(t, pgjournal.Config{Codec: aesGCM(t, "k1")})
	exec(t, look, "alter table saga add constraint saga_sealed check (get_byte(input, 0) = 2)")
	start(t, j, beat(t, j, time.Hour))
	err := pgx.BeginFunc(t.Context(), look, func(tx pgx.Tx) error {
		_, err := pgjournal.Start(t.Context(), tx, trip, childkey.MustNew(), journey{}, pgjournal.StartConfig{})
		return err
	})
	require.ErrorContains(t, err, "saga_sealed")
}
