package saga_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/sagatest"
	"github.com/fanonce/fanonce/sdk"
)

// A try ends at its own timeout, be it of a step or of an undo, and is tried again.
func TestAttemptTimeout(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		const timeout = 10 * time.Second
		hang := func(ctx context.Context) error { // as long as the try may take, or far too long
			begun := time.Now()
			select {
			case <-ctx.Done():
			case <-time.After(time.Hour / 2):
			}
			require.ErrorIs(s, ctx.Err(), context.DeadlineExceeded)
			require.Equal(s, timeout, time.Since(begun))
			return ctx.Err()
		}
		done, undone := 0, 0
		d := saga.MustDefine("slow", 1, func(b *saga.Builder[int, nothing]) {
			first := saga.StepFunc(b, "a.do", b.Input(), func(ctx context.Context, _ saga.Call[int]) (nothing, error) {
				if done++; done == 1 {
					return nothing{}, hang(ctx)
				}
				return nothing{}, nil
			}).UndoFunc("a.undo", func(ctx context.Context, _ saga.UndoCall[int, nothing]) error {
				if undone++; undone == 1 {
					return hang(ctx)
				}
				return nil
			}).AttemptTimeout(timeout)
			saga.StepFunc(b, "b.do", first.Output(), func(context.Context, saga.Call[nothing]) (nothing, error) {
				return nothing{}, saga.Rejected(errors.New("no"))
			})
		})
		_, err := d.Run(s.Context(), s.open(d), key(s.T, "k"), 1)
		require.ErrorIs(s, err, saga.ErrCompensated)
		require.ErrorIs(s, err, retry.ErrRejected, "of the step behind: the first was tried again")
		require.Equal(s, 2, done)
		require.Equal(s, 2, undone)
	})
}

// failing is a saga whose first step fails that often, then its undo as often.
func failing(calls, undos int, err error) *saga.Definition[int, nothing] {
	fail := func(left *int) error {
		if *left--; *left >= 0 {
			return err
		}
		return nil
	}
	return saga.MustDefine("failing", 1, func(b *saga.Builder[int, nothing]) {
		first := saga.StepFunc(b, "a.do", b.Input(), func(context.Context, saga.Call[int]) (nothing, error) {
			return nothing{}, fail(&calls)
		}).UndoFunc("a.undo", func(context.Context, saga.UndoCall[int, nothing]) error { return fail(&undos) }).
			Retry(saga.RetryPolicy{Attempts: 12})
		saga.StepFunc(b, "b.do", first.Output(), func(context.Context, saga.Call[nothing]) (nothing, error) {
			return nothing{}, saga.Rejected(errors.New("no"))
		})
	})
}

// Waits double up to the cap, with jitter; an undo counts its tries from 1, and waits as
// if its call had never failed.
func TestBackoff(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		d := failing(11, 11, errors.New("nobody knows"))
		_, err := d.Run(s.Context(), s.open(d), key(s.T, "k"), 1)
		require.ErrorIs(s, err, saga.ErrCompensated)
		want := make([]time.Duration, 12)
		for i := range 11 { // half of it, by the stage's Rand
			want[i] = min(time.Second<<i, saga.DefaultBackoffCap) / 2
		}
		for _, undo := range []bool{false, true} {
			var waits []time.Duration
			for _, e := range s.events.triesOf("a.do", undo) {
				waits = append(waits, e.Wait)
				require.Equal(s, len(waits), e.Attempt, "undo %v", undo)
			}
			require.Equal(s, want, waits, "undo %v", undo)
		}
		for _, entry := range s.read("k").Entries {
			if entry.Step == "a.do" {
				require.Equal(s, 12, entry.Attempts)
			}
		}
	})
}

// A wait of up to a second is not worth a write; a longer one is in the journal. In one
// of more than a lease the saga has no owner.
func TestBackoff_isWrittenBeyondASecond(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		wait    time.Duration
		written bool
		asleep  bool
	}{
		{time.Second, false, false}, {time.Second + time.Millisecond, true, false},
		{saga.DefaultLease, true, false}, {saga.DefaultLease + time.Millisecond, true, true},
	} {
		inBubble(t, func(s *stage) {
			d := failing(1, 0, errors.New("nobody knows"))
			e := s.openWith(s.journal, saga.Config{
				Definitions: []saga.AnyDefinition{d}, Backoff: retry.Backoff{Base: tt.wait, Jitter: 1e-12},
			})
			_, err := d.Start(s.Context(), e, key(s.T, "k"), 1)
			require.NoError(s, err)
			time.Sleep(time.Second / 2)
			require.Equal(s, tt.wait, s.events.triesOf("a.do", false)[0].Wait)
			r := s.read("k")
			if !tt.written {
				require.Empty(s, r.Entries)
				require.Zero(s, r.WakeAt)
				return
			}
			require.Len(s, r.Entries, 1)
			require.True(s, r.Entries[0].Pending)
			require.Equal(s, tt.wait, r.Entries[0].RetryAt.Sub(r.Entries[0].At))
			require.Equal(s, tt.asleep, r.Clean)
			require.Equal(s, tt.asleep, r.Engine.IsZero())
			require.Equal(s, tt.asleep, r.WakeAt.Equal(r.Entries[0].RetryAt))
		})
	}
}

// An engine that is asked to wait does so, and at least for its own backoff.
func TestBackoff_retryAfter(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ asked, want time.Duration }{
		{90 * time.Second, 90 * time.Second}, {time.Millisecond, time.Second / 2}, {72 * time.Hour, time.Hour},
	} {
		inBubble(t, func(s *stage) {
			d := failing(1, 1, &retry.Error{Outcome: retry.Unknown, RetryAfter: tt.asked, Retryable: true, Err: errors.New("later")})
			_, err := d.Run(s.Context(), s.open(d), key(s.T, "k"), 1)
			require.ErrorIs(s, err, saga.ErrCompensated)
			for _, undo := range []bool{false, true} {
				require.Equal(s, tt.want, s.events.triesOf("a.do", undo)[0].Wait, "undo %v", undo)
			}
		})
	}
}

