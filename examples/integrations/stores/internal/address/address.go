// Package address opens the store that an address names, for the commands of this module. Start with [Open].
package address

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"

	"github.com/fanonce/fanonce/server/memstore"
	"github.com/fanonce/fanonce/server/redisstore"
	"github.com/fanonce/fanonce/server/store"
)

// schemes are the stores, by the scheme of the address.
var schemes = map[string]func(ctx context.Context, address *url.URL) (Opened, error){
	"memory": openMemory, // forgets all keys at its end: to try the example
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
