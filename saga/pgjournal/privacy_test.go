package pgjournal_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/saga/pgjournal"
	"github.com/fanonce/fanonce/server/pgtest"
)

var canaries = []string{
	"canary-input", "canary-result", "canary-large", "canary-detail", "canary-problem", "canary-cause",
	"canary-stuck", "canary-forced", "canary-reason", "canary-out", "canary-deferred", "canary-woken", "canary-why",
	"canary-body", "canary-body-cause", "canary-body-stuck",
}

// sagasOfAllKinds leaves content in all places where a journal has any.
func sagasOfAllKinds(t *testing.T, j journal.Journal) (running, over journal.Record) {
	t.Helper()
	engine := beat(t, j, time.Hour)
	entries := []journal.Entry{
		{
			Step: "a.b", Outcome: retry.Unknown, Pending: true, Attempts: 1, Status: 503, Code: wire.StoreUnavailable,
			Detail: "canary-detail", Problem: "canary-problem", Result: []byte(`"canary-result"`), Forced: "canary-forced",
			Body: []byte(`"canary-body"`),
		},
		withResult("c.d", []byte(`"`+strings.Repeat("canary-large ", 4<<10)+`"`)),
	}
	put := func(note string) journal.Record {
		req := newRequest(engine)
		req.Input = []byte(`{"of":"canary-input ` + note + `"}`)
		req.InputHash = sha256.Sum256(req.Input)
		r, _, err := j.Start(t.Context(), req)
		require.NoError(t, err)
		return write(t, j, r, journal.Write{
			Status: journal.Compensating, Entries: entries, Cause: &journal.Failure{
				Reason: journal.ReasonStep, Step: "a.b", Detail: "canary-cause", Body: []byte(`"canary-body-cause"`),
			},
		})
	}
	running = put("running")
	over = write(t, j, put("over"), journal.Write{Status: journal.Completed, Result: []byte(`"canary-out"`), Keep: time.Hour})
	obstacle := &journal.Failure{Reason: journal.ReasonStep, Detail: "canary-stuck", Body: []byte(`"canary-body-stuck"`)}
	stuck := write(t, j, put("stuck"), journal.Write{Status: journal.Stuck, StuckOn: obstacle})
	_, won, err := j.Change(t.Context(), journal.Change{
		ID: stuck.ID, Revision: stuck.Revision, Status: journal.Abandoned, Entries: entries, Keep: time.Hour,
		By: journal.Audit{Verb: journal.VerbAbandon, Actor: "ann", Reason: "canary-reason"},
	})
	require.NoError(t, err)
	require.True(t, won)
	write(t, j, put("stays stuck"), journal.Write{Status: journal.Stuck, StuckOn: obstacle})
	deferred := put("deferred")
	require.NoError(t, j.Append(t.Context(), ownerOf(deferred), journal.Write{
		Revision: deferred.Revision + 1, Defer: &journal.Failure{Reason: journal.ReasonNewer, Detail: "canary-deferred"},
	}))
	waits := put("waits")
	_, won, err = j.Change(t.Context(), journal.Change{
		ID: waits.ID, Revision: waits.Revision, Wake: true, By: journal.Audit{Verb: journal.VerbRetryNow, Actor: "ann", Reason: "canary-why"},
		Entries: []journal.Entry{{Step: "e.f", Outcome: retry.Unknown, Pending: true, Detail: "canary-woken"}},
	})
	require.NoError(t, err)
	require.True(t, won)
	return running, over
}

// With a codec a dump of the tables shows none of the content of sagas. Without one it shows
// all of it: so the dump is known to look everywhere.
func TestPrivacy_dumpOfTheTables(t *testing.T) {
	t.Parallel()
	for _, sealed := range []bool{true, false} {
		for _, separate := range []bool{false, true} {
			t.Run(fmt.Sprintf("sealed %v, separate %v", sealed, separate), func(t *testing.T) {
				t.Parallel()
				var log bytes.Buffer
				cfg := pgjournal.Config{SeparateCommits: separate, Logger: slog.New(slog.NewTextHandler(&log, nil))}
				if sealed {
					cfg.Codec = aesGCM(t, "k1")
				}
				j, look := open(t, cfg)
				running, over := sagasOfAllKinds(t, j)
				require.NotZero(t, queryRow[int](t, look, "select count(*) from saga_result"))
				require.NotZero(t, queryRow[int](t, look, "select count(*) from saga where stuck_on is not null"))
				dump := dumpTables(t, look)
				for _, canary := range canaries {
					require.Equal(t, !sealed, strings.Contains(dump, canary), canary)
					require.NotContains(t, log.String(), canary)
				}
				hash := running.InputHash
				require.Equal(t, !sealed, strings.Contains(dump, string(hash[:])), "the hash to guess an input by")

				require.Contains(t, string(running.Input), "canary-input")
				require.Equal(t, "canary-detail", running.Entries[0].Detail)
				require.Contains(t, string(running.Entries[1].Result), "canary-large")
				require.Equal(t, "canary-cause", running.Cause.Detail)
				require.Equal(t, `"canary-body"`, string(running.Entries[0].Body))
				require.Equal(t, `"canary-body-cause"`, string(running.Cause.Body))
				require.Equal(t, `"canary-out"`, string(over.Result))
				audit, err := j.Reader().AuditPage(t.Context(), journal.AuditRequest{Limit: 10})
				require.NoError(t, err)
				require.Equal(t, "canary-why", audit[0].Reason)
				require.Equal(t, "canary-reason", audit[1].Reason)
				require.NoError(t, errors.Join(audit[0].Corrupt, audit[1].Corrupt))
				deferred, err := j.List(t.Context(), journal.ListRequest{Deferred: true, Limit: 10})
				require.NoError(t, err)
				require.Len(t, deferred, 1)
				require.NoError(t, deferred[0].Corrupt)
				require.Equal(t, "canary-deferred", deferred[0].Deferred.Detail)
			})
		}
	}
}

