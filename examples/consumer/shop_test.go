package main

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/sdk"
)

// Callers pay over HTTP, and try again until they have a receipt. Shops with their jobs and ledgers are killed
// meanwhile. In the end each call is one payment and one job, and each payment is booked once. One shop listens for
// jobs, and the other one only polls. The full figures:
//
//	go test -run TestShop_killed -consumer.messages 10000 -consumer.kills 20 -timeout 30m
func TestShop_killed(t *testing.T) {
	t.Parallel()
	eachBroker(t, func(t *testing.T, at *place) {
		began := time.Now()
		ports, err := freePorts(2)
		require.NoError(t, err)
		var shops, ledgers [2]*process
		startShop := func(i int) {
			shops[i] = at.start(t, "shop", "-listen", "127.0.0.1:"+ports[i], fmt.Sprint("-poll-only=", i == 1))
		}
		for i := range shops {
			startShop(i)
			ledgers[i] = at.start(t, "ledger")
		}
		paid := payAll(t, ports)
		for k := range *kills {
			at.untilBooked(t, min((k+1)**messages/(*kills+2), *messages-1))
			shops[k%2].kill(t)
			ledgers[k%2].kill(t)
			startShop(k % 2)
			ledgers[k%2] = at.start(t, "ledger")
		}
		receipts := paid()
		at.untilBooked(t, *messages)
		at.untilQuiet(t)
		for i := range shops {
			shops[i].stop(t)
			ledgers[i].stop(t)
		}
		requireOnce(t, at, *messages)
		require.Zero(t, count(t, at.pool, unpublished), "messages that are not published")
		require.Equal(t, *messages, count(t, at.pool, "select count(*) from river_job"), "one job for each payment")
		require.Zero(t, at.waiting(t), "messages that are not acknowledged")
		require.Equal(t, *messages, count(t, at.pool, "select count(*) from payment where id = any ($1)", receipts), "receipts of payments that are there")
		t.Logf("%d payments, %d shops and %d ledgers killed, in %v", *messages, *kills, *kills, time.Since(began).Round(100*time.Millisecond))
	})
}

// payAll begins to make all payments. The result waits for them, and returns their receipts.
func payAll(t *testing.T, ports []string) func() []string {
	t.Helper()
	client, err := sdk.New(sdk.Config{
		Services: map[string]sdk.Service{"shop": {URL: "http://shops"}},
		Retry:    retry.Config{Transport: &balancer{ports: ports, to: http.DefaultTransport.(*http.Transport).Clone()}},
	})
	require.NoError(t, err)
	receipts, failures := make([]string, *messages), make([]error, *messages)
	var running sync.WaitGroup
	var next atomic.Int64
	for range 8 {
		running.Go(func() {
			for i := int(next.Add(1)) - 1; i < *messages; i = int(next.Add(1)) - 1 {
				ctx := childkey.NewContext(context.WithoutCancel(t.Context()), childkey.MustParse(fmt.Sprint("payment-", i)))
				for {
					receipt, err := sdk.Call(ctx, client, pay, Request{Account: fmt.Sprint("a", i%20), Cents: int64(i + 1)})
					if receipts[i], failures[i] = receipt.ID, err; !sdk.Resumable(err) { // else again, with the same key
						break
					}
				}
			}
		})
	}
	t.Cleanup(func() {
		running.Wait()
		client.Close()
	})
	return func() []string {
		running.Wait()
		for _, err := range failures {
			require.NoError(t, err)
		}
		return receipts
	}
}

// A balancer sends each request to another shop.
type balancer struct {
	ports []string
	to    *http.Transport
	n     atomic.Int64
}

func (b *balancer) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.URL.Host = "127.0.0.1:" + b.ports[int(b.n.Add(1))%len(b.ports)]
	return b.to.RoundTrip(req)
}

func (b *balancer) CloseIdleConnections() { b.to.CloseIdleConnections() }