// A 409 may say that the call of an undo is still running. The undo is sent again when the callee
// says so. But a 409 that is the stored answer of the undo itself is a refusal, and a person has
// to resolve the saga.
func TestUndo_inProgress(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"in progress", "bare", "stored"} {
		inBubble(t, func(s *stage) {
			var sent []time.Time
			e := s.openOver(tripFunc(func(req *http.Request) (*http.Response, error) {
				if req.Header.Get(wire.HeaderCancels) == "" {
					return s.services.RoundTrip(req)
				}
				if sent = append(sent, time.Now()); len(sent) > 1 {
					return s.services.RoundTrip(req)
				}
				return conflict(req, kind), nil
			}))
			s.services.Script("payment.charge", sagatest.Reject(402))
			_, err := checkout.Run(s.Context(), e, key(s.T, "k"), basket)
			if kind == "stored" {
				require.ErrorIs(s, err, saga.ErrStuck)
				require.Len(s, sent, 1)
				s.wantEffects("inventory.reserve", 1, 0)
				return
			}
			require.ErrorIs(s, err, saga.ErrCompensated)
			require.Len(s, sent, 2)
			require.GreaterOrEqual(s, sent[1].Sub(sent[0]), 45*time.Second)
			require.Less(s, sent[1].Sub(sent[0]), time.Minute)
			s.wantEffects("inventory.reserve", 1, 1)
		})
	}
}

// conflict answers with 409: as a guarded service while the call is running, as any other
// service, or as a stored answer.
func conflict(req *http.Request, kind string) *http.Response {
	resp := &http.Response{
		StatusCode: http.StatusConflict, ProtoMajor: 1, ProtoMinor: 1, Request: req,
		Header: http.Header{"Retry-After": {"45"}, "Content-Type": {"application/json"}},
		Body:   io.NopCloser(strings.NewReader("{}")), ContentLength: 2,
	}
	switch kind {
	case "stored":
		resp.Header.Set(wire.HeaderReplayed, "true")
	case "in progress":
		body := wire.NewProblem(wire.InProgress, "").JSON()
		resp.Header.Set("Content-Type", wire.ProblemContentType)
		resp.Header.Set(wire.HeaderReplayed, "false")
		resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	}
	return resp
}

// openOver opens an engine that knows checkout and makes its calls over network.
func (s *stage) openOver(network http.RoundTripper) *saga.Engine {
	s.Helper()
	cfg := sdk.Config{Services: make(map[string]sdk.Service), Retry: retry.Config{Transport: network}}
	for _, name := range []string{"inventory", "payment", "shipping", "mail"} {
		cfg.Services[name] = sdk.Service{URL: "http://" + name}
	}
	client, err := sdk.New(cfg)
	require.NoError(s, err)
	e, err := saga.Open(s.Context(), s.journal, saga.Config{Client: client, Definitions: []saga.AnyDefinition{checkout}, Observer: s.events})
	require.NoError(s, err)
	s.Cleanup(func() { _ = e.Close(context.Background()) })
	return e
}

type tripFunc func(req *http.Request) (*http.Response, error)

func (f tripFunc) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// triesOf returns the tries of a step, or of its undo, that ended so far.
func (e *events) triesOf(step string, undo bool) (tries []saga.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, try := range e.tries {
		if try.Step == step && try.Undo == undo {
			tries = append(tries, try)
		}
	}
	return tries
}

// deadlines notes how long each request may take.
type deadlines struct {
	network
	left []time.Duration
}

func (d *deadlines) RoundTrip(req *http.Request) (*http.Response, error) {
	end, _ := req.Context().Deadline()
	d.left = append(d.left, time.Until(end))
	return d.network.RoundTrip(req)
}

// A step whose AttemptTimeout is longer than the default one goes before the Timeout of its client. Otherwise the shorter wins.
func TestAttemptTimeout_andTheClients(t *testing.T) {
	t.Parallel()
	for asked, want := range map[time.Duration]time.Duration{
		saga.DefaultAttemptTimeout: 10 * time.Second, 2 * time.Second: 2 * time.Second, 5 * time.Minute: 5 * time.Minute,
	} {
		inBubble(t, func(s *stage) {
			seen := &deadlines{network: network{holds: http.StatusOK}}
			client, err := sdk.New(sdk.Config{
				Services: map[string]sdk.Service{"inventory": {URL: "http://inventory"}},
				Retry:    retry.Config{Transport: seen, Timeout: 10 * time.Second, AttemptTimeout: time.Hour},
			})
			require.NoError(s, err)
			d := saga.MustDefine("held", 1, func(b *saga.Builder[order, nothing]) {
				held := saga.Step(b, reserve, b.Input()).Undo(release).AttemptTimeout(asked)
				saga.StepFunc(b, "b.do", held.Output(), func(context.Context, saga.Call[hold]) (nothing, error) {
					return nothing{}, saga.Rejected(errors.New("no"))
				})
			})
			e, err := saga.Open(s.Context(), s.journal, saga.Config{Client: client, Definitions: []saga.AnyDefinition{d}})
			require.NoError(s, err)
			s.Cleanup(func() { _ = e.Close(context.Background()) })
			_, err = d.Run(s.Context(), e, key(s.T, "k"), order{})
			require.ErrorIs(s, err, saga.ErrCompensated)
			require.Len(s, seen.left, 2, "the call and its undo")
			require.Equal(s, []time.Duration{want, want}, seen.left)
		})
	}
}
