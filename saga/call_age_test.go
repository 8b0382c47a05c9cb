package saga_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/sdk"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/memstore"
)

const day = 24 * time.Hour

// A mall has services behind a guard with the default Config, which sweeps. While it is closed nobody can connect.
type mall struct {
	mux                     *http.ServeMux
	closed                  atomic.Bool
	mute                    atomic.Value // the path whose next answer is lost: then the mall is closed
	held, released, charged atomic.Int32
	refused                 atomic.Value // the last wire.Code
}

func openMall(s *stage) *mall {
	m := &mall{mux: http.NewServeMux()}
	guard, err := server.NewGuard(memstore.New(), server.Unscoped, server.Config{})
	require.NoError(s, err)
	require.NoError(s, server.Handle(m.mux, guard, reserve, server.Transactional, func(context.Context, order) (hold, error) {
		m.held.Add(1)
		return hold{}, nil
	}))
	require.NoError(s, server.Handle(m.mux, guard, pay, server.Transactional, func(context.Context, order) (charge, error) {
		m.charged.Add(1)
		return charge{}, nil
	}))
	require.NoError(s, server.Handle(m.mux, guard, release, server.Transactional, func(ctx context.Context, _ contract.Undo[order, hold]) (undone, error) {
		fate, err := server.Barrier(ctx)
		if fate == server.Ran {
			m.released.Add(1)
		}
		return undone{}, err
	}))
	ctx, stop := context.WithCancel(context.Background())
	swept := make(chan struct{})
	go func() {
		defer close(swept)
		guard.RunSweeper(ctx)
	}()
	s.Cleanup(func() { stop(); <-swept })
	return m
}

func (m *mall) RoundTrip(req *http.Request) (*http.Response, error) {
	if m.closed.Load() {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	w := httptest.NewRecorder()
	in := httptest.NewRequest(req.Method, req.URL.Path, req.Body)
	in.Header = req.Header.Clone()
	m.mux.ServeHTTP(w, in)
	if code := w.Header().Get(wire.HeaderCode); code != "" {
		m.refused.Store(wire.Code(code))
	}
	if m.mute.CompareAndSwap(req.URL.Path, "") {
		m.closed.Store(true)
		return nil, errors.New("the connection was lost")
	}
	resp := w.Result()
	resp.Request = req
	return resp, nil
}

func (m *mall) client(s *stage, profile *retry.Profile) *sdk.Client {
	client, err := sdk.New(sdk.Config{
		Services: map[string]sdk.Service{"inventory": {URL: "http://inventory", Profile: profile}, "payment": {URL: "http://payment", Profile: profile}},
		Retry:    retry.Config{Transport: m},
	})
	require.NoError(s, err)
	return client
}

func openOver(s *stage, client *sdk.Client, d saga.AnyDefinition) *saga.Engine {
	e, err := saga.Open(s.Context(), s.journal, saga.Config{
		Client: client, Definitions: []saga.AnyDefinition{d}, Lease: 5 * time.Minute, Poll: time.Minute, Observer: s.events,
	})
	require.NoError(s, err)
	s.Cleanup(func() { _ = e.Close(context.Background()) })
	return e
}

// approval is a step that waits for so long.
func approval(b *saga.Builder[order, nothing], wait time.Duration) *saga.StepRef[order, nothing] {
	begun := time.Now()
	return saga.StepFunc(b, "boss.approve", b.Input(), func(context.Context, saga.Call[order]) (nothing, error) {
		if time.Since(begun) < wait {
			return nothing{}, saga.NotSent(errors.New("not yet"))
		}
		return nothing{}, nil
	}).ReadOnly().Retry(saga.RetryPolicy{Attempts: 10_000, Backoff: retry.Backoff{Base: time.Hour, Cap: 6 * time.Hour}}).Timeout(2 * wait)
}

// closing is a step that closes the shop, and ends with err.
func (m *mall) closing(b *saga.Builder[order, nothing], err error) *saga.StepRef[order, nothing] {
	return saga.StepFunc(b, "z.close", b.Input(), func(context.Context, saga.Call[order]) (nothing, error) {
		m.closed.Store(true)
		return nothing{}, err
	})
}

// A saga that lives for three months calls its services when it is their turn. It undoes a call that the service has
// forgotten long ago.
func TestCallAge_threeMonths(t *testing.T) {
	t.Parallel()
	for _, approved := range []bool{true, false} {
		inBubble(t, func(s *stage) {
			m := openMall(s)
			d := saga.MustDefine("patient", 1, func(b *saga.Builder[order, nothing]) {
				held := saga.Step(b, reserve, b.Input()).Undo(release)
				waited := approval(b, 90*day).After(held)
				if !approved {
					waited = m.closing(b, saga.Rejected(errors.New("no"))).ReadOnly().After(waited)
				}
				saga.Step(b, pay, b.Input()).After(waited)
			})
			e := openOver(s, m.client(s, nil), d)
			time.AfterFunc(91*day, func() { m.closed.Store(false) })
			_, err := d.Run(s.Context(), e, key(s.T, "k"), basket)
			require.EqualValues(s, 1, m.held.Load())
			if approved {
				require.NoError(s, err)
				require.EqualValues(s, 1, m.charged.Load())
				return
			}
			if errors.Is(err, saga.ErrStuck) { // its service was away for a day
				time.Sleep(2 * day)
				_, err = e.Retry(s.Context(), s.idOf(d, "k"), someone)
				require.NoError(s, err)
				_, err = d.Run(s.Context(), e, key(s.T, "k"), basket)
			}
			require.ErrorIs(s, err, saga.ErrCompensated)
			require.EqualValues(s, 1, m.released.Load())
		})
	}
}

func (s *stage) idOf(d interface{ Name() string }, text string) journal.ID {
	return journal.IDOf("", d.Name(), key(s.T, text))
}

// A service is away for longer than a saga's budget. A person retries the saga when it is back, and when it has
// forgotten all that was before. Calls that were never sent are sent now.
func TestCallAge_retriedLate(t *testing.T) {
	t.Parallel()
	for _, late := range []time.Duration{time.Hour, 10 * day} {
		for _, undo := range []bool{true, false} {
			inBubble(t, func(s *stage) {
				m := openMall(s)
				d := saga.MustDefine("late", 1, func(b *saga.Builder[order, nothing]) {
					if undo {
						m.closing(b, saga.Rejected(errors.New("no"))).After(saga.Step(b, reserve, b.Input()).Undo(release))
						return
					}
					saga.Step(b, pay, b.Input()).Retriable().After(m.closing(b, nil).Pivot())
				})
				e := openOver(s, m.client(s, nil), d)
				_, err := d.Run(s.Context(), e, key(s.T, "k"), basket)
				require.ErrorIs(s, err, saga.ErrStuck)
				m.closed.Store(false)
				time.Sleep(late)
				_, err = e.Retry(s.Context(), s.idOf(d, "k"), someone)
				require.NoError(s, err)
				_, err = d.Run(s.Context(), e, key(s.T, "k"), basket)
				if undo {
					require.ErrorIs(s, err, saga.ErrCompensated)
					require.EqualValues(s, 1, m.released.Load())
				} else {
					require.NoError(s, err)
					require.EqualValues(s, 1, m.charged.Load())
				}
			})
		}
	}
}

// An undo budget of three days is three days of attempts.
func TestCallAge_undoBudget(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		m := openMall(s)
		d := saga.MustDefine("budget", 1, func(b *saga.Builder[order, nothing]) {
			b.UndoBudget(3 * day)
			m.closing(b, saga.Rejected(errors.New("no"))).After(saga.Step(b, reserve, b.Input()).Undo(release))
		})
		e := openOver(s, m.client(s, nil), d)
		time.AfterFunc(30*time.Hour, func() { m.closed.Store(false) })
		_, err := d.Run(s.Context(), e, key(s.T, "k"), basket)
		require.ErrorIs(s, err, saga.ErrCompensated)
		require.EqualValues(s, 1, m.released.Load())
	})
}

