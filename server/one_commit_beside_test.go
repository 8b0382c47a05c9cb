package server_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/memstore"
	"github.com/fanonce/fanonce/server/store"
)

// A claimStore lets single claims fail.
type claimStore struct {
	*planStore

	slow time.Duration                       // of a claim, before it is made
	fail func(try int) (before, after error) // nil: none fails
	try  int
}

func newClaimStore(fail func(try int) (before, after error)) *claimStore {
	return &claimStore{fail: fail, planStore: &planStore{Store: memstore.New(), fail: func(int) (error, error) { return nil, nil }}}
}

func (s *claimStore) Claim(ctx context.Context, req store.ClaimRequest) (store.Record, bool, error) {
	s.try++
	time.Sleep(s.slow)
	var before, after error
	if s.fail != nil {
		before, after = s.fail(s.try)
	}
	if before != nil {
		return store.Record{}, false, before
	}
	r, won, err := s.Store.Claim(ctx, req)
	if after != nil {
		return store.Record{}, false, after
	}
	return r, won, err
}

// A planning is a service with one route with OneCommit. Its handler waits until the test lets it go on.
type planning struct {
	h          http.Handler
	store      *claimStore
	runs, rows int
	goOn       chan func(http.ResponseWriter) // nil: the handler succeeds
}

func newPlanning(t *testing.T, s *claimStore) *planning {
	t.Helper()
	p := &planning{store: s, goOn: make(chan func(http.ResponseWriter))}
	g, err := server.NewGuard(s, server.Unscoped, server.Config{})
	require.NoError(t, err)
	p.h, err = g.Route(server.Route{Effect: server.Transactional, OneCommit: true}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.runs++
		require.NoError(t, memstore.Tx(r.Context()).Do(func() { p.rows++ }))
		if do := <-p.goOn; do != nil {
			do(w)
			return
		}
		fmt.Fprint(w, "done")
	}))
	require.NoError(t, err)
	t.Cleanup(func() {
		close(p.goOn) // a test that failed left a handler
		require.NoError(t, g.Shutdown(context.Background()))
	})
	return p
}

// post sends a request in the background. payload tells it from others with the same key.
func (p *planning) post(payload string, headers ...string) <-chan string {
	answer := make(chan string, 1)
	go func() {
		defer close(answer) // also if the handler panics
		defer func() { _ = recover() }()
		r := httptest.NewRequest(http.MethodPost, "/", http.NoBody)
		r.Header.Set(wire.HeaderKey, "k")
		r.Header.Set("Content-Type", payload)
		for i := 0; i+1 < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		w := httptest.NewRecorder()
		p.h.ServeHTTP(w, r)
		what := w.Header().Get(wire.HeaderCode)
		if what == "" {
			what = w.Body.String()
		}
		answer <- fmt.Sprint(w.Code, " ", w.Header().Get(wire.HeaderReplayed), " ", what)
	}()
	synctest.Wait()
	return answer
}

// came returns the answer if there is one by now.
func came(answer <-chan string) string {
	synctest.Wait()
	select {
	case a := <-answer:
		return a
	default:
		return "none yet"
	}
}

// let lets the handler of the next run go on.
func (p *planning) let(do func(http.ResponseWriter)) {
	p.goOn <- do
	synctest.Wait()
}

// letAll lets every handler succeed, until none is running.
func (p *planning) letAll() {
	for {
		synctest.Wait()
		select {
		case p.goOn <- nil:
		default:
			return
		}
	}
}

const (
	madeFirst = "200 false done"
	replayed  = "200 true done"
	busy      = "409 false in-progress"
	reused    = "422 false key-reused"
)

