// Package address opens the store that an address names, for the commands of this module. Start with [Open].
package address

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

// schemes are the stores, by the scheme of the address.
var schemes = map[string]func(ctx context.Context, address *url.URL) (Opened, error){
	"memory": openMemory, // forgets all keys at its end: to try the example
	"nats":   openNATS,
	"redis":  openRedis,
	"rediss": openRedis, // with TLS
}

// ErrAddress means that an address names no store, or has a parameter that its store does not know.
var ErrAddress = errors.New("STORE")

// An Opened is a store, and what must be done with it at the end.
type Opened struct {
	store.Store
	Close func()
}

// Open opens the store at address. An error about the address itself wraps [ErrAddress]. It blocks until the store
// answers.
func Open(ctx context.Context, address string) (Opened, error) {
	u, err := url.Parse(address)
	if err != nil {
		return Opened{}, fmt.Errorf("%w: %w", ErrAddress, err)
	}
	return OpenURL(ctx, u)
}

// OpenURL is [Open] for an address that is parsed already.
func OpenURL(ctx context.Context, address *url.URL) (Opened, error) {
	open, known := schemes[address.Scheme]
	if !known {
		return Opened{}, fmt.Errorf("%w: no store has the scheme %q", ErrAddress, address.Scheme)
	}
	return open(ctx, address)
}

func openMemory(context.Context, *url.URL) (Opened, error) {
	return Opened{Store: memstore.New(), Close: func() {}}, nil
}

// openNATS takes the parameters bucket, replicas, and flush=always or flush=periodically: what the servers'
// sync_interval is.
func openNATS(ctx context.Context, address *url.URL) (Opened, error) {
	cfg, err := natsConfig(address.Query())
	if err != nil {
		return Opened{}, err
	}
	server := *address
	server.RawQuery = ""
	conn, err := nats.Connect(server.String(), nats.MaxReconnects(-1))
	if err != nil {
		return Opened{}, err
	}
	if err := natsstore.Create(ctx, conn, cfg); err != nil {
		conn.Close()
		return Opened{}, err
	}
	keys, err := natsstore.Open(ctx, conn, cfg)
	if err != nil {
		conn.Close()
		return Opened{}, err
	}
	return Opened{Store: keys, Close: func() { keys.Close(); conn.Close() }}, nil
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
		return cfg, fmt.Errorf("%w: flush %q, want always or periodically, as the servers' sync_interval", ErrAddress, flush)
	}
	return cfg, nil
}

// openRedis takes the parameter replicas, how many of them must have a write, beside those of [redisstore.ParseURL].
func openRedis(ctx context.Context, address *url.URL) (Opened, error) {
	query := address.Query()
	n, err := replicas(query)
	if err != nil {
		return Opened{}, err
	}
	query.Del("replicas")
	servers := *address
	servers.RawQuery = query.Encode()
	options, err := redisstore.ParseURL(servers.String())
	if err != nil {
		return Opened{}, err
	}
	keys, err := redisstore.Open(ctx, options, redisstore.Config{Replicas: n})
	if err != nil {
		return Opened{}, err
	}
	return Opened{Store: keys, Close: func() { keys.Close() }}, nil
}

// replicas returns the parameter of that name; 0 if there is none.
func replicas(query url.Values) (int, error) {
	text := query.Get("replicas")
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, fmt.Errorf("%w: replicas %q", ErrAddress, text)
	}
	return n, nil
}
