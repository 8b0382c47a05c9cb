package sdkgrpc_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/server/guardgrpc/stockpb"
	"github.com/fanonce/fanonce/server/guardgrpc/stockpb/stockpbconnect"
)

// refusing returns an address that belongs to the test and refuses connections until listen is called.
func refusing(t *testing.T) (addr string, listen func() net.Listener) {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	require.NoError(t, err)
	f := os.NewFile(uintptr(fd), "listener")
	t.Cleanup(func() { _ = f.Close() })
	require.NoError(t, syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	name, err := syscall.Getsockname(fd)
	require.NoError(t, err)
	return fmt.Sprintf("127.0.0.1:%d", name.(*syscall.SockaddrInet4).Port), func() net.Listener {
		require.NoError(t, syscall.Listen(fd, 1024))
		l, err := net.FileListener(f)
		require.NoError(t, err)
		return l
	}
}

// attempts closes all when that many calls had an attempt.
type attempts struct {
	left atomic.Int32
	all  chan struct{}
}

func (*attempts) CallStarted(ctx context.Context, _ retry.Event) context.Context    { return ctx }
func (*attempts) AttemptStarted(ctx context.Context, _ retry.Event) context.Context { return ctx }
func (*attempts) CallEnded(context.Context, retry.Event)                            {}
func (a *attempts) AttemptEnded(_ context.Context, e retry.Event) {
	if e.Number == 1 && a.left.Add(-1) == 0 {
		close(a.all)
	}
}

// More calls than the budget has retries wait for a service that refuses connections. All of them succeed when it is back.
func TestDoors_restart(t *testing.T) {
	t.Parallel()
	const calls = 130
	for n := range 4 {
		overGRPC, listenGRPC := refusing(t)
		overConnect, listenConnect := refusing(t)
		seen := &attempts{all: make(chan struct{})}
		seen.left.Store(calls)
		d := doors(t, overGRPC, overConnect, func() retry.Config {
			return retry.Config{MaxAttempts: 1000, Observer: seen, Backoff: retry.Backoff{Base: time.Millisecond, Cap: 100 * time.Millisecond}}
		})[n]
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			var running sync.WaitGroup
			for i := range calls {
				running.Go(func() {
					_, err := d.call(under(t.Context(), fmt.Sprint("order-", i)), &stockpb.ReserveRequest{Sku: fmt.Sprint("sku-", i)})
					require.NoError(t, err)
				})
			}
			<-seen.all
			s, guarded := new(stock), newGuarded(t)
			srv := grpc.NewServer(guarded.ServerOptions()...)
			stockpb.RegisterStockServer(srv, s)
			go srv.Serve(listenGRPC()) //nolint:errcheck // Stop ends it
			t.Cleanup(srv.Stop)
			mux := http.NewServeMux()
			mux.Handle(stockpbconnect.NewStockHandler(connectStock{stock: s}, connect.WithInterceptors(guarded)))
			web := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
			go web.Serve(listenConnect()) //nolint:errcheck // Close ends it
			t.Cleanup(func() { _ = web.Close() })
			running.Wait()
			s.requireOnce(t, calls)
		})
	}
}
