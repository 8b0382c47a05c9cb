package pgstore_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/store"
)

func charge(h http.Handler, key string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/charges", strings.NewReader("10"))
	r.Header.Set(wire.HeaderKey, key)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// A desk has two processes over one database. Their runs fail until the bank is
// well. verdict is the reconciler's resolution for these runs.
type desk struct {
	store   *pgstore.Store
	guards  [2]*server.Guard
	routes  [2]http.Handler
	well    atomic.Bool
	runs    atomic.Int64
	verdict server.Resolution

	mu    sync.Mutex
	asked map[string]int // by memo
}

func openDesk(t *testing.T, verdict server.Resolution) *desk {
	t.Helper()
	d := &desk{verdict: verdict, asked: make(map[string]int)}
	under, look := open(t, pgstore.Config{})
	d.store = under
	for i, s := range []*pgstore.Store{under, openOn(t, look, pgstore.Config{})} {
		var err error
		d.guards[i], err = server.NewGuard(s, server.Unscoped, server.Config{})
		require.NoError(t, err)
		d.routes[i], err = d.guards[i].Route(server.Route{
			Effect: server.Opaque, Name: "charges", Reconcile: d.reconcile,
		}, d)
		require.NoError(t, err)
	}
	return d
}

func (d *desk) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	d.runs.Add(1)
	if !d.well.Load() {
		w.WriteHeader(http.StatusGatewayTimeout)
	}
}

func (d *desk) reconcile(_ context.Context, c store.Record) (server.Resolution, error) {
	time.Sleep(time.Millisecond) // a bank takes time to answer: other calls come meanwhile
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked[string(c.Memo)]++
	return d.verdict, nil
}

// Two processes sweep and are called at once. For each key one process asks,
// once, and one verdict is applied and recorded.
func TestReconcile_processes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		verdict server.Resolution
		status  int
		runs    int64 // of each key
	}{
		{"happened", server.Happened(server.Response{Status: http.StatusCreated, Body: []byte("7")}), http.StatusCreated, 1},
		{"never happened", server.NeverHappened(), http.StatusOK, 2},
		{"abandoned", server.Abandoned(), http.StatusGone, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := openDesk(t, tt.verdict)
			lost := []string{"a", "b", "c", "d", "e"}
			for _, key := range lost {
				require.Equal(t, http.StatusGatewayTimeout, charge(d.routes[0], key).Code)
			}
			d.well.Store(true)
			var resolved atomic.Int64
			var wg sync.WaitGroup
			for i := range 4 {
				wg.Go(func() {
					n, err := d.guards[i%2].Reconcile(t.Context())
					if err != nil {
						t.Error(err)
					}
					resolved.Add(int64(n))
				})
				for _, key := range lost {
					wg.Go(func() { charge(d.routes[i%2], key) })
				}
			}
			wg.Wait()
			for _, key := range lost {
				memo, err := childkey.Hop("unscoped", "", keyOf(t, key))
				require.NoError(t, err)
				require.Equal(t, 1, d.asked[memo.String()], "asked about %s", key)
				require.Equal(t, tt.status, charge(d.routes[1], key).Code)
			}
			require.Equal(t, tt.runs*int64(len(lost)), d.runs.Load())
			require.LessOrEqual(t, resolved.Load(), int64(len(lost)))
			log, err := d.store.Reader().AuditPage(t.Context(), store.AuditRequest{Limit: 100})
			require.NoError(t, err)
			require.Len(t, log, len(lost))
			for _, entry := range log {
				require.Equal(t, "reconciler", entry.Actor)
				require.Equal(t, server.StateUnknown, entry.From)
			}
		})
	}
}

// A dead run that is older than many other Opaque records is found by the sweep, and listed from then on.
func TestList_deadRunBehindManyOpaqueRecords(t *testing.T) {
	t.Parallel()
	s, look := open(t, pgstore.Config{})
	fill := func(records int) {
		exec(t, look, `insert into idempotency (fence, created_at, lease_until, expires_at, effect, fingerprint_version, key, token, fingerprint, state, status, replay_until, route, memo)
			select 1, now() - n * interval '1 ms', now(), now() + interval '2 days', 3, 1, gen_random_uuid(), gen_random_uuid(), sha256('x'), 2, 200, now(), 'charge', ''
			from generate_series(1, $1) n`, records)
	}
	dead := claimOf(random())
	dead.Effect, dead.Route = store.Opaque, "charge"
	claimAs(t, s, dead)
	lapse(t, look)
	listed := func() []store.Record {
		all, err := s.Reader().List(t.Context(), store.ListRequest{States: []store.State{store.StateInProgress}, Effect: store.Opaque, Limit: 10})
		require.NoError(t, err)
		return all
	}
	require.Len(t, listed(), 1, "among the youngest")
	exec(t, look, "update idempotency set created_at = created_at - interval '1 hour'")
	fill(11_000)
	require.Empty(t, listed(), "behind the youngest, and not noted")
	_, err := s.Sweep(t.Context(), 100)
	require.NoError(t, err)
	require.Len(t, listed(), 1, "noted")
	a, err := s.Reader().Attention(t.Context())
	require.NoError(t, err)
	require.Equal(t, store.Attention{}, a, "nobody has to decide yet")
	to := store.StateUnknown
	_, ok, err := s.Quarantine(t.Context(), store.QuarantineRequest{ID: dead.ID, From: 1, To: to, Route: "charge"})
	require.NoError(t, err)
	require.True(t, ok)
	require.Empty(t, listed())
	_, err = s.Sweep(t.Context(), 100)
	require.NoError(t, err)
	a, err = s.Reader().Attention(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 1, a.Unknown, "its note is that of the unknown key")
}
