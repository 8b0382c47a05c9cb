package sdkgrpc_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/saga/pgjournal"
	"github.com/fanonce/fanonce/sdk"
	"github.com/fanonce/fanonce/sdk/sdkgrpc"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/guardgrpc"
	"github.com/fanonce/fanonce/server/guardgrpc/stockpb"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/pgtest"
)

var sagas = flag.Int("sdkgrpc.sagas", 500, "how many sagas TestSagas_badProxy runs")

// The environment of an engine of TestSagas_badProxy.
const (
	engineDatabase = "SDKGRPC_ENGINE_DATABASE"
	engineProxy    = "SDKGRPC_ENGINE_PROXY" // URL of the services that speak HTTP
	engineStock    = "SDKGRPC_ENGINE_STOCK" // address of the one that speaks gRPC
)

type (
	basket   struct{ SKU string }
	document struct{ ID string }
	stockIn  = sdkgrpc.JSON[*stockpb.ReserveRequest]
	stockOut = sdkgrpc.JSON[*stockpb.Hold]
)

// The operations of the sagas, one of each kind of step. The stock's speak gRPC.
var (
	hold   = sdkgrpc.Method[stockIn, stockOut]("stock", stockpb.Stock_Reserve_FullMethodName)
	unhold = sdkgrpc.UndoMethod("stock", stockpb.Stock_Release_FullMethodName, func(u contract.Undo[stockIn, stockOut]) *stockpb.ReleaseRequest {
		return &stockpb.ReleaseRequest{Reserve: u.Input.Message}
	})
	charge = contract.Post[basket, document]("payment", "charge", "/charges")
	refund = contract.Post[contract.Undo[basket, document], struct{}]("payment", "refund", "/refunds")
	book   = contract.Post[basket, document]("shipping", "book", "/parcels")
	mail   = contract.Post[basket, document]("mail", "receipt", "/receipts")

	shop = saga.MustDefine("shop", 1, func(b *saga.Builder[basket, struct{}]) {
		item := saga.Map(b.Input(), func(o basket) stockIn { return stockIn{&stockpb.ReserveRequest{Sku: o.SKU, Quantity: 1}} })
		held := saga.Step(b, hold, item).Undo(unhold)
		paid := saga.Step(b, charge, b.Input()).Undo(refund)
		sent := saga.Step(b, book, b.Input()).After(held, paid).Pivot()
		saga.Step(b, mail, b.Input()).Retriable().After(sent)
	})
)

// runEngine is an engine as a process. It ends when it is killed, or told to end.
func runEngine(ctx context.Context, database string) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer stop()
	cfg, err := pgxpool.ParseConfig(database)
	if err != nil {
		return err
	}
	j, err := pgjournal.Open(ctx, cfg, pgjournal.Config{AllowNonDurable: true})
	if err != nil {
		return err
	}
	conn, err := grpc.NewClient(os.Getenv(engineStock), append(sdkgrpc.DialOptions(),
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(1000)))...)
	if err != nil {
		return err
	}
	soon := retry.Config{Backoff: retry.Backoff{Base: 5 * time.Millisecond, Cap: 50 * time.Millisecond}, MaxAttempts: 4, Budget: plenty()}
	stock, err := sdkgrpc.Service(conn, soon)
	if err != nil {
		return err
	}
	services := map[string]sdk.Service{"stock": stock}
	for _, name := range []string{"payment", "shipping", "mail"} {
		services[name] = sdk.Service{URL: os.Getenv(engineProxy)}
	}
	client, err := sdk.New(sdk.Config{Services: services, Retry: soon})
	if err != nil {
		return err
	}
	e, err := saga.Open(ctx, j, saga.Config{
		Client: client, Definitions: []saga.AnyDefinition{shop}, Lease: 2 * time.Second, Poll: 100 * time.Millisecond,
		Backoff: retry.Backoff{Base: 10 * time.Millisecond, Cap: 200 * time.Millisecond},
	})
	if err != nil {
		return err
	}
	<-ctx.Done()
	ending, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond) // calls that run are cut off
	defer cancel()
	_ = e.Close(ending)
	j.Close()
	return nil
}

// A warehouse answers each twentieth request at more length than its callers take.
type warehouse struct {
	stockpb.UnimplementedStockServer
}

