package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/examples/internal/blackboxtest"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgtest"
)

// An unfinished request has announced a body, of which less than all was sent.
type unfinished struct{ net.Conn }

// beginRequest sends the head of a request and the first sent bytes of a body of length.
func beginRequest(t *testing.T, p *blackboxtest.Process, path, key string, length, sent int) unfinished {
	t.Helper()
	return beginRequestOf(t, p, "t", path, key, length, sent)
}

func beginRequestOf(t *testing.T, p *blackboxtest.Process, tenant, path, key string, length, sent int) unfinished {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(p.URL, "http://"))
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: ledger\r\nAuthorization: Bearer %s\r\nIdempotency-Key: %s\r\n"+
		"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", path, tenant, key, length, strings.Repeat("x", sent))
	require.NoError(t, err)
	return unfinished{conn}
}

// answer returns what the server says, and requires that it closes the connection.
func (u unfinished) answer(t *testing.T, before time.Time) blackboxtest.Answer {
	t.Helper()
	require.NoError(t, u.SetReadDeadline(before))
	read := bufio.NewReader(u)
	resp, err := http.ReadResponse(read, nil)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	_, err = read.ReadByte()
	require.Error(t, err)
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded, "the connection stays open")
	return blackboxtest.Answer{Status: resp.StatusCode, Header: resp.Header, Body: string(body)}
}

// busyMachine is what a machine may need longer that runs other tests beside this one.
const busyMachine = 90 * time.Second

var slowCallers = flag.Int("ledger.slow", 500, "callers of TestSlowBodies")

// Many callers begin a body and do not end it, half of them byte by byte. Each has its
// answer by the default deadline, and others are served meanwhile.
func TestSlowBodies(t *testing.T) {
	t.Parallel()
	callers := *slowCallers
	database := pgtest.URL(t)
	p := ledger(t, database)
	begun := time.Now()
	slow := make([]unfinished, callers)
	for n := range slow {
		slow[n] = beginRequest(t, p, "/v1/effect", fmt.Sprint("slow-", n), 1000, 1)
	}
	nowhere := beginRequest(t, p, "/nowhere", "slow", 1000, 1) // no guard reads its body
	end := time.Now().Add(server.DefaultBodyTimeout + busyMachine)
	trickling, stop := context.WithCancel(t.Context())
	defer stop()
	go trickle(trickling, slow[:callers/2])
	require.Equal(t, http.StatusCreated, blackboxtest.Post(t.Context(), blackboxtest.Request{
		URL: p.URL + "/v1/effect", Tenant: "t", Key: "quick", Body: `{"fp":"a"}`,
	}).Status)
	require.Less(t, time.Since(begun), server.DefaultBodyTimeout+busyMachine)
	for _, u := range slow {
		a := u.answer(t, end)
		require.Equal(t, http.StatusRequestTimeout, a.Status, a.Body)
		require.Equal(t, string(wire.BodyTimeout), a.Header.Get(wire.HeaderCode))
		require.Equal(t, "true", a.Header.Get(wire.HeaderShouldRetry))
		require.NotEmpty(t, a.Header.Get(wire.HeaderRetryAfter))
	}
	require.Equal(t, http.StatusNotFound, nowhere.answer(t, end).Status)
	require.Equal(t, 2, rowsLeft(t, connect(t, database)), "the quick call's key and effect")
}

// trickle sends each body another byte, again and again.
func trickle(ctx context.Context, bodies []unfinished) {
	for ctx.Err() == nil {
		for _, u := range bodies {
			_, _ = u.Write([]byte("x")) // it may have its answer already
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second): // a byte now and then does not extend the timeout
		}
	}
}

// No run begins while a body is still coming. The process ends without waiting for it.
func TestSIGTERM_slowBodies(t *testing.T) {
	t.Parallel()
	p := ledger(t, pgtest.URL(t), "BODY_TIMEOUT=1h")
	warm := blackboxtest.Request{URL: p.URL + "/v1/effect", Tenant: "t", Key: "warm", Body: `{"fp":"a"}`}
	require.Equal(t, http.StatusCreated, blackboxtest.Post(t.Context(), warm).Status)
	slow := make([]unfinished, 20)
	for n := range slow {
		slow[n] = beginRequest(t, p, "/v1/effect", fmt.Sprint("slow-", n), 1000, 1)
	}
	// Requests of a server are read in no order. One that came later was answered, so
	// these are being read, or will be when the process is told to stop.
	warm.Key = "later"
	require.Equal(t, http.StatusCreated, blackboxtest.Post(t.Context(), warm).Status)
	told := time.Now()
	p.Signal(syscall.SIGTERM)
	require.NoError(t, p.Wait())
	require.Less(t, time.Since(told), 5*time.Second, "no part of a stop was used up")
	for _, u := range slow {
		_ = u.SetReadDeadline(time.Now().Add(time.Minute))
		resp, err := http.ReadResponse(bufio.NewReader(u), nil)
		require.NoError(t, err)
		resp.Body.Close()
		require.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
		require.Equal(t, "true", resp.Header.Get(wire.HeaderShouldRetry))
	}
}

