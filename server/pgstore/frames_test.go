package pgstore_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
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

// maxFrames is how many functions of this module may stand between a service's handler and pgx. A reader
// of a stack trace has to understand each of them.
const maxFrames = 18

// frameCounter notes, for each statement, how many functions of this module are on the stacks of the
// goroutines that wait for it: the caller's, and the one of a flush.
type frameCounter struct {
	mu    sync.Mutex
	most  map[string]int
	stack map[string]string
}

func (c *frameCounter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	c.note(q.SQL)
	return ctx
}

func (c *frameCounter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (c *frameCounter) TraceBatchStart(ctx context.Context, _ *pgx.Conn, b pgx.TraceBatchStartData) context.Context {
	for _, q := range b.Batch.QueuedQueries {
		c.note(q.SQL)
	}
	return ctx
}

func (c *frameCounter) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (c *frameCounter) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}

func (c *frameCounter) note(sql string) {
	verb := ""
	switch {
	case strings.HasPrefix(sql, `insert into "public".idempotency `):
		verb = "claim"
	case strings.HasPrefix(sql, "update \"public\".idempotency\nset state = $"):
		verb = "settle"
	default:
		return
	}
	buf := make([]byte, 1<<20)
	buf = buf[:runtime.Stack(buf, true)]
	n, stacks := 0, ""
	for _, goroutine := range strings.Split(string(buf), "\n\n") {
		if strings.Contains(goroutine, "(*frameCounter).note(") || strings.Contains(goroutine, "pgstore_test.serveCounted(") {
			n += countFrames(goroutine)
			stacks += goroutine + "\n\n"
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if n > c.most[verb] {
		c.most[verb], c.stack[verb] = n, stacks
	}
}

// countFrames counts the functions of this module on a goroutine's stack, without those of the tests.
func countFrames(goroutine string) (n int) {
	for _, line := range strings.Split(goroutine, "\n") {
		if strings.HasPrefix(line, "github.com/fanonce/fanonce/") && !strings.Contains(line, "pgstore_test.") {
			n++
		}
	}
	return n
}

// serveCounted is on the stack of the goroutine whose frames count.
func serveCounted(h http.Handler, w http.ResponseWriter, r *http.Request) { h.ServeHTTP(w, r) }

func TestFrames_betweenAHandlerAndPgx(t *testing.T) {
	t.Parallel()
	counter := &frameCounter{most: make(map[string]int), stack: make(map[string]string)}
	s, _ := open(t, pgstore.Config{}, func(cfg *pgxpool.Config) { cfg.ConnConfig.Tracer = counter })
	guard, err := server.NewGuard(s, server.Unscoped, server.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, guard.Shutdown(context.Background())) })
	h, err := guard.Handler(server.Keyed, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "once") }))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context()) // as a request's, which can end
	defer cancel()
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/", http.NoBody)
	r.Header.Set(wire.HeaderKey, "frames")
	w := httptest.NewRecorder()
	serveCounted(h, w, r)
	require.Equal(t, http.StatusOK, w.Code)
	counter.mu.Lock()
	defer counter.mu.Unlock()
	for _, verb := range []string{"claim", "settle"} {
		n := counter.most[verb]
		t.Logf("%s: %d functions", verb, n)
		require.Positive(t, n, verb)
		require.LessOrEqual(t, n, maxFrames, "%s:\n%s", verb, counter.stack[verb])
	}
}
