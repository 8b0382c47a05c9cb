package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/examples/internal/blackboxtest"
	"github.com/fanonce/fanonce/server/pgtest"
)

// A stage has one process of each phase over one database, in this process.
type stage struct {
	t    *testing.T
	pool *pgxpool.Pool
	urls map[string]string
}

func newStage(t *testing.T) *stage {
	database := pgtest.URL(t)
	cfg, err := pgxpool.ParseConfig(database)
	require.NoError(t, err)
	s := &stage{t: t, urls: map[string]string{}}
	for _, phase := range []string{"old", "both", "look", "new"} {
		service, err := open(t.Context(), config{database: cfg, phase: phase, lock: time.Hour})
		require.NoError(t, err)
		web := httptest.NewServer(service)
		t.Cleanup(func() {
			web.Close()
			require.NoError(t, service.Drain(context.WithoutCancel(t.Context())))
			service.Close()
		})
		s.urls[phase], s.pool = web.URL, service.database.Pool
	}
	return s
}

func (s *stage) post(phase, key, body string) blackboxtest.Answer {
	return blackboxtest.Post(s.t.Context(), blackboxtest.Request{URL: s.urls[phase] + "/transfers", Tenant: "t", Key: key, Body: body})
}

// insert makes a row of the old table. The lock of the stage is an hour.
func (s *stage) insert(key, body, rest string) {
	_, err := s.pool.Exec(s.t.Context(), `insert into idempotency_keys (tenant, key, request_hash, status, locked_at, response_code, response_body)
values ('t', $1, $2, 0, `+rest+`)`, key, hashOf([]byte(body)))
	require.NoError(s.t, err)
}

func (s *stage) count(sql string, args ...any) (n int) {
	require.NoError(s.t, s.pool.QueryRow(s.t.Context(), sql, args...).Scan(&n))
	return n
}

const (
	small = `{"cents":7}`
	large = `{"cents":7777}`
)

// What one kind of process answered, the other kind answers too, to a key of any form and whatever the status.
func TestAnswers_areSeenByTheOtherKind(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	long := strings.Repeat("long", 100)
	for _, ways := range [][2]string{{"old", "both"}, {"old", "look"}, {"both", "old"}, {"both", "look"}, {"both", "new"}, {"look", "new"}, {"new", "both"}} {
		for body, status := range map[string]int{small: http.StatusCreated, large: http.StatusPaymentRequired} {
			for _, key := range []string{"k", "a space", long, "schlüssel"} {
				key += fmt.Sprint(ways, status)
				first := s.post(ways[0], key, body)
				require.Equal(t, status, first.Status, "%s %s: %s", ways, key, first.Body)
				for range 2 {
					second := s.post(ways[1], key, body)
					require.Equal(t, first.Status, second.Status, "%s %s: %s", ways, key, second.Body)
					require.Equal(t, first.Body, second.Body)
					require.Equal(t, first.Header.Get("Content-Type"), second.Header.Get("Content-Type"))
				}
				rows := 0
				if status == http.StatusCreated {
					rows = 1
				}
				require.Equal(t, rows, s.count("select count(*) from transfers where key = $1", key))
			}
		}
	}
}

// The old code stored answers that a guard would not.
func TestReplay_ofStatusesThatAGuardDoesNotStore(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	for _, phase := range []string{"both", "look"} {
		for _, status := range []string{"500", "403", "429", "204"} {
			s.insert(phase+status, small, "null, "+status+", '{}'")
			for range 2 {
				got := s.post(phase, phase+status, small)
				require.Equal(t, status, strconv.Itoa(got.Status), got.Body)
				require.NotEqual(t, "true", got.Header.Get("Idempotency-Should-Retry"))
			}
		}
	}
	require.Zero(t, s.count("select count(*) from transfers"))
}

// While an old process works on a key, callers are told so, and may come again. They get its answer.
func TestBusy(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	for _, phase := range []string{"both", "look"} {
		s.insert(phase, small, "now(), null, null")
		busy := s.post(phase, phase, small)
		require.Equal(t, http.StatusConflict, busy.Status)
		require.Equal(t, "1", busy.Header.Get("Retry-After"))
		require.Equal(t, "true", busy.Header.Get("Idempotency-Should-Retry"))

		_, err := s.pool.Exec(t.Context(), "update idempotency_keys set locked_at = null, response_code = 201, response_body = 'mine' where key = $1", phase)
		require.NoError(t, err)
		require.Equal(t, "mine", s.post(phase, phase, small).Body)
	}
	require.Zero(t, s.count("select count(*) from transfers"))
}

// An old process that died left its claim. The key is free when the old code would take it, and a process that was only
// slow finds its claim gone.
func TestDeadOwner(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	for _, phase := range []string{"both", "look"} {
		s.insert(phase, small, "now() - interval '2 hours', null, null")
		require.Equal(t, http.StatusCreated, s.post(phase, phase, small).Status)
		require.Equal(t, 1, s.count("select count(*) from transfers where key = $1", phase))
	}
	require.Zero(t, s.count("select count(*) from idempotency_keys where key = 'both' and locked_at is not null"))
}

// A key of the old table is bound to its first request. Another one neither gets the answer nor takes the key.
func TestReuse(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	for _, phase := range []string{"both", "look"} {
		first := s.post("old", phase, small)
		reused := s.post(phase, phase, large)
		require.Equal(t, http.StatusUnprocessableEntity, reused.Status)
		require.Equal(t, "false", reused.Header.Get("Idempotency-Should-Retry"))
		require.Equal(t, first.Body, s.post(phase, phase, small).Body)
		require.Equal(t, http.StatusUnprocessableEntity, s.post(phase, phase, large).Status, "now by the guard")
	}
	s.post("both", "new first", small)
	require.Equal(t, http.StatusUnprocessableEntity, s.post("old", "new first", large).Status)
}

// The table is not written to in the phase that only reads it, and not needed in the last one.
func TestPhases_endTheTable(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	require.Equal(t, http.StatusCreated, s.post("look", "k", small).Status)
	require.Zero(t, s.count("select count(*) from idempotency_keys"))
	_, err := s.pool.Exec(t.Context(), "drop table idempotency_keys")
	require.NoError(t, err)
	require.Equal(t, http.StatusCreated, s.post("new", "l", small).Status)
	require.Equal(t, http.StatusServiceUnavailable, s.post("look", "m", small).Status)
}

// The guide shows the statement that the wrapper sends. (Its Go code is compared by examples/readme.)
func TestGuide(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile("../../server/ADOPT.md")
	require.NoError(t, err)
	require.Contains(t, string(guide), "```sql\n"+claimRow+"\n```")
}
