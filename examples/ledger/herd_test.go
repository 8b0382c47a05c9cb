package main

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/examples/internal/blackboxtest"
	"github.com/fanonce/fanonce/server/pgtest"
)

var herd = flag.Int("ledger.herd", 1000, "callers that wait for one key at the same time in TestHerd")

// othersAtOnce is how many callers of other keys each replica has meanwhile.
const othersAtOnce = 8

// All callers send one key at once to three processes with ten connections each. There is one
// effect, and one answer for all. No caller gets a 5xx other than a busy 503. The callers of
// other keys are served meanwhile.
func TestHerd(t *testing.T) {
	database := pgtest.URL(t)
	replicas := make([]string, 3)
	for i := range replicas {
		replicas[i] = ledger(t, withPool(database, 10), "WORK=1s").URL
	}
	pool := connect(t, database)
	quiet := others(t, replicas, "quiet", func() { await(t, pool, "select count(*) >= 24 from effects", "too few calls") })

	var took time.Duration
	answers := make([]blackboxtest.Answer, *herd)
	loud := others(t, replicas, "loud", func() {
		start := time.Now()
		stampede(t, replicas, answers)
		took = time.Since(start)
	})

	replays := 0
	for _, a := range answers {
		require.Equal(t, http.StatusCreated, a.Status, a.Body)
		require.Equal(t, answers[0].Body, a.Body)
		if a.Replayed() {
			replays++
		}
	}
	require.Equal(t, *herd-1, replays, "one ran, all others were given its answer")
	require.Equal(t, 1, effects(t, pool, "t", "the-one", kindDo))
	t.Logf("%d callers of one key: %v; p99 of %d calls with other keys: %v, before the herd %v",
		*herd, took, len(loud), p99(loud), p99(quiet))
}

// stampede lets all callers go at once, each until it has its final answer.
func stampede(t *testing.T, replicas []string, answers []blackboxtest.Answer) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: len(answers)}}
	defer client.CloseIdleConnections()
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range answers {
		wg.Go(func() {
			<-start
			answers[i] = patiently(t.Context(), client, blackboxtest.Request{
				URL: replicas[i%len(replicas)] + "/v1/effect", Tenant: "t", Key: "the-one", Body: `{"fp":"a"}`,
				Header: map[string]string{"Prefer": "wait=10"},
			})
		})
	}
	close(start)
	wg.Wait()
}

// patiently sends the request again as the answers ask it to.
func patiently(ctx context.Context, client *http.Client, r blackboxtest.Request) blackboxtest.Answer {
	for {
		a := blackboxtest.PostWith(ctx, client, r)
		switch a.Status {
		case 0, http.StatusConflict, http.StatusServiceUnavailable:
			seconds, err := strconv.Atoi(a.Header.Get("Retry-After"))
			if a.Status != 0 && err != nil {
				return a
			}
			time.Sleep(max(time.Duration(seconds)*time.Second, 10*time.Millisecond))
		default:
			return a
		}
	}
}

// others calls keys of its own at each replica until during has returned, and
// returns how long each call took.
func others(t *testing.T, replicas []string, prefix string, during func()) (took []time.Duration) {
	t.Helper()
	var mu sync.Mutex
	var wg sync.WaitGroup
	ended := make(chan struct{})
	for i := range len(replicas) * othersAtOnce {
		wg.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-ended:
					return
				default:
				}
				start := time.Now()
				a := blackboxtest.Post(t.Context(), blackboxtest.Request{
					URL: replicas[i%len(replicas)] + "/v1/effect", Tenant: "t", Key: fmt.Sprintf("%s-%d-%d", prefix, i, n), Body: `{"fp":"a"}`,
				})
				mu.Lock()
				took = append(took, time.Since(start))
				mu.Unlock()
				if a.Status != http.StatusCreated {
					t.Errorf("another key was answered %d %s", a.Status, a.Body)
				}
			}
		})
	}
	during()
	close(ended)
	wg.Wait()
	return took
}

func p99(took []time.Duration) time.Duration {
	slices.Sort(took)
	return took[len(took)*99/100]
}

// withPool bounds the connections of a process.
func withPool(database string, connections int) string {
	separator := "?"
	if strings.Contains(database, "?") {
		separator = "&"
	}
	return database + separator + "pool_max_conns=" + strconv.Itoa(connections)
}
