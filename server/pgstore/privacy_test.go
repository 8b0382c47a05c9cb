package pgstore_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgstore"
)

// Requests end in every way, with marks in all their parts. No mark can be read
// in a dump of the tables, in the log, or in a refusal. Without a codec only
// the answer's own body and headers and the memo can be read in the dump.
func TestPrivacy_dumpOfTheTables(t *testing.T) {
	t.Parallel()
	for _, sealed := range []bool{true, false} {
		for _, layout := range []pgstore.Answers{pgstore.AnswersInline, pgstore.AnswersPartitioned} {
			t.Run(fmt.Sprintf("sealed %v, layout %d", sealed, layout), func(t *testing.T) {
				t.Parallel()
				store, look := open(t, pgstore.Config{Answers: layout})
				require.NoError(t, store.MaintainPartitions(t.Context(), server.DefaultAuditRetention))
				var log logOutput
				cfg := server.Config{Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})), Lease: time.Second}
				if sealed {
					codec, err := server.NewAESGCM(server.AESKey{ID: "k1", Secret: make([]byte, server.AESKeyBytes)})
					require.NoError(t, err)
					cfg.Codec = codec
				}
				refusals := requestsOfAllKinds(t, store, cfg)
				dump := dumpTables(t, look)
				for _, mark := range []string{"canary-key", "canary-scope", "canary-body", "canary-query", "canary-memo", "canary-answer", "canary-location"} {
					readable := strings.Contains(dump, mark)
					allowed := !sealed && (mark == "canary-answer" || mark == "canary-location" || mark == "canary-memo")
					require.Equal(t, allowed, readable, "%s in the tables", mark)
					require.NotContains(t, log.String(), mark)
					require.NotContains(t, refusals, mark)
				}
			})
		}
	}
}

// requestsOfAllKinds returns what the guard itself answered.
func requestsOfAllKinds(t *testing.T, store *pgstore.Store, cfg server.Config) (refusals string) {
	t.Helper()
	g, err := server.NewGuard(store, func(*http.Request) (string, error) { return "canary-scope", nil }, cfg)
	require.NoError(t, err)
	fail := false
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if fail {
			panic("canary-answer")
		}
		w.Header().Set("Location", "/canary-location")
		_, _ = w.Write([]byte("canary-answer"))
	})
	var out strings.Builder
	for _, effect := range []server.Effect{server.Transactional, server.Keyed, server.Opaque} {
		route := server.Route{Effect: effect, Name: "route"}
		if effect == server.Opaque {
			route.Memo = func(*http.Request, []byte) ([]byte, error) { return []byte("canary-memo"), nil }
		}
		h, err := g.Route(route, handler)
		require.NoError(t, err)
		post := func(key, body string, headers ...string) {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/x?canary-query", strings.NewReader(body))
			r.Header.Set("Idempotency-Key", key)
			for i := 0; i < len(headers); i += 2 {
				r.Header.Set(headers[i], headers[i+1])
			}
			w := httptest.NewRecorder()
			func() {
				defer func() { _ = recover() }()
				h.ServeHTTP(w, r)
			}()
			if w.Code >= 400 {
				fmt.Fprintln(&out, w.Code, w.Header(), w.Body)
			}
		}
		key := "canary-key-" + effect.String()
		post(key, "canary-body")
		post(key, "canary-body")
		post(key, "canary-body, another")
		post(key+" canary-key", "canary-body")
		fail = true
		post(key+"-panic", "canary-body")
		fail = false
		post(key+"-panic", "canary-body")
		post(key+"-old", "canary-body", "Idempotency-First-Sent", "2020-01-01T00:00:00Z")
	}
	return out.String()
}

// dumpTables returns every row of every table as text, bytes as they are.
func dumpTables(t *testing.T, look *pgxpool.Pool) string {
	t.Helper()
	var dump strings.Builder
	for _, table := range []string{"idempotency", "idempotency_answer", "idempotency_audit"} {
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
			}
		}
		require.NoError(t, rows.Err())
	}
	if dump.Len() == 0 {
		t.Fatal("nothing was dumped: this shows nothing")
	}
	return dump.String()
}

// ANALYZE keeps no answer, memo or input: they would stay in the statistics when the rows are
// gone, also those of partitions that others made.
func TestPrivacy_statistics(t *testing.T) {
	t.Parallel()
	for _, layout := range []pgstore.Answers{pgstore.AnswersInline, pgstore.AnswersPartitioned} {
		t.Run(fmt.Sprintf("layout %d", layout), func(t *testing.T) {
			t.Parallel()
			store, look := open(t, pgstore.Config{Answers: layout})
			theirs := ""
			if layout == pgstore.AnswersPartitioned {
				theirs = addPartition(t, look, "20060102", 24*time.Hour, int(server.DefaultAuditRetention/(24*time.Hour)))
			}
			require.NoError(t, store.MaintainPartitions(t.Context(), server.DefaultAuditRetention))
			for range 20 { // what comes often is what ANALYZE keeps
				requestsOfAllKinds(t, store, server.Config{Lease: time.Second})
				_, err := look.Exec(t.Context(), "update idempotency set key = gen_random_uuid()")
				require.NoError(t, err)
			}
			_, _, err := store.Intents().Begin(t.Context(), keyOf(t, "i"), "n", []string{"canary-part"})
			require.NoError(t, err)
			if theirs != "" {
				exec(t, look, "insert into idempotency_answer select now() + interval '7 days', gen_random_uuid(), 'canary-answer' from generate_series(1, 100)")
				require.GreaterOrEqual(t, queryRow[int](t, look, "select count(*) from "+theirs), 100)
			}
			exec(t, look, "analyze")
			require.NotZero(t, queryRow[int](t, look, "select count(*) from pg_stats where tablename = 'idempotency'"), "it was analyzed")
			require.Zero(t, queryRow[int](t, look, `select count(*) from pg_stats where tablename like 'idempotency%'
				and attname in ('envelope', 'memo', 'fingerprint', 'parts')`))
			for _, canary := range []string{"canary-answer", "canary-memo", "canary-location", "canary-part"} {
				require.Zero(t, queryRow[int](t, look, `select count(*) from pg_stats where tablename like 'idempotency%'
					and (position($1 in pg_stats::text) > 0 or position(encode($1::bytea, 'hex') in pg_stats::text) > 0)`, canary), canary)
			}
		})
	}
}
