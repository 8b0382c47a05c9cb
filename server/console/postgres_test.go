package console_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/console"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/pgtest"
	"github.com/fanonce/fanonce/server/store"
)

// A payments is a service over Postgres whose provider is broken or not, and a console of it.
type payments struct {
	*site
	reader *pgstore.Reader
	route  http.Handler
	broken bool
}

func newPayments(t *testing.T) *payments {
	t.Helper()
	pool := pgtest.NewPool(t, pgstore.Migrate)
	require.NoError(t, pgstore.AddReaderIndexes(t.Context(), pool, ""))
	cfg := pool.Config()
	pgstore.Prepare(cfg)
	prepared, err := pgxpool.NewWithConfig(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(prepared.Close)
	under, err := pgstore.New(prepared, pgstore.Config{})
	require.NoError(t, err)
	t.Cleanup(under.Close)
	p := &payments{broken: true}
	p.reader, err = pgstore.NewReader(prepared, pgstore.ReaderConfig{StatementTimeout: 10 * time.Second})
	require.NoError(t, err)
	guard, err := server.NewGuard(under, server.Unscoped, server.Config{})
	require.NoError(t, err)
	p.route, err = guard.Route(server.Route{Name: "POST /charges", Effect: server.Opaque}, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if p.broken {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusCreated)
	}))
	require.NoError(t, err)
	p.site = newSite(t, console.Config{Stores: []console.Store{{Name: "payments", Reader: p.reader, Guard: guard}}})
	return p
}

// call sends the charge with that number, and returns the status.
func (p *payments) call(i int) int {
	r := httptest.NewRequest(http.MethodPost, "/charges", strings.NewReader("{}"))
	r.Header.Set("Idempotency-Key", fmt.Sprintf("k-%d", i))
	w := httptest.NewRecorder()
	p.route.ServeHTTP(w, r)
	return w.Code
}

// The console over Postgres: handlers that fail leave unknown keys, and one verb settles all of them.
func TestConsole_postgres(t *testing.T) {
	t.Parallel()
	s := newPayments(t)
	const n = 150 // more than a page of the list and a part of the work
	for i := range n {
		require.Equal(t, http.StatusInternalServerError, s.call(i))
	}
	require.Equal(t, http.StatusLocked, s.call(0), "nobody knows whether it was charged")

	require.Contains(t, s.get("/").text(), "150 things that need a person")
	list := s.get("/keys?state=unknown&route=POST+%2Fcharges")
	require.Contains(t, list.text(), "POST /charges")
	require.Contains(t, list.text(), "Next page")
	require.Contains(t, s.get("/keys?state=any").text(), "POST /charges")
	require.Contains(t, s.get("/keys?state=completed").text(), "No key of payments matches")

	form := list.form("/confirm")
	form.Set("verb", "run-again")
	form.Set("which", "all")
	confirmation := s.post("/confirm", form)
	require.Contains(t, confirmation.text(), "150 keys")
	done := confirmation.form("/do")
	done.Set("reason", "the bank has no charge")
	done.Set("count", done.Get("total"))
	result := s.post("/do", done)
	for strings.Contains(result.Body.String(), "data-continue") {
		result = s.post("/do", result.form("/do"))
	}
	require.Contains(t, result.text(), "ended")
	batch := s.get(result.link("/audit?in=")).text()
	require.Contains(t, batch, "[batch "+done.Get("batch")+"] the bank has no charge")
	require.Contains(t, batch, "Next page")
	left, err := s.reader.Attention(context.Background())
	require.NoError(t, err)
	require.Zero(t, left.Unknown)
	entries, err := s.reader.AuditPage(context.Background(), store.AuditRequest{Actor: "ada", Limit: 1000})
	require.NoError(t, err)
	require.Len(t, entries, n)

	s.broken = false
	require.Equal(t, http.StatusCreated, s.call(0), "the next call runs")
	key := s.get("/key?in=payments&id=" + entries[0].ID.String()).text()
	require.Contains(t, key, "the bank has no charge")
	first := s.get("/audit?in=payments&actor=ada")
	require.Contains(t, first.text(), "Next page")
	require.Equal(t, http.StatusOK, s.get("/request?id="+entries[0].ID.String()).Code)
}
