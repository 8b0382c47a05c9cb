package clients

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/go-resty/resty/v2"
	"github.com/hashicorp/go-retryablehttp"
	"github.com/stretchr/testify/require"
	"github.com/stripe/stripe-go/v84"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server"
)

// A setting is one way to use a client.
type setting struct {
	client, name string
	recommended  bool
	programs     []string   // that it needs
	keyless      bool       // sends no key, so that all calls are refused
	render       renderFunc // of the service; nil: problems as JSON
	call         runFunc
}

// A runFunc makes one call for each key and returns how they ended. The n-th call charges 100 + n.
type runFunc func(t *testing.T, url string, keys []string) []outcome

// need skips a test where one of the programs is missing. test.sh says so at its end.
func need(t *testing.T, programs ...string) {
	t.Helper()
	for _, program := range programs {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("no %s on PATH: this client is not tested", program)
		}
	}
}

// An outcome is what a client says of one call.
type outcome struct {
	Key    string `json:"key"`
	ID     string `json:"id"`     // of the charge; "" if the answer has none
	Status int    `json:"status"` // the last one that the client tells; 0 if it tells none
	Err    string `json:"error"`  // "": the client takes the call for a success
}

// atOnce is how many calls of one client run at the same time.
const atOnce = 50

// each makes a runFunc of a client that runs in this process.
func each[C any](newClient func(url string) C, call func(ctx context.Context, client C, url, key string, amount int) outcome) runFunc {
	return func(t *testing.T, url string, keys []string) []outcome {
		client := newClient(url)
		outcomes := make([]outcome, len(keys))
		free := make(chan struct{}, atOnce)
		var running sync.WaitGroup
		for n, key := range keys {
			free <- struct{}{}
			running.Go(func() {
				outcomes[n] = call(t.Context(), client, url, key, 100+n)
				outcomes[n].Key = key
				<-free
			})
		}
		running.Wait()
		return outcomes
	}
}

func goSettings() []setting {
	const recommended = "as recommended"
	return []setting{
		{client: "stripe-go", name: "its defaults (2 retries)", call: each(defaultStripe, callStripe)},
		{client: "stripe-go", name: "10 retries, refusals are 409 with `error`", render: stripe409, call: each(NewStripe, callStripe)},
		{client: "stripe-go", name: recommended, recommended: true, render: StripeProblem, call: each(NewStripe, callStripe)},
		{client: "go-retryablehttp", name: "its defaults (4 retries)", call: each(defaultRetryableHTTP, callRetryableHTTP(false))},
		{client: "go-retryablehttp", name: recommended, recommended: true, call: each(func(string) *retryablehttp.Client {
			return NewRetryableHTTP()
		}, callRetryableHTTP(true))},
		{client: "resty", name: "its defaults (no retries)", call: each(func(string) *resty.Client { return silent(resty.New()) }, callResty)},
		{client: "resty", name: "SetRetryCount(3)", call: each(func(string) *resty.Client { return silent(resty.New()).SetRetryCount(3) }, callResty)},
		{client: "resty", name: recommended, recommended: true, call: each(func(string) *resty.Client { return silent(NewResty()) }, callResty)},
		{client: "curl", name: "--fail --retry 3", programs: []string{"curl"}, call: curl(func(url, key, body, file string) []string {
			return []string{"-sS", "--fail", "--retry", "3", "-H", "Idempotency-Key: " + key, "--json", body, "-o", file, url}
		})},
		{client: "curl", name: recommended, recommended: true, programs: []string{"curl"}, call: curl(CurlArgs)},
	}
}

// stripe409 is StripeProblem with the status that the guard chose.
func stripe409(r *http.Request, p wire.Problem) server.Response {
	answer := StripeProblem(r, p)
	answer.Status = p.Status
	return answer
}

func defaultStripe(url string) *stripe.Client {
	return stripe.NewClient("sk_test_none", stripe.WithBackends(stripe.NewBackendsWithConfig(&stripe.BackendConfig{
		URL: stripe.String(url), LeveledLogger: &stripe.LeveledLogger{Level: stripe.LevelNull},
	})))
}