// A call that may have had its effect is not sent again once its service may have forgotten it, whoever asks for
// that. A person's word settles it.
func TestCallAge_expired(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		m := openMall(s)
		d := saga.MustDefine("expired", 1, func(b *saga.Builder[order, nothing]) {
			saga.Step(b, pay, b.Input()).Retriable().After(saga.Step(b, reserve, b.Input()).Pivot())
		})
		e := openOver(s, m.client(s, nil), d)
		id := s.idOf(d, "k")
		run := func() error {
			_, err := d.Run(s.Context(), e, key(s.T, "k"), basket)
			return err
		}
		m.mute.Store("/charges")
		require.ErrorIs(s, run(), saga.ErrStuck)
		require.EqualValues(s, 1, m.charged.Load())
		m.closed.Store(false)
		time.Sleep(10 * day)
		for range 2 {
			_, err := e.Retry(s.Context(), id, someone)
			require.NoError(s, err)
			require.ErrorIs(s, run(), saga.ErrStuck)
			r, err := e.Lookup(s.Context(), id)
			require.NoError(s, err)
			require.Equal(s, wire.KeyExpired, r.StuckOn.Code)
		}
		_, err := e.ForceOK(s.Context(), id, "payment.charge", charge{}, someone)
		require.NoError(s, err)
		require.NoError(s, run())
		require.EqualValues(s, 1, m.charged.Load())
	})
}

// The answer of a call is lost, and its service is away until it has forgotten the call. The undo does not take it for
// a call that never ran.
func TestCallAge_undoOfAForgottenCall(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		m := openMall(s)
		d := saga.MustDefine("forgotten", 1, func(b *saga.Builder[order, nothing]) {
			b.UndoBudget(20 * day)
			saga.Step(b, reserve, b.Input()).Undo(release).Retry(saga.RetryPolicy{Attempts: 3})
		})
		e := openOver(s, m.client(s, nil), d)
		m.mute.Store("/reservations")
		time.AfterFunc(10*day, func() { m.closed.Store(false) })
		_, err := d.Run(s.Context(), e, key(s.T, "k"), basket)
		require.ErrorIs(s, err, saga.ErrStuck)
		require.Equal(s, wire.KeyExpired, m.refused.Load())
		_, err = e.ForceUndone(s.Context(), s.idOf(d, "k"), "inventory.reserve", someone)
		require.NoError(s, err)
		_, err = d.Run(s.Context(), e, key(s.T, "k"), basket)
		require.ErrorIs(s, err, saga.ErrCompensated)
		require.EqualValues(s, 1, m.held.Load())
		require.Zero(s, m.released.Load(), "a person did it")
	})
}

// A vendor keeps keys for a day. A call in the second month of a saga loses its answer, and its key is a second old.
func TestCallAge_vendor(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		m := openMall(s)
		d := saga.MustDefine("vendor", 1, func(b *saga.Builder[order, nothing]) {
			saga.Step(b, pay, b.Input()).After(approval(b, 40*day))
		})
		e := openOver(s, m.client(s, &retry.Profile{Retention: day}), d)
		m.mute.Store("/charges")
		go func() {
			for !m.closed.Load() {
				time.Sleep(time.Minute)
			}
			m.closed.Store(false)
		}()
		_, err := d.Run(s.Context(), e, key(s.T, "k"), basket)
		require.NoError(s, err)
		require.EqualValues(s, 1, m.charged.Load())
	})
}
