package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/examples/internal/hosting"
	"github.com/fanonce/fanonce/server/pgtest"
)

const (
	benchCallers = 64
	benchTurn    = 500 * time.Millisecond
)

// BenchmarkCallee measures what the guard leaves of a service's throughput: the
// same handler guarded and not, over HTTP on kept connections, WORK=0, each
// writing its row durably. The routes take turns; an op is one turn of each.
// Reported are medians over the turns. The callers are in this process and take
// their share of the machine from all alike.
func BenchmarkCallee(b *testing.B) {
	address := benchService(b)
	routes := []string{"/v1/effect", "/v1/effect-opaque"}
	rates := make(map[string][]float64)
	b.ReportAllocs()
	for b.Loop() {
		bare := benchRate(b, address, "/v1/unguarded")
		rates["bare-calls/s"] = append(rates["bare-calls/s"], bare)
		for _, route := range routes {
			rate := benchRate(b, address, route)
			name := strings.TrimPrefix(route, "/v1/")
			rates[name+"-calls/s"] = append(rates[name+"-calls/s"], rate)
			rates["x-"+name] = append(rates["x-"+name], rate/bare)
		}
	}
	for unit, all := range rates {
		slices.Sort(all)
		b.ReportMetric(all[len(all)/2], unit)
	}
}

// benchService serves the ledger, and its handler once more without the guard, on
// a server that keeps what it has acknowledged.
func benchService(b *testing.B) (address string) {
	b.Helper()
	cluster, err := pgtest.Start(b.Context(), pgtest.Config{Durable: true, Settings: map[string]string{
		"shared_buffers": "256MB", "max_wal_size": "4GB",
	}})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, cluster.Stop()) })
	url, err := cluster.CreateDatabase(b.Context(), "ledger")
	require.NoError(b, err)
	database := withPool(url, 32)
	cfg, err := configFromEnv(func(name string) string {
		return map[string]string{"LISTEN": ":0", "DATABASE_URL": database, "WORK": "0s"}[name]
	})
	require.NoError(b, err)
	s, err := open(b.Context(), cfg)
	require.NoError(b, err)
	b.Cleanup(s.Close)
	b.Cleanup(func() { require.NoError(b, s.Drain(context.WithoutCancel(b.Context()))) }) // its ctx has ended by then
	s.Handle("POST /v1/unguarded", hosting.WithAuthorization(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key, _, err := wire.ParseKeyHeader(r.Header.Values(wire.HeaderKey))
		if err != nil {
			hosting.WriteError(w, err)
			return
		}
		s.write(w, r, key, 0, s.database.Pool)
	})))
	web := httptest.NewServer(s)
	b.Cleanup(web.Close)
	return web.Listener.Addr().String()
}

var benchKeys atomic.Int64

// benchRate lets all callers work for a turn, and returns how many calls a second
// they made.
func benchRate(b *testing.B, address, route string) float64 {
	b.Helper()
	var wg sync.WaitGroup
	var calls atomic.Int64
	end := time.Now().Add(benchTurn)
	for range benchCallers {
		wg.Go(func() {
			n, err := benchCall(address, route, end)
			if err != nil {
				b.Errorf("%s: %v", route, err)
			}
			calls.Add(n)
		})
	}
	wg.Wait()
	return float64(calls.Load()) / benchTurn.Seconds()
}

// benchCall makes calls on one connection until end.
func benchCall(address, route string, end time.Time) (calls int64, err error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	in := bufio.NewReader(conn)
	for ; time.Now().Before(end); calls++ {
		key := strconv.FormatInt(benchKeys.Add(1), 10)
		_, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: ledger\r\nAuthorization: Bearer t\r\nIdempotency-Key: %s\r\n"+
			"Content-Type: application/json\r\nContent-Length: 10\r\n\r\n{\"fp\":\"x\"}", route, key)
		if err != nil {
			return calls, err
		}
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			return calls, err
		}
		_, err = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusCreated {
			return calls, fmt.Errorf("status %d, error %w", resp.StatusCode, err)
		}
	}
	return calls, nil
}
