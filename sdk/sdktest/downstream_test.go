package sdktest_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/sdk/sdktest"
)

// A reply is what arrived.
type reply struct {
	status int // 0: no answer
	header http.Header
	body   string
}

// post sends body under key on a connection of its own, so that net/http has
// none to repeat it on.
func post(tb testing.TB, d *sdktest.Downstream, key, body string) (reply, error) {
	tb.Helper()
	req, err := http.NewRequestWithContext(tb.Context(), http.MethodPost, d.URL()+"/work", strings.NewReader(body))
	require.NoError(tb, err)
	if key != "" {
		req.Header.Set(wire.HeaderKey, key)
	}
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, resp.Header, string(got)}, err
}

func echo() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })
}

func TestDownstream_faults(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		fault   sdktest.Fault
		status  int    // 0: no answer
		body    string // as far as it came
		broken  bool
		effects int
	}{
		{"pass", sdktest.Pass(), 200, "hello", false, 1},
		{"zero", sdktest.Fault{}, 200, "hello", false, 1},
		{"status", sdktest.Status(502, "bad"), 502, "bad", false, 0},
		{"problem", sdktest.Problem(wire.Poisoned), 423, string(wire.NewProblem(wire.Poisoned, "").JSON()), false, 0},
		{"delay", sdktest.Delay(time.Millisecond), 200, "hello", false, 1},
		{"request lost", sdktest.DropRequest(), 0, "", true, 0},
		{"answer lost", sdktest.DropResponse(), 0, "", true, 1},
		{"answer cut off", sdktest.Truncate(2), 200, "he", true, 1},
		{"cut off at its end", sdktest.Truncate(99), 200, "hello", true, 1},
		{"twice", sdktest.Duplicate(), 200, "hello", false, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := sdktest.New(t, echo())
			d.Script("/work", tt.fault)
			got, err := post(t, d, `"k"`, "hello")
			require.Equal(t, tt.broken, err != nil, "error = %v", err)
			require.Equal(t, tt.body, got.body)
			require.Equal(t, tt.status, got.status)
			require.Equal(t, tt.effects, d.Effects()["k"])

			got, err = post(t, d, `"k"`, "hello") // the script is over
			require.NoError(t, err)
			require.Equal(t, "hello", got.body)
			require.Equal(t, fmt.Sprint(tt.effects == 1), got.header.Get(wire.HeaderReplayed))
			require.Equal(t, 1, d.Effects()["k"])
			require.Len(t, d.Requests(), 2)
			require.Equal(t, 2, d.Requests()[1].Delivery)
		})
	}
}

func TestDownstream_scriptsAreForEachKey(t *testing.T) {
	t.Parallel()
	d := sdktest.New(t, nil)
	d.Script("/work", sdktest.Status(503, `{}`))
	for _, key := range []string{`"a"`, `"b"`} {
		got, err := post(t, d, key, "")
		require.NoError(t, err)
		require.Equal(t, 503, got.status)
		require.Equal(t, "application/json", got.header.Get("Content-Type"))
		got, err = post(t, d, key, "")
		require.NoError(t, err)
		require.Equal(t, 200, got.status)
		require.Equal(t, "{}", got.body)
	}
}

func TestDownstream_keys(t *testing.T) {
	t.Parallel()
	var fail atomic.Bool
	fail.Store(true)
	d := sdktest.New(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if fail.Swap(false) {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	answers := []struct {
		key, body string
		status    int
	}{
		{`"a"`, "x", 500}, // not stored
		{`"a"`, "x", 200},
		{`"a"`, "y", 422},
		{"", "x", 200},
		{"", "x", 200},
	}
	for _, want := range answers {
		got, err := post(t, d, want.key, want.body)
		require.NoError(t, err)
		require.Equal(t, want.status, got.status)
	}
	require.Equal(t, map[string]int{"a": 2, "": 2}, d.Effects())
}

func TestDownstream_duplicatesWaitForTheFirst(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	d := sdktest.New(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		<-release
		echo().ServeHTTP(w, r)
	}))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			got, err := post(t, d, `"k"`, "hello")
			if err != nil || got.body != "hello" {
				t.Errorf("got %q, %v", got.body, err)
			}
		})
	}
	for len(d.Requests()) < 8 {
		time.Sleep(time.Millisecond)
	}
	close(release)
	wg.Wait()
	require.Equal(t, map[string]int{"k": 1}, d.Effects())
}

func TestDownstream_closeReleasesWhatIsHeld(t *testing.T) {
	t.Parallel()
	d := sdktest.Start(nil)
	d.Script("/work", sdktest.Hold(nil), sdktest.Delay(time.Hour))
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() { _, _ = post(t, d, `"k"`, "") })
	}
	for len(d.Requests()) < 2 {
		time.Sleep(time.Millisecond)
	}
	d.Close()
	wg.Wait()
}

