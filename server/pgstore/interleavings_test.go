package pgstore_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgstore"
)

var allFour = flag.Bool("pgstore.interleavings", false, "interleave two forward calls with two undos, 2,520 ways, and not just three of the four")

// A delivery is one request that arrives, and whose handler is held until it may
// end.
type delivery struct {
	undo    bool
	replica int

	gate    chan struct{} // closed when its handler may end
	entered chan struct{} // closed when its handler waits there
	done    chan struct{} // closed when it was answered
	status  int
}

// A bout is one order in which deliveries arrive and end.
type bout struct {
	t          *testing.T
	look       *pgxpool.Pool
	replicas   []http.Handler
	key        string
	deliveries []*delivery
}

type deliveryKey struct{}

// callees are two replicas of a service that charges and refunds. A duplicate is answered
// at once: one that waited for the run would arrive nowhere until its time was up.
func callees(t *testing.T, look *pgxpool.Pool, effect server.Effect) []http.Handler {
	t.Helper()
	var replicas []http.Handler
	for range 2 {
		g, err := server.NewGuard(openOn(t, look, pgstore.Config{}), server.Unscoped, server.Config{Wait: -1})
		require.NoError(t, err)
		charge, err := g.Handler(effect, http.HandlerFunc(chargeHeld))
		require.NoError(t, err)
		refund, err := g.Handler(server.Transactional, http.HandlerFunc(refundHeld))
		require.NoError(t, err)
		mux := http.NewServeMux()
		mux.Handle("POST /charge", charge)
		mux.Handle("POST /refund", refund)
		replicas = append(replicas, mux)
	}
	return replicas
}

const noteEffect = "insert into effect values ($1)"

func chargeHeld(w http.ResponseWriter, r *http.Request) {
	note := "do " + r.Header.Get("X-Bout")
	_, err := pgstore.Tx(r.Context()).Exec(r.Context(), noteEffect, note)
	if errors.Is(err, pgstore.ErrNoTx) { // a Keyed run
		err = pgstore.OnComplete(r.Context(), func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, noteEffect, note)
			return err
		})
	}
	hold(r)
	answerWith(w, http.StatusCreated, err)
}

func refundHeld(w http.ResponseWriter, r *http.Request) {
	fate, err := server.Barrier(r.Context())
	if err == nil && fate != server.NeverRan {
		_, err = pgstore.Tx(r.Context()).Exec(r.Context(), noteEffect, "undo "+r.Header.Get("X-Bout"))
	}
	if err == nil {
		hold(r)
	}
	answerWith(w, http.StatusOK, err)
}

// hold waits where the request's delivery says so.
func hold(r *http.Request) {
	if d, ok := r.Context().Value(deliveryKey{}).(*delivery); ok {
		close(d.entered)
		<-d.gate
	}
}

func answerWith(w http.ResponseWriter, status int, err error) {
	if err != nil {
		status = http.StatusInternalServerError
	}
	w.WriteHeader(status)
}

// send delivers a request of the bout, once.
func (b *bout) send(ctx context.Context, replica int, undo bool) *httptest.ResponseRecorder {
	path, key := "/charge", b.key
	if undo {
		path, key = "/refund", b.key+"-undo"
	}
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader("{}")).WithContext(ctx)
	r.Header.Set(wire.HeaderKey, key)
	r.Header.Set("X-Bout", b.key)
	if undo {
		r.Header.Set(wire.HeaderCancels, b.key)
	}
	w := httptest.NewRecorder()
	b.replicas[replica].ServeHTTP(w, r)
	return w
}

// arrive delivers d and comes back when it is held, was answered, or waits for a
// lock of Postgres'.
func (b *bout) arrive(d *delivery, all *sync.WaitGroup) {
	d.gate, d.entered, d.done = make(chan struct{}), make(chan struct{}), make(chan struct{})
	all.Go(func() {
		defer close(d.done)
		d.status = b.send(context.WithValue(context.WithoutCancel(b.t.Context()), deliveryKey{}, d), d.replica, d.undo).Code
	})
	until(b.t, "a delivery is somewhere", func() bool {
		select {
		case <-d.entered:
			return true
		case <-d.done:
			return true
		default:
			return waits(b.t, b.look, "Lock")
		}
	})
}

// play delivers in that order: the first time that a delivery is named it arrives,
// the second time it may end.
func (b *bout) play(order []int) {
	var all sync.WaitGroup
	for _, i := range order {
		d := b.deliveries[i]
		if d.gate == nil {
			b.arrive(d, &all)
			continue
		}
		close(d.gate)
		select { // one that was held ends now; one that waits for a lock may wait on
		case <-d.entered:
			<-d.done
		default:
		}
	}
	all.Wait()
}

// final sends the request again until its answer is final, as a caller would.
func (b *bout) final(undo bool) (answer *httptest.ResponseRecorder) {
	replica := 0
	until(b.t, "an answer is final", func() bool {
		replica = 1 - replica
		answer = b.send(b.t.Context(), replica, undo)
		return answer.Code != http.StatusConflict && answer.Code < http.StatusInternalServerError
	})
	return answer
}

// orders returns every order in which n deliveries arrive and end.
func orders(n int) (all [][]int) {
	var extend func(order []int)
	count := make([]int, n)
	extend = func(order []int) {
		if len(order) == 2*n {
			all = append(all, append([]int(nil), order...))
			return
		}
		for i := range n {
			if count[i] < 2 {
				count[i]++
				extend(append(order, i))
				count[i]--
			}
		}
	}
	extend(nil)
	return all
}

// A forward call, its undo and a repetition of either meet at two replicas, in every
// order in which they can arrive and end. Whatever the order, once all of them have
// their answer, the undo has undone what was done, once, and what comes late is
// refused.
func TestBarrier_interleavings(t *testing.T) {
	t.Parallel()
	casts := [][]delivery{
		{{replica: 0}, {undo: true, replica: 1}, {replica: 1}},
		{{replica: 0}, {undo: true, replica: 1}, {undo: true, replica: 0}},
	}
	if *allFour {
		casts = [][]delivery{{{replica: 0}, {undo: true, replica: 1}, {replica: 1}, {undo: true, replica: 0}}}
	}
	for _, effect := range []server.Effect{server.Transactional, server.Keyed} {
		for n, cast := range casts {
			t.Run(fmt.Sprintf("%v, cast %d", effect, n+1), func(t *testing.T) {
				t.Parallel()
				look := ledger(t)
				replicas := callees(t, look, effect)
				for i, order := range orders(len(cast)) {
					b := &bout{t: t, look: look, replicas: replicas, key: fmt.Sprint("bout-", i)}
					for _, d := range cast {
						b.deliveries = append(b.deliveries, &d)
					}
					b.play(order)
					b.check(order)
				}
			})
		}
	}
}

func (b *bout) check(order []int) {
	b.t.Helper()
	undo := b.final(true)
	require.Equal(b.t, http.StatusOK, undo.Code, "%v: the undo", order)
	require.Equal(b.t, http.StatusGone, b.final(false).Code, "%v: the forward call, once it is undone", order)
	done := queryRow[int](b.t, b.look, "select count(*) from effect where what = $1", "do "+b.key)
	undone := queryRow[int](b.t, b.look, "select count(*) from effect where what = $1", "undo "+b.key)
	want := map[string]int{wire.ForwardRan: 1, wire.ForwardNeverRan: 0}
	require.Contains(b.t, want, undo.Header().Get(wire.HeaderForward))
	n := want[undo.Header().Get(wire.HeaderForward)]
	require.Equal(b.t, [2]int{n, n}, [2]int{done, undone}, "%v: what was done and undone", order)
}
