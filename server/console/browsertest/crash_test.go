//go:build unix

package browsertest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/console"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/store"
)

// childConfig is what a console in another process gets in [childEnv]. Its listener is file 3.
type childConfig struct {
	Database string
	Secret   []byte
	// DieAfter is after how many decisions the process kills itself; 0 is never.
	DieAfter int64
}

func init() {
	child = func() {
		if err := serveChild(); err != nil {
			fmt.Fprintln(os.Stderr, "console:", err)
			os.Exit(1)
		}
	}
}

// serveChild serves a console until it is killed, or until the test has ended.
func serveChild() error {
	var c childConfig
	if err := json.Unmarshal([]byte(os.Getenv(childEnv)), &c); err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // it ends with the test
		os.Exit(0)
	}()
	cfg, err := pgxpool.ParseConfig(c.Database)
	if err != nil {
		return err
	}
	pgstore.Prepare(cfg)
	pool, err := pgxpool.NewWithConfig(context.Background(), cfg)
	if err != nil {
		return err
	}
	be, _, err := backendOn(pool) // the process ends by a signal
	if err != nil {
		return err
	}
	shown := configOf(be)
	shown.Secret = c.Secret
	mortal := &mortal{Store: be.keys}
	mortal.left.Store(c.DieAfter)
	if shown.Stores[0].Guard, err = server.NewGuard(mortal, server.Unscoped, server.Config{}); err != nil {
		return err
	}
	handler, err := console.New(shown)
	if err != nil {
		return err
	}
	listener, err := net.FileListener(os.NewFile(3, "listener"))
	if err != nil {
		return err
	}
	return http.Serve(listener, handler) //nolint:gosec // the test is its only client
}

// A mortal is a store whose process is killed at its last decision, while other decisions are running.
type mortal struct {
	store.Store
	left atomic.Int64
}

// Resolve implements [store.Store].
func (m *mortal) Resolve(ctx context.Context, req store.ResolveRequest) (store.Record, bool, error) {
	if m.left.Add(-1) == 0 {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	return m.Store.Resolve(ctx, req)
}

// startChild starts a console in another process. Its end is sent to the channel.
func startChild(t *testing.T, listener *os.File, c childConfig) <-chan struct{} {
	t.Helper()
	text, err := json.Marshal(c)
	require.NoError(t, err)
	path, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(path)
	cmd.Env = append(os.Environ(), childEnv+"="+string(text))
	cmd.ExtraFiles, cmd.Stderr = []*os.File{listener}, os.Stderr
	life, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // how it ended does not matter
	}()
	t.Cleanup(func() {
		_ = life.Close()
		<-ended
	})
	return ended
}

// The console's process is killed in the middle of a verb, and another one comes. The tab that was there goes on.
func TestVerbs_afterACrash(t *testing.T) {
	t.Parallel()
	browser(t)
	all := *matches
	s := &site{tb: t, backend: inPostgres(t)}
	s.plantUnknown(all, "POST /charges")
	// The listener is the test's: between the two processes it takes connections, and nobody answers them.
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	file, err := listener.(*net.TCPListener).File()
	require.NoError(t, err)
	defer file.Close()
	c := childConfig{Database: s.pool.Config().ConnString(), Secret: make([]byte, 32), DieAfter: int64(all / 4)}
	killed := startChild(t, file, c)

	b := openAt(t, "http://"+listener.Addr().String(), look{user: "ada", script: true})
	b.settleAll("POST /charges")
	b.sendAway()
	await(t, killed, "the process kills itself")
	part := len(s.audited(all))
	require.Positive(t, part)
	require.Less(t, part, all/4+inFlight)

	c.DieAfter = 0
	startChild(t, file, c)
	reloads := 0
	b.ended(func() {
		reloads++
		b.load(chromedp.Reload())
	})
	t.Logf("%d of %d were done before the crash; the tab was reloaded %d times", part, all, reloads)
	require.Len(t, s.requireAudited(all), 1, "it is one batch")
}
