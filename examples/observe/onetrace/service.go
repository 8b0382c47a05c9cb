package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel/propagation"

	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/guardotel"
	"github.com/fanonce/fanonce/server/pgstore"
)

// variable is where a process finds its config. A process without it plays the checkout.
const variable = "ONETRACE_SERVICE"

// A config is what the process of a service is told.
type config struct {
	Service  string // shop, inventory, payment or shipping
	Process  string // its name in the picture
	Database string
	Spans    string // the file for its spans

	Inventory, Payment, Shipping string // the URLs that a shop calls
}

func configFromEnv() (cfg config, ok bool) {
	text := os.Getenv(variable)
	return cfg, text != "" && json.Unmarshal([]byte(text), &cfg) == nil
}

// serve is the life of a service's process. It prints its address, and a line when the charge is running.
func serve(ctx context.Context, cfg config) error {
	t, err := newTelemetry(cfg.Process, cfg.Spans)
	if err != nil {
		return err
	}
	guard, err := openGuard(ctx, cfg, t)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	switch cfg.Service {
	case "shop":
		err = openShop(ctx, cfg, t, guard, mux)
	case "inventory":
		err = serveEffect(mux, guard, reserve, 40*time.Millisecond)
	case "payment":
		err = serveEffect(mux, guard, charge, 1500*time.Millisecond)
	case "shipping":
		err = serveEffect(mux, guard, book, 60*time.Millisecond)
	default:
		err = fmt.Errorf("no service %q", cfg.Service)
	}
	if err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(listener.Addr())
	web := &http.Server{Handler: continued(mux), ReadHeaderTimeout: time.Second}
	return web.Serve(listener)
}

func openGuard(ctx context.Context, cfg config, t *telemetry) (*server.Guard, error) {
	pool, err := pgxpool.New(ctx, cfg.Database)
	if err != nil {
		return nil, err
	}
	if err = pgstore.Migrate(ctx, pool, ""); err != nil {
		return nil, err
	}
	if _, err = pool.Exec(ctx, "create table if not exists effects (what text)"); err != nil {
		return nil, err
	}
	store, err := pgstore.Open(ctx, pool.Config(), pgstore.Config{AllowNonDurable: true})
	if err != nil {
		return nil, err
	}
	observer, err := guardotel.New(guardotel.Config{TracerProvider: t.provider})
	if err != nil {
		return nil, err
	}
	return server.NewGuard(store, server.Unscoped, server.Config{
		Namespace: cfg.Service, Observer: observer, Lease: time.Second,
	})
}

// serveEffect serves an operation that writes one row, and takes its time.
func serveEffect(mux *http.ServeMux, guard *server.Guard, op contract.Operation[int, int], takes time.Duration) error {
	return server.Handle(mux, guard, op, server.Transactional, func(ctx context.Context, in int) (int, error) {
		fmt.Println("working")
		if _, err := pgstore.Tx(ctx).Exec(ctx, "insert into effects values ($1)", op.Name()); err != nil {
			return 0, err
		}
		time.Sleep(takes)
		return in, nil
	})
}

// continued serves requests in the traces of their callers, as otelhttp does.
func continued(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}
