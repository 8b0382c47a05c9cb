package sdk

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/retry"
)

// DefaultMaxParallel is how many branches of one fan-out run at a time.
const DefaultMaxParallel = 16

// Config configures a [Client].
type Config struct {
	// Services are the callees, by the names that operations and child keys
	// use. At least one is required. [New] copies the map.
	Services map[string]Service
	// Retry is how attempts are made, for every service without a
	// [Service.Retry] of its own. The zero value means package retry's defaults.
	Retry retry.Config
	// MaxParallel is how many branches of one fan-out run at a time; zero means
	// [DefaultMaxParallel]. [MaxParallel] sets it for one fan-out.
	MaxParallel int
}

// A Client calls services. It is safe for concurrent use; a program needs one.
type Client struct {
	services    map[string]*service
	maxParallel int
}

// sender makes the attempts of a call: a *retry.Client.
type sender interface {
	Send(ctx context.Context, call retry.Call) (*retry.Response, error)
	Check(call retry.Call) error
	Exchange(req *http.Request, name func(*retry.Call) error) (*http.Response, *retry.Error)
	Refuse(ctx context.Context, task retry.Task, err error) *retry.Error
}

// refuse ends a call that was stopped here: nothing was sent. The observer of the service's
// calls hears of it, if there is such a service.
func (c *Client) refuse(ctx context.Context, task retry.Task, err error) *retry.Error {
	s, unknown := c.service(task.Service)
	if unknown != nil {
		return refuse(task.Service, task.Operation, task.Key, err)
	}
	return s.sender.Refuse(ctx, task, err)
}

// service returns the service of that name. A nil Client has none.
func (c *Client) service(name string) (*service, error) {
	if c == nil {
		return nil, errNoClient
	}
	s, ok := c.services[name]
	if !ok {
		return nil, fmt.Errorf("%w: %q", ErrNoService, name)
	}
	return s, nil
}

var errNoClient = fmt.Errorf("%w: no Client", ErrConfig)

// Close closes the idle connections of the client's own transports, as
// [retry.Client.Close] does. Transports of a Config belong to the caller. Close may be
// called again, and does nothing for a nil Client.
func (c *Client) Close() {
	if c == nil {
		return
	}
	for _, s := range c.services {
		s.close()
	}
}

// New returns a client. It does no I/O. The error wraps [ErrConfig] and names
// the field and the value that it rejects.
func New(cfg Config) (*Client, error) {
	if len(cfg.Services) == 0 {
		return nil, fmt.Errorf("%w: Services: empty", ErrConfig)
	}
	if cfg.MaxParallel < 0 {
		return nil, fmt.Errorf("%w: MaxParallel: %d is negative", ErrConfig, cfg.MaxParallel)
	}
	c := &Client{services: make(map[string]*service, len(cfg.Services)), maxParallel: cfg.MaxParallel}
	if c.maxParallel == 0 {
		c.maxParallel = DefaultMaxParallel
	}
	// In order, so that of several mistakes the same one is reported each time.
	for _, name := range slices.Sorted(maps.Keys(cfg.Services)) {
		if err := childkey.CheckName(name); err != nil {
			return nil, fmt.Errorf("%w: Services[%q]: %w", ErrConfig, name, err)
		}
		s, err := newService(name, cfg.Services[name], cfg.Retry)
		var shared *sharedPolicyError
		switch {
		case errors.As(err, &shared):
			return nil, fmt.Errorf("%w: Retry: %w", ErrConfig, shared.err)
		case err != nil:
			return nil, fmt.Errorf("%w: Services[%q].%w", ErrConfig, name, err)
		}
		c.services[name] = s
	}
	return c, nil
}
