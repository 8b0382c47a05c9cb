package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"

	"github.com/nats-io/nats.go"

	"github.com/fanonce/fanonce/server/memstore"
	"github.com/fanonce/fanonce/server/natsstore"
	"github.com/fanonce/fanonce/server/redisstore"
	"github.com/fanonce/fanonce/server/store"
)

// schemes are the stores, by the scheme of STORE.
var schemes = map[string]func(ctx context.Context, address *url.URL) (opened, error){
	"memory": openMemory, // forgets all keys at its end: to try the example
	"nats":   openNATS,
	"redis":  openRedis,
	"rediss": openRedis, // with TLS
}

var errStore = errors.New("STORE")

// An opened is a store, and what must be done with it at the end.
type opened struct {
	store.Store
	close func()
}

// openStore opens the store at address.
func openStore(ctx context.Context, address string) (opened, error) {
	u, err := url.Parse(address)
	if err != nil {
		return opened{}, fmt.Errorf("%w: %w", errStore, err)
	}
	open, known := schemes[u.Scheme]
	if !known {
		return opened{}, fmt.Errorf("%w: no store has the scheme %q", errStore, u.Scheme)
	}
	return open(ctx, u)
}

func openMemory(context.Context, *url.URL) (opened, error) {
	return opened{Store: memstore.New(), close: func() {}}, nil
}

// openNATS takes the parameters bucket, replicas, and flush=always or flush=periodically: what the servers'
// sync_interval is.
func openNATS(ctx context.Context, address *url.URL) (opened, error) {
	cfg, err := natsConfig(address.Query())
	if err != nil {
		return opened{}, err
	}
	server := *address
	server.RawQuery = ""
	conn, err := nats.Connect(server.String(), nats.MaxReconnects(-1))
	if err != nil {
		return opened{}, err
	}
	if err := natsstore.Create(ctx, conn, cfg); err != nil {
		conn.Close()
		return opened{}, err
	}
	keys, err := natsstore.Open(ctx, conn, cfg)
	if err != nil {
		conn.Close()
		return opened{}, err
	}
	return opened{Store: keys, close: func() { keys.Close(); conn.Close() }}, nil
}

func natsConfig(query url.Values) (cfg natsstore.Config, err error) {
	cfg.Bucket = query.Get("bucket")
	if cfg.Replicas, err = replicas(query); err != nil {
		return cfg, err
	}
	switch flush := query.Get("flush"); flush {
	case "always":
		cfg.Durability = natsstore.FlushEachWrite
	case "periodically":
		cfg.Durability = natsstore.FlushPeriodically
	default:
		return cfg, fmt.Errorf("%w: flush %q, want always or periodically, as the servers' sync_interval", errStore, flush)
	}
	return cfg, nil
}

// openRedis takes the parameter replicas, how many of them must have a write, beside those of [redisstore.ParseURL].
func openRedis(ctx context.Context, address *url.URL) (opened, error) {
	query := address.Query()
	n, err := replicas(query)
	if err != nil {
		return opened{}, err
	}
	query.Del("replicas")
	servers := *address
	servers.RawQuery = query.Encode()
	options, err := redisstore.ParseURL(servers.String())
	if err != nil {
		return opened{}, err
	}
	keys, err := redisstore.Open(ctx, options, redisstore.Config{Replicas: n})
	if err != nil {
		return opened{}, err
	}
	return opened{Store: keys, close: func() { keys.Close() }}, nil
}

// replicas returns the parameter of that name; 0 if there is none.
func replicas(query url.Values) (int, error) {
	text := query.Get("replicas")
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, fmt.Errorf("%w: replicas %q", errStore, text)
	}
	return n, nil
}