// 400 callers of five tenants send all of 1 MiB but the last byte. The process holds a bounded
// number of these bodies, and of each tenant's no more than a quarter. It refuses the others for now, and serves requests
// again once these callers are gone.
func TestWithheldBodies(t *testing.T) {
	t.Parallel()
	const callers, tenants, size = 400, 5, 1 << 20
	p := ledger(t, pgtest.URL(t), "BODY_TIMEOUT=1h", heapVariable+"="+t.TempDir()+"/heap")
	before := liveHeap(t, p)
	var refused, ended atomic.Int64
	var wg sync.WaitGroup
	all := make([]unfinished, callers)
	for n := range callers {
		u := beginRequestOf(t, p, fmt.Sprint("t", n%tenants), "/v1/effect", fmt.Sprint("k-", n), size, 0)
		all[n] = u
		wg.Go(func() {
			rest := strings.Repeat("x", size-1)
			_, _ = io.WriteString(u, rest) // the server closes what it refuses
		})
		go func() {
			resp, err := http.ReadResponse(bufio.NewReader(u), nil)
			ended.Add(1)
			if err != nil {
				return // the answer is lost with its connection; or this is the end of the test
			}
			resp.Body.Close()
			if resp.StatusCode == http.StatusServiceUnavailable && resp.Header.Get(wire.HeaderRetryAfter) != "" {
				refused.Add(1)
			}
		}()
	}
	wg.Wait()
	const most = server.DefaultMaxBufferedBytes / size
	require.Eventually(t, func() bool { return ended.Load() >= callers-most }, 3*time.Minute, 10*time.Millisecond,
		"the server ends the requests that it does not hold")
	require.LessOrEqual(t, ended.Load(), int64(callers-most/2))
	require.Positive(t, refused.Load(), "it says when to come again")
	grown := liveHeap(t, p) - before
	require.Less(t, grown, int64(server.DefaultMaxBufferedBytes+32<<20), "the heap grew by %d MB", grown>>20)
	require.Greater(t, grown, int64(server.DefaultMaxBufferedBytes/2), "the measure sees the bodies")
	for _, u := range all {
		u.Close()
	}
	require.Equal(t, http.StatusCreated, blackboxtest.PostUntilFinal(t.Context(), blackboxtest.Request{
		URL: p.URL + "/v1/effect", Tenant: "t", Key: "small", Body: `{"fp":"a"}`,
	}).Status)
}

// liveHeap asks the process for the heap that a collection leaves.
func liveHeap(t *testing.T, p *blackboxtest.Process) (bytes int64) {
	t.Helper()
	file := p.Getenv(heapVariable)
	require.NoError(t, os.RemoveAll(file))
	p.Signal(syscall.SIGUSR1)
	require.Eventually(t, func() bool {
		text, err := os.ReadFile(file)
		if err == nil {
			bytes, err = strconv.ParseInt(string(text), 10, 64)
		}
		return err == nil
	}, time.Minute, 10*time.Millisecond)
	return bytes
}

// One tenant with 17 keys leaves the other tenants places to wait in. The runs do not end, and the duplicates wait until
// all is seen. Not parallel: they have to come while the first of them wait.
func TestOneTenantTakesNotAllWaitingPlaces(t *testing.T) {
	const keys, perKey, share = 17, 80, server.DefaultMaxWaiters / 4
	database := pgtest.URL(t)
	p := ledger(t, database, "WORK=1h")
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: keys * perKey}}
	defer client.CloseIdleConnections()
	ctx, leave := context.WithCancel(t.Context())
	ask := func(tenant, key string, wait int) blackboxtest.Answer {
		return blackboxtest.PostWith(ctx, client, blackboxtest.Request{
			URL: p.URL + "/v1/effect-opaque", Tenant: tenant, Key: key, Body: `{"fp":"a"}`,
			Header: map[string]string{"Prefer": fmt.Sprint("wait=", wait)},
		})
	}
	var callers sync.WaitGroup
	defer callers.Wait()
	defer leave()
	for n := range keys {
		callers.Go(func() { ask("greedy", fmt.Sprint("k-", n), 0) })
	}
	callers.Go(func() { ask("modest", "k", 0) })
	await(t, connect(t, database), fmt.Sprintf("select count(*) = %d from idempotency", keys+1), "never claimed")

	var refused atomic.Int64
	for n := range keys * perKey {
		callers.Go(func() {
			start := time.Now()
			a := ask("greedy", fmt.Sprint("k-", n%keys), 10)
			if a.Status == http.StatusConflict && time.Since(start) < server.DefaultWaitCap {
				refused.Add(1)
			}
		})
	}
	require.Eventually(t, func() bool { return refused.Load() >= keys*perKey-share }, time.Minute, 10*time.Millisecond,
		"more than a quarter of the places is taken")
	start := time.Now()
	require.Equal(t, http.StatusConflict, ask("modest", "k", 1).Status)
	require.GreaterOrEqual(t, time.Since(start), time.Second, "no place is left for others")
	require.EqualValues(t, keys*perKey-share, refused.Load())
}