// A request with another payload is told key-reused while the first one runs, whatever becomes of that run. Where that
// cannot be proved it is told in-progress, and key-reused later.
func TestOneCommit_mismatchBeside(t *testing.T) {
	t.Parallel()
	lost, away := fmt.Errorf("lost: %w", store.ErrFateUnknown), errors.New("away")
	for _, tt := range []struct {
		name   string
		fail   func(try int) (before, after error) // of claims
		do     func(http.ResponseWriter)           // ends the first run of the handler
		beside string                              // the answer to the other payload, at once
		first  string                              // the answer to the first payload
		again  string                              // the answer to its repeat
	}{
		{name: "success", beside: reused, first: madeFirst, again: replayed},
		{name: "panic", do: func(http.ResponseWriter) { panic("no") }, beside: reused, first: "", again: madeFirst},
		{
			name: "the answer to the claim is lost", beside: reused, first: madeFirst, again: replayed,
			fail: func(try int) (error, error) { return nil, map[int]error{1: lost}[try] },
		},
		{
			name: "both answers to the claim are lost", beside: busy, first: madeFirst, again: replayed,
			fail: func(try int) (error, error) { return nil, map[int]error{1: lost, 2: lost}[try] },
		},
		{
			name: "both are lost, and a panic", beside: busy, do: func(http.ResponseWriter) { panic("no") }, first: "", again: madeFirst,
			fail: func(try int) (error, error) { return nil, map[int]error{1: lost, 2: lost}[try] },
		},
		{
			name: "the claim fails", beside: busy, first: madeFirst, again: replayed,
			fail: func(try int) (error, error) { return map[int]error{1: away}[try], nil },
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := newPlanning(t, newClaimStore(tt.fail))
				first := p.post("text/first", wire.HeaderPrefer, "wait=0")
				other := p.post("text/other", wire.HeaderPrefer, "wait=0")
				require.Equal(t, tt.beside, came(other))
				p.let(tt.do)
				p.letAll()
				require.Equal(t, tt.first, came(first))
				after := p.post("text/other")
				p.letAll()
				require.Equal(t, reused, came(after))
				again := p.post("text/first", wire.HeaderPrefer, "wait=0")
				p.letAll()
				require.Equal(t, tt.again, came(again))
				require.Equal(t, 1, p.rows)
			})
		})
	}
}

// A panic behind an early claim releases the key at once: the next call runs, and the run does not count as dead.
func TestOneCommit_panicBesideMismatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPlanning(t, newClaimStore(nil))
		p.post("text/first")
		require.Equal(t, reused, came(p.post("text/other")))
		p.let(func(http.ResponseWriter) { panic("no") })
		again := p.post("text/first")
		p.letAll()
		require.Equal(t, madeFirst, came(again))
		all, err := p.store.List(t.Context(), store.ListRequest{States: []store.State{store.StateCompleted}, Limit: 10})
		require.NoError(t, err)
		require.Len(t, all, 1)
		require.Equal(t, []int{2, 0}, []int{int(all[0].Fence), all[0].RecoveryAttempts})
	})
}

// A run does not end while a follower is claiming the key for it. Otherwise the claim could stay without a run.
func TestOneCommit_slowClaimBeside(t *testing.T) {
	t.Parallel()
	for _, panics := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := newClaimStore(nil)
			s.slow = time.Second
			away := errors.New("away")
			s.planStore.fail = func(int) (error, error) { return away, nil }
			p := newPlanning(t, s)
			first, other := p.post("text/first"), p.post("text/other")
			if panics {
				p.let(func(http.ResponseWriter) { panic("no") })
			} else {
				p.let(nil)
			}
			time.Sleep(s.slow)
			require.Equal(t, reused, came(other))
			p.letAll()
			want := map[bool][]string{false: {madeFirst, replayed}, true: {"", madeFirst}}[panics]
			require.Equal(t, want[0], came(first))
			away = nil
			again := p.post("text/first", wire.HeaderPrefer, "wait=0")
			p.letAll()
			require.Equal(t, want[1], came(again))
			require.Equal(t, 1, p.rows)
		})
	}
}

// A plan proves nothing about its key. If there is a record with the payload of another request, that request gets its
// replay, and the plan's request is told key-reused.
func TestOneCommit_planOfAReusedKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newClaimStore(nil)
		before, p := newPlanning(t, s), newPlanning(t, s) // two processes: the second has nothing in its cache
		first := before.post("text/first")
		before.let(nil)
		require.Equal(t, madeFirst, came(first))
		stray := p.post("text/stray")
		require.Equal(t, replayed, came(p.post("text/first")))
		p.let(nil)
		require.Equal(t, reused, came(stray))
		require.Equal(t, []int{1, 0}, []int{p.runs, p.rows})
	})
}