func ExampleDownstream_Script() {
	d := sdktest.Start(nil)
	defer d.Close()
	d.Script("/charges", sdktest.Status(503, ""), sdktest.Pass())

	for range 3 {
		req, _ := http.NewRequest(http.MethodPost, d.URL()+"/charges", nil)
		req.Header.Set("Idempotency-Key", `"order-42"`)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			fmt.Println(err)
			return
		}
		resp.Body.Close()
		fmt.Printf("%d replayed=%q\n", resp.StatusCode, resp.Header.Get("Idempotent-Replayed"))
	}
	fmt.Println(d.Effects())
	// Output:
	// 503 replayed=""
	// 200 replayed="false"
	// 200 replayed="true"
	// map[order-42:1]
}

// A service can take its keys elsewhere; what comes without one is done each time.
func TestDownstream_whereTheKeyIs(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		options []sdktest.Option
		header  string
		body    string
		effects map[string]int
	}{
		{"Idempotency-Key", nil, wire.HeaderKey, "{}", map[string]int{"k": 1}},
		{"another header", []sdktest.Option{sdktest.KeyHeader("X-Request-Id")}, "x-request-id", "{}", map[string]int{"k": 1}},
		{"not there", []sdktest.Option{sdktest.KeyHeader("X-Request-Id")}, wire.HeaderKey, "{}", map[string]int{"": 2}},
		{"in the body", []sdktest.Option{sdktest.KeyMember("request_id")}, "X-None", `{"request_id":"k","a":1}`, map[string]int{"k": 1}},
		{"not in the body", []sdktest.Option{sdktest.KeyMember("request_id")}, wire.HeaderKey, `{"a":1}`, map[string]int{"": 2}},
		{"no string", []sdktest.Option{sdktest.KeyMember("request_id")}, wire.HeaderKey, `{"request_id":7}`, map[string]int{"": 2}},
		{"no JSON", []sdktest.Option{sdktest.KeyMember("request_id")}, wire.HeaderKey, "k", map[string]int{"": 2}},
	} {
		d := sdktest.New(t, nil, tt.options...)
		for range 2 {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, d.URL()+"/work", strings.NewReader(tt.body))
			require.NoError(t, err)
			req.Header.Set(tt.header, "k")
			resp, err := http.DefaultClient.Do(req)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
		}
		require.Equal(t, tt.effects, d.Effects(), tt.name)
	}
}

func TestAnswer(t *testing.T) {
	t.Parallel()
	d := sdktest.New(t, nil)
	asked := []string{"7"}
	header := http.Header{"retry-after": asked, "Content-Type": {"text/x"}}
	d.Script("/work", sdktest.Answer(http.StatusTooManyRequests, header, "{}"))
	asked[0] = "8"
	got, err := post(t, d, "k", "b")
	require.NoError(t, err)
	require.Equal(t, http.StatusTooManyRequests, got.status)
	require.Equal(t, "7", got.header.Get("Retry-After"))
	require.Equal(t, "text/x", got.header.Get("Content-Type"))
	require.Empty(t, d.Effects())
}

// What says something of one attempt is not replayed to the next, as at a guarded service.
func TestDownstream_refusalsThatAreNotStored(t *testing.T) {
	t.Parallel()
	for status, stored := range map[int]bool{
		401: false, 403: false, 407: false, 408: false, 421: false, 423: false, 425: false, 429: false, 500: false, 503: false,
		400: true, 402: true, 404: true, 409: true, 410: true, 412: true, 422: true, 451: true,
	} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			var runs atomic.Int32
			d := sdktest.New(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if runs.Add(1) == 1 {
					w.WriteHeader(status)
				}
			}))
			first, err := post(t, d, `"k"`, "x")
			require.NoError(t, err)
			require.Equal(t, status, first.status)
			require.Equal(t, "false", first.header.Get(wire.HeaderReplayed))
			second, err := post(t, d, `"k"`, "x")
			require.NoError(t, err)
			require.Equal(t, fmt.Sprint(stored), second.header.Get(wire.HeaderReplayed))
			want := http.StatusOK
			if stored {
				want = status
			}
			require.Equal(t, want, second.status)
			if status < http.StatusInternalServerError {
				require.Equal(t, 1, d.Effects()["k"])
			}
		})
	}
}

func TestDownstream_closeTwice(t *testing.T) {
	t.Parallel()
	d := sdktest.New(t, nil) // closes it once more
	d.Close()
	d.Close()
	_, err := post(t, d, "", "x")
	require.Error(t, err)
}
