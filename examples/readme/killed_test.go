package readme_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/examples/internal/blackboxtest"
)

// A switchboard forwards the calls of checkout, and kills it at one moment: before a call arrives, or before its answer
// leaves. Each call has two moments.
type switchboard struct {
	mu   sync.Mutex
	left int    // moments until kill
	kill func() // called once
}

func (s *switchboard) pass() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.left--; s.left == 0 {
		s.kill()
	}
}

func (s *switchboard) to(t *testing.T, address string) string {
	t.Helper()
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: address})
	proxy.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.pass()
		proxy.ServeHTTP(held{w, s}, r)
	}))
	t.Cleanup(web.Close)
	return strings.TrimPrefix(web.URL, "http://")
}

// held passes a moment before the answer leaves.
type held struct {
	http.ResponseWriter
	board *switchboard
}

func (h held) WriteHeader(status int) {
	h.board.pass()
	h.ResponseWriter.WriteHeader(status)
}

// order sends an order whose card is declined, and returns the answer; "" if there is none, or a 503.
func order(t *testing.T, address, key string) string {
	t.Helper()
	body := `{"Line":{"SKU":"gap"},"Payment":{"Cents":13}}`
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+address+"/orders", strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Idempotency-Key", key)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	answer, err := httputil.DumpResponse(resp, true)
	if err != nil || resp.StatusCode == http.StatusServiceUnavailable {
		return ""
	}
	return string(answer)
}

// The customer's card is declined. Checkout is killed at each moment of its calls, and the customer tries again until
// there is an answer. It is the decline each time, and nothing is left reserved.
func TestCheckout_killedAtEachPoint(t *testing.T) {
	t.Parallel()
	database := startPostgres(t)
	inventory, payment, shop := blackboxtest.FreeAddress(t), blackboxtest.FreeAddress(t), blackboxtest.FreeAddress(t)
	bin := build(t, map[string]string{"localhost:8080": inventory, "localhost:8081": payment}, "inventory", "payment")
	start(t, bin("inventory"), inventory, database)
	start(t, bin("payment"), payment, database)
	board := new(switchboard)
	checkout := build(t, map[string]string{
		"localhost:8080": board.to(t, inventory), "localhost:8081": board.to(t, payment), "localhost:8090": shop,
	}, "checkout")("checkout")

	kills := 0
	for moment := 1; ; moment++ {
		process := start(t, checkout, shop)
		killed := make(chan struct{})
		board.mu.Lock()
		board.left, board.kill = moment, func() { process.Kill(); close(killed) }
		board.mu.Unlock()
		key := fmt.Sprint("order-", moment)
		answer := order(t, shop, key)
		if answer == "" {
			<-killed
			kills++
			process.Restart()
			require.Eventually(t, func() bool { answer = order(t, shop, key); return answer != "" }, time.Minute, 10*time.Millisecond)
		}
		require.True(t, strings.HasPrefix(answer, "HTTP/1.1 402 "), "killed at moment %d: %s", moment, answer)
		require.Contains(t, answer, "card-declined")
		process.Kill()
		select {
		case <-killed:
			continue
		default:
		}
		break // there are no more moments
	}
	require.GreaterOrEqual(t, kills, 6, "reserve, charge and release")
	require.Zero(t, countHolds(t, database))
}