// Shared commits seal as well: one of starts, one of writes, one of sagas that complete.
func TestPrivacy_sharedCommits(t *testing.T) {
	t.Parallel()
	look := pgtest.NewPool(t, pgjournal.Migrate)
	j, pool := openSingle(t, look, pgjournal.Config{Codec: aesGCM(t, "k1")})
	engine := beat(t, j, time.Hour)
	const sagas = 3
	var ids []journal.ID
	share := func(do func(i int) error) {
		var dos []func() error
		for i := range sagas {
			dos = append(dos, func() error { return do(i) })
		}
		for _, err := range flushing(t, j, pool, dos...)() {
			require.NoError(t, err)
		}
		require.Equal(t, 1, queryRow[int](t, look, "select count(distinct xmin::text) from saga"), "not one commit")
	}
	var requests []journal.StartRequest
	for range sagas {
		req := newRequest(engine)
		req.Input = []byte(`"canary-input ` + req.Key.String() + `"`)
		req.InputHash = sha256.Sum256(req.Input)
		requests, ids = append(requests, req), append(ids, req.ID)
	}
	share(func(i int) error {
		_, _, err := j.Start(t.Context(), requests[i])
		return err
	})
	failure := &journal.Failure{Reason: journal.ReasonStep, Step: "a.b", Detail: "canary-cause"}
	entry := completed("a.b")
	entry.Result = []byte(`"canary-result"`)
	share(func(i int) error {
		return j.Append(t.Context(), journal.Owner{ID: ids[i], Engine: engine, Fence: 1}, journal.Write{
			Revision: 2, Status: journal.Compensating, Entries: []journal.Entry{entry}, Cause: failure, StuckOn: failure, Result: []byte(`"canary-out"`),
		})
	})
	refuseCanaries := func() {
		t.Helper()
		dump := dumpTables(t, look)
		require.NotContains(t, dump, "canary")
		for _, req := range requests {
			require.NotContains(t, dump, string(req.InputHash[:]), "the hash to guess an input by")
		}
	}
	refuseCanaries()
	share(func(i int) error {
		return j.Append(t.Context(), journal.Owner{ID: ids[i], Engine: engine, Fence: 1}, journal.Write{
			Revision: 3, Status: journal.Completed, Entries: []journal.Entry{entry}, Result: []byte(`"canary-end"`), Keep: time.Hour,
		})
	})
	refuseCanaries()
	for _, id := range ids {
		r, err := j.Read(t.Context(), id)
		require.NoError(t, err)
		require.NoError(t, r.Corrupt)
		require.Equal(t, `"canary-end"`, string(r.Result))
		require.Equal(t, failure, r.Cause)
	}
}

// dumpTables returns every row of every table as text, bytes as they are. Text in base64 or in hex
// is there once more as bytes.
func dumpTables(t *testing.T, look *pgxpool.Pool) string {
	t.Helper()
	var dump strings.Builder
	for _, table := range []string{"saga", "saga_result", "saga_local", "saga_signal", "saga_engine", "saga_plan", "saga_audit"} {
		rows, err := look.Query(t.Context(), "select * from "+table)
		require.NoError(t, err)
		for rows.Next() {
			values, err := rows.Values()
			require.NoError(t, err)
			for _, v := range values {
				if b, ok := v.([]byte); ok {
					v = string(b)
				}
				fmt.Fprintln(&dump, v)
				if text, ok := v.(string); ok {
					for _, decode := range []func(string) ([]byte, error){base64.StdEncoding.DecodeString, hex.DecodeString} {
						if b, err := decode(strings.TrimLeft(text, "\x02")); err == nil {
							fmt.Fprintln(&dump, string(b))
						}
					}
				}
			}
		}
		require.NoError(t, rows.Err())
	}
	require.NotZero(t, dump.Len())
	return dump.String()
}
