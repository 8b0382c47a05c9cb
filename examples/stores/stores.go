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
	"github.com/fanonce/fanonce/server/store"
)

// schemes are the stores, by the scheme of STORE.
var schemes = map[string]func(ctx context.Context, address *url.URL) (opened, error){
	"memory": openMemory, // forgets all keys at its end: to try the example
	"nats":   openNATS,
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

func natsConfig(query url.Values) (natsstore.Config, error) {
	cfg := natsstore.Config{Bucket: query.Get("bucket")}
	if n := query.Get("replicas"); n != "" {
		var err error
		if cfg.Replicas, err = strconv.Atoi(n); err != nil {
			return cfg, fmt.Errorf("%w: replicas %q", errStore, n)
		}
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
