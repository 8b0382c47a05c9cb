package sdkgrpc_test

import (
	"context"
	"fmt"
	"log"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/fanonce/fanonce/sdk"
	"github.com/fanonce/fanonce/sdk/sdkgrpc"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/guardgrpc"
	"github.com/fanonce/fanonce/server/guardgrpc/stockpb"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/pgtest"
)

// childVariable tells the test binary that it is the callee of TestKills: the address to listen on.
const childVariable = "SDKGRPC_CHILD_LISTEN"

func TestMain(m *testing.M) {
	if address := os.Getenv(childVariable); address != "" {
		log.Fatal(serveChild(context.Background(), address, os.Getenv("SDKGRPC_CHILD_DATABASE")))
	}
	if database := os.Getenv(engineDatabase); database != "" {
		if err := runEngine(context.Background(), database); err != nil {
			log.Fatal(err)
		}
		return
	}
	os.Exit(m.Run())
}

// serveChild is a callee with its effects in Postgres. It ends when it is killed.
func serveChild(ctx context.Context, address, database string) error {
	cfg, err := pgxpool.ParseConfig(database)
	if err != nil {
		return err
	}
	store, err := pgstore.Open(ctx, cfg, pgstore.Config{AllowNonDurable: true})
	if err != nil {
		return err
	}
	guard, err := server.NewGuard(store, server.Unscoped, server.Config{Lease: 500 * time.Millisecond})
	if err != nil {
		return err
	}
	i, err := guardgrpc.New(guard, guardgrpc.Config{Scope: guardgrpc.Unscoped, Methods: map[string]guardgrpc.Method{
		stockpb.Stock_Reserve_FullMethodName: {Effect: server.Transactional},
		stockpb.Stock_Release_FullMethodName: {Effect: server.Transactional},
	}})
	if err != nil {
		return err
	}
	srv := grpc.NewServer(i.ServerOptions()...)
	stockpb.RegisterStockServer(srv, durable{})
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	return srv.Serve(l)
}

// A durable has its effects in Postgres.
type durable struct {
	stockpb.UnimplementedStockServer
}

func (durable) Reserve(ctx context.Context, in *stockpb.ReserveRequest) (*stockpb.Hold, error) {
	hold := &stockpb.Hold{Sku: in.GetSku()}
	err := pgstore.Tx(ctx).QueryRow(ctx, "insert into holds (sku) values ($1) returning id", in.GetSku()).Scan(&hold.Id)
	time.Sleep(time.Duration(rand.IntN(10)) * time.Millisecond) //nolint:gosec // time to be killed in
	return hold, err
}

// A child is the callee as a process of its own.
type child struct {
	t        *testing.T
	address  string
	database string
	cmd      *exec.Cmd
}

func (c *child) start() {
	bin, err := os.Executable()
	require.NoError(c.t, err)
	c.cmd = exec.Command(bin)
	c.cmd.Env = append(os.Environ(), childVariable+"="+c.address, "SDKGRPC_CHILD_DATABASE="+c.database)
	c.cmd.Stderr = os.Stderr
	dieWithParent(c.cmd)
	require.NoError(c.t, c.cmd.Start())
}

// kill ends the process by SIGKILL.
func (c *child) kill() {
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait() // it says that it was killed
}

// freeAddress returns an address outside the range from which kernels give ports to outgoing connections: it stays
// free while the child is dead.
func freeAddress(t *testing.T) string {
	t.Helper()
	for range 20 {
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(20000+rand.IntN(12000))) //nolint:gosec // a test
		if l, err := net.Listen("tcp", address); err == nil {
			require.NoError(t, l.Close())
			return address
		}
	}
	t.Fatal("no free address")
	return ""
}

// The callee is killed in the middle of its work, again and again. Every call ends well, and its row is there once.
func TestKills(t *testing.T) {
	t.Parallel()
	const calls, kills = 300, 6
	pool := pgtest.NewPool(t, func(ctx context.Context, pool *pgxpool.Pool, schema string) error {
		if err := pgstore.Migrate(ctx, pool, schema); err != nil {
			return err
		}
		_, err := pool.Exec(ctx, "create table holds (id bigint generated always as identity, sku text not null)")
		return err
	})
	c := &child{t: t, address: freeAddress(t), database: pool.Config().ConnString()}
	c.start()
	defer func() { c.kill() }()

	policy := insistent()
	policy.Backoff.Cap, policy.Timeout = 500*time.Millisecond, 2*time.Minute
	service, err := sdkgrpc.Service(dial(t, c.address), policy)
	client := newClient(t, service, err)
	var done atomic.Int64
	var callers sync.WaitGroup
	for n := range 8 {
		callers.Go(func() {
			for i := n; i < calls; i += 8 {
				sku := fmt.Sprintf("sku-%d", i)
				ctx := under(t.Context(), sku)
				hold, err := sdk.Call(ctx, client, reserve, line(sku))
				for sdk.Resumable(err) && t.Context().Err() == nil { // a busy machine may take long to start the callee
					hold, err = sdk.Call(ctx, client, reserve, line(sku))
				}
				if err != nil || hold.GetSku() != sku {
					t.Errorf("call %d = %v, %v", i, hold, err)
					continue
				}
				again, err := sdk.Call(ctx, client, reserve, line(sku))
				if err != nil || again.GetId() != hold.GetId() {
					t.Errorf("call %d again = %v, %v; want %v", i, again, err, hold)
				}
				done.Add(1)
			}
		})
	}
	for n := range kills {
		require.Eventually(t, func() bool { return done.Load() > int64(n*calls/(kills+2)) }, time.Minute, time.Millisecond)
		c.kill()
		c.start()
	}
	callers.Wait()
	var rows, skus int
	require.NoError(t, pool.QueryRow(t.Context(), "select count(*), count(distinct sku) from holds").Scan(&rows, &skus))
	require.Equal(t, calls, rows)
	require.Equal(t, calls, skus)
}
