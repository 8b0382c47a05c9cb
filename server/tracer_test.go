package server_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/memstore"
)

// A script writes down the beginnings and ends of calls and runs. The n-th run has the trace "run-n".
type script struct {
	witness
	mu    sync.Mutex
	lines []string
	calls []server.CallEvent
	runs  []server.CallEvent
}

// scriptSpan is the key of the present span in a ctx.
type scriptSpan struct{}

func spanIn(ctx context.Context) string {
	name, _ := ctx.Value(scriptSpan{}).(string)
	return name
}

func (s *script) begin(ctx context.Context, name string) context.Context {
	s.lines = append(s.lines, "begin "+name+" in "+spanIn(ctx))
	return context.WithValue(ctx, scriptSpan{}, name)
}

func (s *script) end(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = append(s.lines, "end "+spanIn(ctx))
}

func (s *script) CallStarted(ctx context.Context, e server.CallEvent) context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, e)
	return s.begin(ctx, fmt.Sprintf("call-%d", len(s.calls)))
}

func (s *script) RunStarted(ctx context.Context, e server.CallEvent) context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runs = append(s.runs, e)
	return s.begin(ctx, fmt.Sprintf("run-%d", len(s.runs)))
}

func (s *script) CallEnded(ctx context.Context)  { s.end(ctx) }
func (s *script) RunEnded(ctx context.Context)   { s.end(ctx) }
func (*script) Trace(ctx context.Context) string { return spanIn(ctx) }
func (s *script) hits() []server.Event           { return s.all(server.EventHit) }
func (s *script) Observe(c context.Context, e server.Event) {
	s.witness.Observe(c, e)
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.Kind == server.EventSettled || e.Kind == server.EventHit || e.Kind == server.EventFailed {
		s.lines = append(s.lines, e.Kind.String()+" in "+spanIn(c))
	}
}

// The handler runs in the ctx of its run, and a replay names the first run: in every class, from the store and from the
// cache, sealed or not. The caller sees nothing of it.
func TestTracer(t *testing.T) {
	t.Parallel()
	key, err := server.NewAESGCM(server.AESKey{ID: "a", Secret: make([]byte, 32)})
	require.NoError(t, err)
	for name, cfg := range map[string]server.Config{"plain": {}, "cache": {CacheBytes: 1 << 20}, "sealed": {Codec: key}} {
		for _, route := range []server.Route{
			{Effect: server.Transactional}, {Effect: server.Keyed}, {Effect: server.Opaque},
		} {
			t.Run(fmt.Sprintf("%s/%v", name, route.Effect), func(t *testing.T) {
				t.Parallel()
				var seen script
				cfg, route := cfg, route
				cfg.Observer, route.Name = &seen, "order"
				under := memstore.New()
				handler := func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, spanIn(r.Context())) }
				h, err := newGuard(t, under, cfg).Route(route, http.HandlerFunc(handler))
				require.NoError(t, err)
				first, again := send(h, "k", "tea"), send(h, "k", "tea", wire.HeaderRetryAttempt, "2")
				requireAnswer(t, first, http.StatusOK, "run-1", false)
				requireAnswer(t, again, http.StatusOK, "run-1", true)
				require.Empty(t, again.Header().Get("Traceparent"))
				require.Equal(t, []string{
					"begin call-1 in ", "begin run-1 in call-1", "settled in run-1", "end run-1", "end call-1",
					"begin call-2 in ", "hit in call-2", "end call-2",
				}, seen.lines)
				require.Equal(t, "run-1", seen.hits()[0].Trace)
				require.Equal(t, server.CallEvent{
					Route: "order", Effect: route.Effect, Key: childkey.MustParse("k"), ID: seen.id(), Fence: 1,
				}, seen.runs[0])

				cfg.Observer = &seen.witness // is no tracer
				h, err = newGuard(t, under, cfg).Route(route, http.HandlerFunc(handler))
				require.NoError(t, err)
				requireAnswer(t, send(h, "k", "tea"), http.StatusOK, "run-1", true)
				require.Empty(t, seen.hits()[1].Trace)
			})
		}
	}
}

// Calls and runs end also if the handler panics.
func TestTracer_panic(t *testing.T) {
	t.Parallel()
	for _, route := range []server.Route{
		{Effect: server.Transactional}, {Effect: server.Keyed}, {Effect: server.Opaque},
	} {
		t.Run(fmt.Sprint(route.Effect), func(t *testing.T) {
			t.Parallel()
			var seen script
			h, err := newGuard(t, memstore.New(), server.Config{Observer: &seen}).
				Route(route, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("tea") }))
			require.NoError(t, err)
			require.PanicsWithValue(t, "tea", func() { send(h, "k", "tea") })
			require.Equal(t, []string{
				"begin call-1 in ", "begin run-1 in call-1", "failed in run-1", "end run-1", "end call-1",
			}, seen.lines)
		})
	}
}