func callStripe(ctx context.Context, c *stripe.Client, _, key string, amount int) outcome {
	params := &stripe.ChargeCreateParams{Amount: stripe.Int64(int64(amount)), Currency: stripe.String("eur")}
	params.SetIdempotencyKey(key)
	charge, err := c.V1Charges.Create(ctx, params)
	var refused *stripe.Error
	switch {
	case errors.As(err, &refused):
		return outcome{Status: refused.HTTPStatusCode, Err: err.Error()}
	case err != nil: // of a problem it tells the text only
		var p wire.Problem
		_ = json.Unmarshal([]byte(err.Error()), &p)
		return outcome{Status: p.Status, Err: err.Error()}
	}
	return outcome{Status: http.StatusOK, ID: charge.ID}
}

func defaultRetryableHTTP(string) *retryablehttp.Client {
	c := retryablehttp.NewClient()
	c.Logger = nil
	return c
}

func callRetryableHTTP(whole bool) func(context.Context, *retryablehttp.Client, string, string, int) outcome {
	return func(ctx context.Context, c *retryablehttp.Client, url, key string, amount int) outcome {
		req, err := retryablehttp.NewRequestWithContext(ctx, http.MethodPost, url+"/charges", chargeOf(amount))
		if err != nil {
			return outcome{Err: err.Error()}
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Idempotency-Key", key)
		if whole {
			req = ReadWhole(req)
		}
		resp, err := c.Do(req)
		if err != nil {
			return outcome{Err: err.Error()}
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		return answered(resp.StatusCode, body, err)
	}
}

func silent(c *resty.Client) *resty.Client {
	return c.SetLogger(quiet{})
}

type quiet struct{}

func (quiet) Errorf(string, ...any) {}
func (quiet) Warnf(string, ...any)  {}
func (quiet) Debugf(string, ...any) {}

func callResty(ctx context.Context, c *resty.Client, url, key string, amount int) outcome {
	resp, err := c.R().SetContext(ctx).SetHeader("Idempotency-Key", key).
		SetHeader("Content-Type", "application/json").SetBody(chargeOf(amount)).Post(url + "/charges")
	return answered(resp.StatusCode(), resp.Body(), err)
}

// curl starts one process for each call.
func curl(args func(url, key, body, file string) []string) runFunc {
	return func(t *testing.T, url string, keys []string) []outcome {
		newClient := func(string) string { return t.TempDir() } // of the answers
		return each(newClient, func(ctx context.Context, dir, url, key string, amount int) outcome {
			file := filepath.Join(dir, key)
			cmd := exec.CommandContext(ctx, "curl", append([]string{"--disable", "--write-out", "%{http_code}"},
				args(url+"/charges", key, string(chargeOf(amount)), file)...)...)
			var stderr strings.Builder
			cmd.Stderr = &stderr
			out, err := cmd.Output()
			status, _ := strconv.Atoi(strings.TrimSpace(string(out)))
			if err != nil {
				return outcome{Status: status, Err: err.Error() + ": " + stderr.String()}
			}
			body, err := os.ReadFile(file)
			return answered(status, body, err)
		})(t, url, keys)
	}
}

// answered is the outcome of a client that shows the last answer.
func answered(status int, body []byte, err error) outcome {
	switch {
	case err != nil:
		return outcome{Status: status, Err: err.Error()}
	case status != http.StatusOK:
		return outcome{Status: status, Err: fmt.Sprintf("%d %s", status, body)}
	}
	return outcome{Status: status, ID: idOf(body)}
}

func chargeOf(amount int) []byte { return []byte(`{"amount":` + strconv.Itoa(amount) + `}`) }

// idOf returns the ID of the charge in an answer.
func idOf(body []byte) string {
	var charge struct{ ID string }
	_ = json.Unmarshal(body, &charge) // "" is what it tells then
	return charge.ID
}

func TestRetryable(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		status int
		header string
		want   bool
	}{
		{200, "", false}, {404, "", false}, {409, "", false}, {408, "", true}, {429, "", true}, {500, "", true}, {504, "", true},
		{409, "true", true}, {409, "false", false}, {500, "false", false}, {503, "maybe", true},
	} {
		header := http.Header{"X-Should-Retry": {tt.header}}
		require.Equal(t, tt.want, Retryable(tt.status, header), "%d %q", tt.status, tt.header)
	}
}
