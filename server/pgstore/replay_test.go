package pgstore_test

import (
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/internal/pgkit"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/store"
)

// A first call is one statement, and so is the read of a retry. A duplicate that is not marked as a retry takes two.
// Duplicates add no cost to a first call.
func TestClaim_roundTrips(t *testing.T) {
	t.Parallel()
	seen := new(trips)
	s, _ := open(t, pgstore.Config{}, seen.watch, size(1))
	claimed := func(req store.ClaimRequest, want bool) {
		_, won, err := s.Claim(t.Context(), req)
		require.NoError(t, err)
		require.Equal(t, want, won)
	}
	for _, tt := range []struct {
		name   string
		exists bool
		ask    func(req store.ClaimRequest)
		want   int64
	}{
		{"first", false, func(req store.ClaimRequest) { claimed(req, true) }, 1},
		{"duplicate", true, func(req store.ClaimRequest) { claimed(req, false) }, 2},
		{"retry", true, func(req store.ClaimRequest) {
			r, err := s.Read(t.Context(), req.ID)
			require.NoError(t, err)
			require.Equal(t, store.StateInProgress, r.State)
		}, 1},
	} {
		for range 2 { // the first time each statement is described
			req := newClaim()
			if tt.exists {
				claimAs(t, s, claimOf(req.ID))
			}
			if trips := seen.count(func() { tt.ask(req) }); trips == tt.want {
				tt.want = 0
				break
			}
		}
		require.Zero(t, tt.want, "round trips of: %s", tt.name)
	}
}

// Records that are read together equal records that are read alone.
func TestRead_together(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t *testing.T) (*pgstore.Store, *pgxpool.Pool){
		"inline":     func(t *testing.T) (*pgstore.Store, *pgxpool.Pool) { return open(t, pgstore.Config{}, size(4)) },
		"partitions": func(t *testing.T) (*pgstore.Store, *pgxpool.Pool) { return openPartitioned(t, time.Hour, 24*time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, look := open(t)
			alone := openOn(t, look, pgstore.Config{SeparateCommits: true, Answers: pgstore.AnswersLeaving})
			ids := make([]store.ID, 40)
			for i := range ids {
				req := newClaim()
				if i%4 == 1 {
					req.Effect, req.Route, req.Memo = store.Opaque, "POST /wire", []byte("memo")
				}
				ids[i] = req.ID
				if i%4 == 3 {
					continue // absent
				}
				if o := claimAs(t, s, req); i%4 == 2 {
					require.NoError(t, s.Settle(t.Context(), o, completion))
				}
			}
			var wg sync.WaitGroup
			for caller := range 64 {
				wg.Go(func() {
					for i := range ids {
						id := ids[(i+caller)%len(ids)]
						got, err := s.Read(t.Context(), id)
						want, wantErr := alone.Read(t.Context(), id)
						got.Now, want.Now = time.Time{}, time.Time{}
						if wantErr == nil {
							require.NoError(t, err)
						} else {
							require.ErrorIs(t, wantErr, store.ErrNotFound) // else the comparison says nothing
							require.ErrorIs(t, err, store.ErrNotFound)
						}
						require.Equal(t, want, got)
					}
				})
			}
			wg.Wait()
		})
	}
}

// For any estimate of the table's size, the server looks many keys up one by
// one.
func TestRead_looksRecordsUp(t *testing.T) {
	t.Parallel()
	_, look := open(t, pgstore.Config{})
	for _, n := range []int{0, 1_000, 20_000} {
		exec(t, look, `insert into idempotency (key, token, fence, state, effect, fingerprint_version, created_at, lease_until, expires_at)
			select gen_random_uuid(), gen_random_uuid(), 1, 1, 2, 1, now(), now(), now() from generate_series(1, $1)`, n)
		for _, analyzed := range []bool{false, true} {
			if analyzed {
				exec(t, look, "analyze idempotency")
			}
			for _, file := range []string{"read_many", "read_many_partitioned"} {
				if analyzed && n == 0 {
					continue // a scan of an empty table is one page
				}
				text := explained(t, look, file)
				require.NotContains(t, text, "Seq Scan on idempotency", "%s with %d records", file, n)
				require.Regexp(t, `idempotency_pkey.*Index Cond: \(key = k\.key\)`, text, "%s with %d records", file, n)
			}
		}
	}
}

func explained(t *testing.T, look *pgxpool.Pool, file string) string {
	t.Helper()
	q, err := pgkit.LoadQuery(os.DirFS("query"), file+".sql", "")
	require.NoError(t, err)
	st := q.Bind(pgx.NamedArgs{"keys": make([][16]byte, 64)})
	require.NoError(t, st.Err())
	lines, err := look.Query(t.Context(), "explain "+st.SQL, st.Args...)
	require.NoError(t, err)
	text, err := pgx.CollectRows(lines, pgx.RowTo[string])
	require.NoError(t, err)
	return strings.Join(text, " ")
}
