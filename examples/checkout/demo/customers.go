package demo

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/examples/checkout/internal/checkoutapi"
	"github.com/fanonce/fanonce/examples/checkout/internal/inventoryapi"
	"github.com/fanonce/fanonce/examples/checkout/internal/report"
	"github.com/fanonce/fanonce/examples/checkout/internal/unguarded"
	"github.com/fanonce/fanonce/sdk"
)

const (
	patience = 90 * time.Second       // how long a customer goes on trying
	pause    = 100 * time.Millisecond // before the button is pressed again
)

// placeFunc places an order once; the sdk's retries are within it.
type placeFunc func(context.Context, checkoutapi.Order) (checkoutapi.Confirmation, error)

// placer returns what a customer's button does. The order's number is its key:
// whoever presses again, after a crash or on another machine, presses the same.
func (s *stage) placer(client *sdk.Client) placeFunc {
	if s.opts.unsafe {
		return func(ctx context.Context, order checkoutapi.Order) (checkoutapi.Confirmation, error) {
			return unguarded.Call(ctx, s.edges["checkout"].URL(), checkoutapi.Place, order)
		}
	}
	return func(ctx context.Context, order checkoutapi.Order) (checkoutapi.Confirmation, error) {
		key, err := childkey.Parse(order.ID)
		if err != nil {
			return checkoutapi.Confirmation{}, err
		}
		return sdk.Call(childkey.NewContext(ctx, key), client, checkoutapi.Place, order)
	}
}

// customers is a crowd that places orders.
type customers struct {
	place  placeFunc
	orders orders
	// rest is how long a customer waits after each order: 0 for a crowd that is counted.
	rest time.Duration

	accepted, submissions atomic.Int64

	mu            sync.Mutex
	confirmations map[string]checkoutapi.Confirmation // by order
	failures      map[string]error                    // the last of each order that was given up
}

func newCustomers(place placeFunc, opts options) *customers {
	c := &customers{
		place: place, orders: orders{rng: rand.New(rand.NewPCG(opts.seed, 1)), left: opts.checkouts},
		confirmations: make(map[string]checkoutapi.Confirmation), failures: make(map[string]error),
	}
	if opts.serve {
		c.orders.left, c.rest = math.MaxInt, watchedRest
	}
	return c
}

// orders makes one order after the other: the same ones for the same seed. It is safe for concurrent use.
type orders struct {
	mu    sync.Mutex
	rng   *rand.Rand
	left  int
	begun int
}

// take returns the next order; false if there are no more.
func (o *orders) take() (order checkoutapi.Order, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.left == 0 {
		return order, false
	}
	o.left--
	o.begun++
	order = checkoutapi.Order{ID: fmt.Sprintf("order-%04d", o.begun), Card: "4242 4242 4242 4242"}
	for range 1 + o.rng.IntN(3) {
		order.Items = append(order.Items, inventoryapi.Item{
			SKU: fmt.Sprintf("sku-%02d", o.rng.IntN(100)), Count: 1 + o.rng.IntN(3), Cents: 100 + o.rng.Int64N(9900),
		})
	}
	return order, true
}

// count returns how many orders were begun.
func (o *orders) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.begun
}

// buy has every order placed, parallel at a time, and returns when all are
// accepted or given up, or when ctx ends.
func (c *customers) buy(ctx context.Context, parallel int) {
	var crowd sync.WaitGroup
	for range parallel {
		crowd.Go(func() {
			for ctx.Err() == nil {
				order, ok := c.orders.take()
				if !ok {
					return
				}
				c.insist(ctx, order)
				sleep(ctx, c.rest)
			}
		})
	}
	crowd.Wait()
}

// sleep returns after d, or when ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	if d == 0 {
		return
	}
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// insist presses the button until the order is accepted. A call that failed
// may have placed it: the same key finds out, and finishes what it left.
func (c *customers) insist(ctx context.Context, order checkoutapi.Order) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		c.submissions.Add(1)
		confirmation, err := c.place(ctx, order)
		if err == nil {
			c.accept(order, confirmation)
			return
		}
		select {
		case <-ctx.Done():
			c.giveUp(order, err)
			return
		case <-time.After(pause):
		}
	}
}

func (c *customers) accept(order checkoutapi.Order, confirmation checkoutapi.Confirmation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.confirmations[order.ID] = confirmation
	c.accepted.Add(1)
}

func (c *customers) giveUp(order checkoutapi.Order, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failures[order.ID] = err
}

// reportFailures returns the orders that were given up.
func (c *customers) reportFailures() []report.Failure {
	failures := []report.Failure{}
	for _, order := range slices.Sorted(maps.Keys(c.failures)) {
		failures = append(failures, report.Failure{Order: order, Error: c.failures[order].Error()})
	}
	return failures
}