func (warehouse) Reserve(ctx context.Context, in *stockpb.ReserveRequest) (*stockpb.Hold, error) {
	out := &stockpb.Hold{Sku: in.GetSku()}
	if rand.IntN(20) == 0 { //nolint:gosec // a test
		out.Sku = strings.Repeat("x", 2000)
	}
	return out, do(ctx, "hold", in.GetSku())
}

func (warehouse) Release(ctx context.Context, in *stockpb.ReleaseRequest) (*emptypb.Empty, error) {
	return &emptypb.Empty{}, undo(ctx, "hold", in.GetReserve().GetSku())
}

// do has the effect of a step.
func do(ctx context.Context, step, sku string) error {
	_, err := pgstore.Tx(ctx).Exec(ctx, "insert into effect (sku, step, change) values ($1, $2, 1)", sku, step)
	return err
}

// undo takes the effect of a step back, if there was one.
func undo(ctx context.Context, step, sku string) error {
	fate, err := server.Barrier(ctx)
	if err != nil || fate == server.NeverRan {
		return err
	}
	_, err = pgstore.Tx(ctx).Exec(ctx, "insert into effect (sku, step, change) values ($1, $2, -1)", sku, step)
	return err
}

// serveShop serves all operations. It returns the address of the stock, and a handler for the others.
func serveShop(t *testing.T, pool *pgxpool.Pool) (stock string, others http.Handler) {
	store, err := pgstore.Open(t.Context(), pool.Config(), pgstore.Config{AllowNonDurable: true})
	require.NoError(t, err)
	t.Cleanup(store.Close)
	guard, err := server.NewGuard(store, server.Unscoped, server.Config{})
	require.NoError(t, err)
	guarded, err := guardgrpc.New(guard, guardgrpc.Config{Scope: guardgrpc.Unscoped, Methods: map[string]guardgrpc.Method{
		stockpb.Stock_Reserve_FullMethodName: {Effect: server.Transactional},
		stockpb.Stock_Release_FullMethodName: {Effect: server.Transactional},
	}})
	require.NoError(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	srv := grpc.NewServer(guarded.ServerOptions()...)
	stockpb.RegisterStockServer(srv, warehouse{})
	go srv.Serve(listener) //nolint:errcheck // Stop ends it
	t.Cleanup(srv.Stop)

	mux := http.NewServeMux()
	for step, op := range map[string]contract.Operation[basket, document]{"charge": charge, "book": book, "mail": mail} {
		require.NoError(t, server.Handle(mux, guard, op, server.Transactional, func(ctx context.Context, in basket) (document, error) {
			return document{ID: step}, do(ctx, step, in.SKU)
		}))
	}
	require.NoError(t, server.Handle(mux, guard, refund, server.Transactional,
		func(ctx context.Context, in contract.Undo[basket, document]) (struct{}, error) {
			return struct{}{}, undo(ctx, "charge", in.Input.SKU)
		}))
	return listener.Addr().String(), mux
}

// misbehave is a proxy that answers a twentieth of the requests with a sign-in page, and as many like an ingress
// that does not know the service. It cuts as many answers off.
func misbehave(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch rand.IntN(20) { //nolint:gosec // a test
		case 0:
			w.Header().Set("Content-Type", "text/html")
			_, _ = fmt.Fprint(w, "<html><title>Sign in</title></html>")
		case 1:
			w.WriteHeader(http.StatusNotFound)
			_, _ = fmt.Fprint(w, "<html><center>nginx</center></html>")
		case 2:
			next.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// An engineProcess runs engines, one after the other.
type engineProcess struct {
	t   *testing.T
	env []string
	cmd *exec.Cmd
}

func (p *engineProcess) start() {
	bin, err := os.Executable()
	require.NoError(p.t, err)
	p.cmd = exec.Command(bin)
	p.cmd.Env, p.cmd.Stderr = append(os.Environ(), p.env...), os.Stderr
	dieWithParent(p.cmd)
	require.NoError(p.t, p.cmd.Start())
}

func (p *engineProcess) end(by syscall.Signal) {
	_ = p.cmd.Process.Signal(by)
	_ = p.cmd.Wait()
}

// Sagas run through a proxy that answers for the services, loses answers, and has answers that are too long, and
// their engines are killed and shut down all the time. A person retries those that get stuck. In the end the effects
// of each are what its outcome says. It runs alone: it takes all the processors there are.
func TestSagas_badProxy(t *testing.T) {
	pool := pgtest.NewPool(t, func(ctx context.Context, pool *pgxpool.Pool, schema string) error {
		if err := pgstore.Migrate(ctx, pool, schema); err != nil {
			return err
		}
		if err := pgjournal.Migrate(ctx, pool, schema); err != nil {
			return err
		}
		_, err := pool.Exec(ctx, "create table effect (sku text not null, step text not null, change int not null)")
		return err
	})
	stock, others := serveShop(t, pool)
	proxy := httptest.NewServer(misbehave(others))
	t.Cleanup(proxy.Close)
	j, err := pgjournal.Open(t.Context(), pool.Config(), pgjournal.Config{AllowNonDurable: true})
	require.NoError(t, err)
	t.Cleanup(j.Close)
	desk, err := saga.NewOperator(j, shop)
	require.NoError(t, err)

	skus := make(map[string]journal.ID)
	for i := range *sagas {
		sku := fmt.Sprintf("sku-%d", i)
		req, err := shop.Request(childkey.MustParse(sku), basket{sku})
		require.NoError(t, err)
		_, _, err = j.Start(t.Context(), req)
		require.NoError(t, err)
		skus[sku] = req.ID
	}

	ctx, stop := context.WithCancel(t.Context())
	var engines sync.WaitGroup
	for range 3 {
		p := &engineProcess{t: t, env: []string{
			engineDatabase + "=" + pool.Config().ConnString(), engineProxy + "=" + proxy.URL, engineStock + "=" + stock,
		}}
		p.start()
		engines.Go(func() {
			for ctx.Err() == nil {
				select {
				case <-ctx.Done():
				case <-time.After(500*time.Millisecond + rand.N(2*time.Second)): //nolint:gosec // a life
				}
				p.end([]syscall.Signal{syscall.SIGKILL, syscall.SIGTERM}[rand.IntN(2)]) //nolint:gosec // a test
				if ctx.Err() == nil {
					p.start()
				}
			}
		})
	}
	defer engines.Wait()
	defer stop()
	retries := 0
	for {
		st, err := j.Stats(t.Context())
		require.NoError(t, err)
		stuck, err := j.Reader().Browse(t.Context(), journal.BrowseRequest{Statuses: []journal.Status{journal.Stuck}, Limit: 100})
		require.NoError(t, err)
		for _, r := range stuck {
			if _, err := desk.Retry(t.Context(), r.ID, journal.Audit{Actor: "ann", Reason: "a bad proxy"}); err == nil {
				retries++
			}
		}
		if st.ByStatus[journal.Running]+st.ByStatus[journal.Compensating]+st.ByStatus[journal.Stuck] == 0 {
			break
		}
		pause(t, 200*time.Millisecond)
	}

	checkEffects(t, pool, j, skus, retries)
}

// pause waits between two looks.
func pause(t *testing.T, d time.Duration) {
	t.Helper()
	select {
	case <-time.After(d):
	case <-t.Context().Done():
	}
}

func checkEffects(t *testing.T, pool *pgxpool.Pool, j *pgjournal.Journal, skus map[string]journal.ID, retries int) {
	t.Helper()
	type effect struct{ done, undone int }
	effects := make(map[string]map[string]effect)
	rows, err := pool.Query(t.Context(), "select sku, step, change from effect")
	require.NoError(t, err)
	defer rows.Close()
	for rows.Next() {
		var sku, step string
		var change int
		require.NoError(t, rows.Scan(&sku, &step, &change))
		if effects[sku] == nil {
			effects[sku] = make(map[string]effect)
		}
		e := effects[sku][step]
		if change > 0 {
			e.done++
		} else {
			e.undone++
		}
		effects[sku][step] = e
	}
	require.NoError(t, rows.Err())
	ended := make(map[journal.Status]int)
	for sku, id := range skus {
		r, err := j.Read(t.Context(), id)
		require.NoError(t, err)
		ended[r.Status]++
		for _, step := range []string{"hold", "charge", "book", "mail"} {
			e, want := effects[sku][step], 0
			if r.Status == journal.Completed {
				want = 1
			}
			if e.done > 1 || e.undone > e.done || e.done-e.undone != want {
				t.Errorf("saga of %s is %v, and its %s took effect %d times and was undone %d times", sku, r.Status, step, e.done, e.undone)
			}
		}
	}
	t.Logf("%d sagas: %v; %d retries of stuck ones", len(skus), ended, retries)
	require.Len(t, ended, 2, "both ways are taken")
}
