package retry

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/fanonce/fanonce/childkey/wire"
)

// A Client makes calls. It is safe for concurrent use, and meant to be kept:
// its connections and its retry budget are shared by its calls. Make one with
// [New]: calls of a nil or zero Client end as NotSent, with [ErrConfig].
type Client struct {
	cfg      Config
	observer Observer // nil: nobody listens
	tracer   Tracer   // nil: it hears of ends alone

	carrier carrier // of its calls' keys
	targets targets // of its calls

	own *http.Transport // made by New; nil: the Config had one

	wholeAttempt string // what the callee is told of an attempt that has all of its time
}

// New returns a client, or an error wrapping [ErrConfig] and naming the field
// of cfg that it rejects. It does no I/O and starts no goroutine.
func New(cfg Config) (*Client, error) {
	given := cfg.Transport != nil
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	c := &Client{cfg: cfg, carrier: newCarrier(cfg.Profile)}
	if !given {
		c.own, _ = cfg.Transport.(*http.Transport)
	}
	c.wholeAttempt = wire.FormatRequestTimeout(cfg.AttemptTimeout - cfg.TimeoutMargin)
	c.observer, c.tracer = newObservers(cfg)
	return c, nil
}

// unmade stands for a nil Client, and for one that [New] did not make: it knows no limits,
// so no call of it is made, and nobody listens to it.
var unmade = new(Client)

var errUnmade = fmt.Errorf("%w: the Client is nil, or was not made by New", ErrConfig)

// made returns c, or unmade in place of one that New did not make.
func (c *Client) made() *Client {
	if c == nil || c.cfg.Budget == nil {
		return unmade
	}
	return c
}

// Send makes the call and blocks until it has a complete 2xx answer, or stops
// with an [*Error]. ctx bounds the call as [Config.Timeout] does; what it says
// of an inbound request (wire.Inbound) bounds time and retries too. A complete
// answer wins over a ctx that ended meanwhile. Redirects are followed where
// they keep the method, stay on the same origin and are not the stored answer
// of a handler.
func (c *Client) Send(ctx context.Context, call Call) (*Response, error) {
	x := c.exchange(ctx, &call, true)
	defer x.release()
	if x.err != nil {
		return nil, x.err
	}
	return x.response(), nil
}

// Check returns the error for which Send would refuse the call before it sends anything: one
// that wraps [ErrInvalid], or [ErrConfig] for a Client that [New] did not make. Nil means
// that Send would send the call. Check is for those who make several calls or none. It does
// not read a Stream.
func (c *Client) Check(call Call) error {
	if c = c.made(); c == unmade {
		return errUnmade
	}
	var f frozen
	_, err := f.freeze(&call, &c.carrier, &c.targets)
	return err
}

// Close closes the idle connections of the client's own transport, with their goroutines.
// Call it when no more calls will be made. Calls that are running are not disturbed, and
// their connections are closed when they end. A [Config.Transport] belongs to the caller:
// Close leaves it alone. Close may be called again, and does nothing for a nil Client.
func (c *Client) Close() {
	if c != nil && c.own != nil {
		c.own.CloseIdleConnections()
	}
}

// Timeout returns [Config.Timeout]: the longest that one call takes.
func (c *Client) Timeout() time.Duration { return c.made().cfg.Timeout }

// Refuse ends a call before anything of it was sent, as NotSent because of err, for
// those who check more than a [Client] does before they make its calls: observers
// hear of it as of any other. It returns what the call then returns.
func (c *Client) Refuse(ctx context.Context, task Task, err error) *Error {
	r := run{task: task}
	r.note(ctx, nil)
	r.open(ctx, c)
	failed := r.fail(nil, err)
	r.noteEnd(failed)
	r.observeCall(nil, failed)
	return failed
}
