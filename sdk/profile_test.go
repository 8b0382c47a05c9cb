package sdk_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/sdk"
	"github.com/fanonce/fanonce/sdk/sdktest"
)

func profiled(tb testing.TB, url string, p *retry.Profile) *sdk.Client {
	tb.Helper()
	c, err := sdk.New(sdk.Config{Retry: quick, Services: map[string]sdk.Service{"payment": {URL: url, Profile: p}}})
	require.NoError(tb, err)
	return c
}

func TestProfile_onTheWire(t *testing.T) {
	t.Parallel()
	secret, err := childkey.NewKeyed("k1", []byte("0123456789abcdef"))
	require.NoError(t, err)
	ctx := parent(t, "p")
	p, _ := childkey.FromContext(ctx)
	sum, err := childkey.Sum(p, "payment", "charge")
	require.NoError(t, err)
	secretSum, err := secret.Sum(p, "payment", "charge")
	require.NoError(t, err)
	in := func(e childkey.Encoding, sum childkey.Hash) string {
		key, err := e.Key(sum)
		require.NoError(t, err)
		return key.String()
	}
	guarded := retry.Fanonce()
	guarded.Keyed, guarded.Encoding = secret, childkey.Base64URL43
	tests := []struct {
		name    string
		profile *retry.Profile
		header  string
		want    string
		others  bool // this library's other headers are sent
	}{
		{"Fanonce", retry.Fanonce(), wire.HeaderKey, `"` + in(childkey.Hex32, sum) + `"`, true},
		{"Stripe", retry.Stripe(), wire.HeaderKey, in(childkey.Hex32, sum), false},
		{"Adyen", retry.Adyen(), wire.HeaderKey, in(childkey.Hex32, sum), false},
		{"UUIDOnly", retry.UUIDOnly(), wire.HeaderKey, in(childkey.UUIDv4, sum), false},
		{"own header", &retry.Profile{KeyHeader: "PayPal-Request-Id", Bare: true, MaxKeyBytes: 38}, "PayPal-Request-Id", in(childkey.Hex32, sum), false},
		{"secret", guarded, wire.HeaderKey, `"` + in(childkey.Base64URL43, secretSum) + `"`, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := sdktest.New(t, answering(charge{}))
			d.Script("/charges", sdktest.Status(503, ""))
			c := profiled(t, d.URL(), tt.profile)
			ctx := parent(t, "p")
			_, err := sdk.Call(ctx, c, pay, amount{1}, sdk.FirstSent(time.Now()))
			require.NoError(t, err)
			require.Len(t, d.Requests(), 2)
			for _, r := range d.Requests() {
				require.Equal(t, []string{tt.want}, r.Header.Values(tt.header))
				require.Equal(t, tt.others, r.Header.Get(wire.HeaderFirstSent) != "")
				require.Equal(t, tt.others, r.Header.Get(wire.HeaderRetryAttempt) != "")
				require.Equal(t, tt.others, r.Header.Get(wire.HeaderRetryAllowance) != "")
				if tt.header != wire.HeaderKey {
					require.Empty(t, r.Header.Values(wire.HeaderKey))
				}
			}
			key, err := sdk.KeyOf(ctx, c, pay)
			require.NoError(t, err)
			require.Equal(t, strings.Trim(tt.want, `"`), key.String())
		})
	}
}

func TestProfile_duplicatesAreFoundInAnyForm(t *testing.T) {
	t.Parallel()
	secret, err := childkey.NewKeyed("k1", []byte("0123456789abcdef"))
	require.NoError(t, err)
	d := sdktest.New(t, nil)
	for _, p := range []*retry.Profile{retry.UUIDOnly(), {Keyed: secret}} {
		ctx := parent(t, "p")
		c := profiled(t, d.URL(), p)
		_, err := sdk.Call(ctx, c, pay, amount{1})
		require.NoError(t, err)
		_, err = sdk.Call(ctx, c, pay, amount{2})
		require.ErrorIs(t, err, childkey.ErrDuplicateChild)
	}
}

func TestProfile_keyInTheBody(t *testing.T) {
	t.Parallel()
	d := sdktest.New(t, nil)
	d.Script("/x", sdktest.Status(503, ""))
	c := profiled(t, d.URL(), &retry.Profile{BodyField: "idempotency_key", MaxKeyBytes: 45})
	send := func(body string) error {
		_, err := c.Send(parent(t, "p"), sdk.Request{Service: "payment", Operation: "o", Path: "/x", Body: []byte(body)})
		return err
	}
	key := child(parent(t, "p"), t, "payment", "o").String()

	require.NoError(t, send(` {"amount": 1.10, "b":2} `))
	seen := d.Requests()
	require.Len(t, seen, 2, "a call with its key in the body is as safe to repeat")
	for _, r := range seen {
		require.Equal(t, `{"idempotency_key":"`+key+`","amount": 1.10, "b":2}`, string(r.Body))
		require.Empty(t, r.Key)
	}
	require.ErrorIs(t, send("[]"), retry.ErrInvalid)
}

// A recorder is a transport that answers 200, or as say has it, and counts the requests.
type recorder struct {
	mu   sync.Mutex
	sent int
	say  func(n int) *http.Response
}

func (r *recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sent++
	if req.Body != nil {
		_, _ = io.Copy(io.Discard, req.Body)
		_ = req.Body.Close()
	}
	resp := status(http.StatusOK, nil)
	if r.say != nil {
		resp = r.say(r.sent)
	}
	resp.Request = req
	return resp, nil
}

func status(code int, header http.Header) *http.Response {
	if header == nil {
		header = http.Header{}
	}
	return &http.Response{StatusCode: code, ProtoMajor: 1, ProtoMinor: 1, Header: header, Body: http.NoBody}
}

func TestProfile_retention(t *testing.T) {
	t.Parallel()
	window := &retry.Profile{KeyHeader: "PayPal-Request-Id", Bare: true, Retention: 6 * time.Hour}
	client := func(tb testing.TB, wired *recorder) *sdk.Client {
		c, err := sdk.New(sdk.Config{Services: map[string]sdk.Service{"payment": {
			URL: "http://payment", Profile: window, Retry: &retry.Config{Transport: wired},
		}}})
		require.NoError(tb, err)
		return c
	}
	empty := contract.Post[amount, struct{}]("payment", "charge", "/charges")

	t.Run("first sent long ago", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			wired := &recorder{}
			c := client(t, wired)
			first := time.Now()
			time.Sleep(5 * time.Hour)
			_, err := sdk.Call(parent(t, "p"), c, empty, amount{1}, sdk.FirstSent(first))
			require.NoError(t, err)
			time.Sleep(time.Hour)
			ctx := wire.NewContext(parent(t, "p"), wire.Inbound{FirstSent: first, Rerun: true})
			_, err = sdk.Call(ctx, c, empty, amount{1})
			require.ErrorIs(t, err, retry.ErrKeyExpired)
			require.ErrorIs(t, err, retry.ErrUnknown)
			require.False(t, sdk.Resumable(err))
			require.Equal(t, 1, wired.sent)
			// A first run has sent nothing yet, however long ago the request began.
			ctx = wire.NewContext(parent(t, "p"), wire.Inbound{FirstSent: first})
			_, err = sdk.Call(ctx, c, empty, amount{1})
			require.NoError(t, err)
		})
	})
	t.Run("a fan-out that runs again too late", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			wired := &recorder{say: func(int) *http.Response { return status(http.StatusInternalServerError, nil) }}
			ctx := parent(t, "p")
			c := client(t, wired)
			run := func() error {
				f := c.Fanout(ctx)
				sdk.Add(f, empty, amount{1})
				return f.Wait()
			}
			require.ErrorIs(t, run(), retry.ErrUnknown)
			time.Sleep(4 * time.Hour)
			require.True(t, sdk.Resumable(run()))
			sent := wired.sent
			time.Sleep(2 * time.Hour) // six since the first send, two since the last
			err := run()
			require.ErrorIs(t, err, retry.ErrKeyExpired)
			require.ErrorIs(t, err, retry.ErrUnknown)
			require.Equal(t, sent, wired.sent)
		})
	})
	t.Run("no attempt after the window", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			wired := &recorder{say: func(int) *http.Response {
				return status(http.StatusServiceUnavailable, http.Header{"Retry-After": {"30"}})
			}}
			c := client(t, wired)
			first := time.Now()
			time.Sleep(6*time.Hour - 18*time.Minute - 10*time.Second) // less the twentieth for clocks
			_, err := sdk.Call(parent(t, "p"), c, empty, amount{1}, sdk.FirstSent(first))
			require.ErrorIs(t, err, retry.ErrKeyExpired)
			require.ErrorIs(t, err, retry.ErrUnknown)
			require.False(t, sdk.Resumable(err))
			require.Equal(t, 1, wired.sent)
		})
	})
	t.Run("a plain call again", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			wired := &recorder{say: func(int) *http.Response { return status(http.StatusInternalServerError, nil) }}
			c, ctx := client(t, wired), parent(t, "p")
			_, err := sdk.Call(ctx, c, empty, amount{1})
			require.ErrorIs(t, err, retry.ErrUnknown)
			time.Sleep(5 * time.Hour)
			_, err = sdk.Call(ctx, c, empty, amount{1})
			require.NotErrorIs(t, err, retry.ErrKeyExpired)
			sent := wired.sent
			time.Sleep(time.Hour) // six since the first call, one since the last
			_, err = sdk.Call(ctx, c, empty, amount{1})
			require.ErrorIs(t, err, retry.ErrKeyExpired)
			require.ErrorIs(t, err, retry.ErrUnknown)
			require.Equal(t, sent, wired.sent)
			_, err = sdk.Call(ctx, c, empty.For("another"), amount{1})
			require.NotErrorIs(t, err, retry.ErrKeyExpired)
		})
	})
	t.Run("reading again does no harm", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			c := client(t, &recorder{})
			ctx := wire.NewContext(parent(t, "p"), wire.Inbound{FirstSent: time.Now(), Rerun: true})
			for range 3 {
				_, err := c.Send(ctx, sdk.Request{Service: "payment", Operation: "o", Method: http.MethodGet, Path: "/o"})
				require.NoError(t, err)
				time.Sleep(7 * time.Hour)
			}
		})
	})
	t.Run("what never had an effect is not too old", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			say := http.StatusUnauthorized
			wired := &recorder{say: func(int) *http.Response { return status(say, nil) }}
			c, ctx := client(t, wired), parent(t, "p")
			_, err := sdk.Call(ctx, c, empty, amount{1})
			require.ErrorIs(t, err, retry.ErrRejected)
			time.Sleep(7 * time.Hour)
			say = http.StatusInternalServerError
			_, err = sdk.Call(ctx, c, empty, amount{1})
			require.ErrorIs(t, err, retry.ErrUnknown)
			time.Sleep(time.Hour) // since it was lost
			say = http.StatusOK
			_, err = sdk.Call(ctx, c, empty, amount{1})
			require.NoError(t, err)
		})
	})
}

// A call that is repeated under one ctx begins with the outcome of the first one: a gateway's
// refusal now proves nothing about the first one.
func TestCall_again(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		method string
		says   []int // call by call
		want   error
	}{
		{"lost, then refused", http.MethodPost, []int{500, 401}, retry.ErrUnknown},
		{"done, then refused", http.MethodPost, []int{200, 401}, retry.ErrUnknown},
		{"read, then gone", http.MethodGet, []int{200, 404}, retry.ErrRejected},
		{"refused twice", http.MethodPost, []int{401, 401}, retry.ErrRejected},
		{"lost, refused twice", http.MethodPost, []int{500, 401, 401}, retry.ErrUnknown},
		{"refused, then lost, then refused", http.MethodPost, []int{401, 500, 401}, retry.ErrUnknown},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				say := 0
				wired := &recorder{say: func(int) *http.Response { return status(say, nil) }}
				c, err := sdk.New(sdk.Config{Retry: retry.Config{Transport: wired}, Services: map[string]sdk.Service{"payment": {URL: "http://payment"}}})
				require.NoError(t, err)
				ctx := parent(t, "p")
				for _, say = range tt.says {
					_, err = c.Send(ctx, sdk.Request{Service: "payment", Operation: "o", Method: tt.method, Path: "/o"})
				}
				require.ErrorIs(t, err, tt.want)
			})
		})
	}
}

// Calls of one tuple that overlap: none of them takes another one's loss for undone.
func TestCall_besideItself(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		say := 0
		slow := make(chan struct{})
		wired := roundTrip(func(req *http.Request) (*http.Response, error) {
			if req.Header.Get("X-Slow") != "" {
				<-slow
				return status(http.StatusUnauthorized, nil), nil
			}
			return status(say, nil), nil
		})
		c, err := sdk.New(sdk.Config{Retry: retry.Config{Transport: wired}, Services: map[string]sdk.Service{"payment": {URL: "http://payment"}}})
		require.NoError(t, err)
		ctx, op := parent(t, "p"), contract.Post[amount, struct{}]("payment", "o", "/o")
		ended := make(chan error)
		go func() { ended <- second(sdk.Call(ctx, c, op, amount{1}, sdk.Header("X-Slow", "1"))) }()
		synctest.Wait()
		say = http.StatusUnauthorized
		require.ErrorIs(t, second(sdk.Call(ctx, c, op, amount{1})), retry.ErrUnknown, "the other is under way")
		say = http.StatusInternalServerError
		require.ErrorIs(t, second(sdk.Call(ctx, c, op, amount{1})), retry.ErrUnknown)
		close(slow)
		require.ErrorIs(t, <-ended, retry.ErrRejected, "it speaks for itself")
		say = http.StatusUnauthorized
		require.ErrorIs(t, second(sdk.Call(ctx, c, op, amount{1})), retry.ErrUnknown, "one was lost")
	})
}

// A fan-out that runs again knows of a call of its branch's tuple that was made beside it.
func TestFanout_knowsOfPlainCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		say := http.StatusUnauthorized
		wired := &recorder{say: func(int) *http.Response { return status(say, nil) }}
		c, err := sdk.New(sdk.Config{Retry: retry.Config{Transport: wired}, Services: map[string]sdk.Service{"payment": {URL: "http://payment"}}})
		require.NoError(t, err)
		ctx, op := parent(t, "p"), contract.Post[amount, struct{}]("payment", "o", "/o")
		run := func() error {
			f := c.Fanout(ctx)
			sdk.Add(f, op, amount{1})
			return f.Wait()
		}
		require.ErrorIs(t, run(), retry.ErrRejected)
		say = http.StatusInternalServerError
		require.ErrorIs(t, second(sdk.Call(ctx, c, op, amount{1})), retry.ErrUnknown)
		say = http.StatusUnauthorized
		require.ErrorIs(t, run(), retry.ErrUnknown)
	})
}

// Each ready-made profile classifies a first answer, and an answer after a lost attempt.
func TestProfile_readsAnswers(t *testing.T) {
	t.Parallel()
	const adyenBusy = `{"status":409,"errorCode":"704","message":"request already processed or in progress"}`
	one := func(name, value string) http.Header { return http.Header{name: {value}} }
	advised := http.Header{"Idempotent-Replayed": {"true"}, "Stripe-Should-Retry": {"false"}}
	tests := []struct {
		name      string
		profile   *retry.Profile
		lost      bool // the first attempt
		status    int
		header    http.Header
		body      string
		want      error // nil: it waits or retries until there is a 200
		forbidden bool
	}{
		{"Stripe, declined", retry.Stripe(), false, 402, nil, "", retry.ErrRejected, false},
		{"Stripe, declined, after a lost attempt", retry.Stripe(), true, 402, nil, "", retry.ErrUnknown, false},
		{"Stripe, a replayed decline", retry.Stripe(), true, 402, one("Idempotent-Replayed", "true"), "", retry.ErrRejected, false},
		{"Stripe, a replayed decline that it advises about", retry.Stripe(), true, 402, advised, "", retry.ErrRejected, true},
		{"Stripe, busy", retry.Stripe(), false, 409, nil, "", nil, false},
		{"Stripe, busy for good", retry.Stripe(), false, 409, one("Stripe-Should-Retry", "false"), "", retry.ErrUnknown, true},
		{"Stripe, failed for good", retry.Stripe(), false, 500, one("Stripe-Should-Retry", "false"), "", retry.ErrUnknown, true},
		{"Stripe, refused for now", retry.Stripe(), false, 400, one("Stripe-Should-Retry", "true"), "", nil, false},
		{"Adyen, busy", retry.Adyen(), false, 409, nil, adyenBusy, nil, false},
		{"Adyen, busy with another status", retry.Adyen(), false, 422, nil, adyenBusy, nil, false},
		{"Adyen, a conflict", retry.Adyen(), false, 409, nil, "", nil, false},
		{"Adyen, a transient error", retry.Adyen(), false, 422, one("Transient-Error", "true"), `{"errorCode":"000"}`, nil, false},
		{"Adyen, no transient error", retry.Adyen(), false, 422, one("Transient-Error", "false"), `{"errorCode":"130"}`, retry.ErrRejected, false},
		{"Adyen, refused", retry.Adyen(), false, 422, nil, `{"errorCode":"130"}`, retry.ErrRejected, false},
		{"Adyen, refused, after a lost attempt", retry.Adyen(), true, 422, one("Idempotency-Key", "k"), `{"errorCode":"130"}`, retry.ErrUnknown, false},
		{"Stripe, a replayed conflict", retry.Stripe(), false, 409, one("Idempotent-Replayed", "true"), "", retry.ErrRejected, false},
		{"Unguarded, a conflict of others", retry.Unguarded(), false, 409, nil, "", nil, false},
		{"by the profile, busy", &retry.Profile{Conflict: retry.Verdict{Action: retry.Wait}}, false, 409, nil, "", nil, false},
		{"by the profile, a replayed conflict", &retry.Profile{Conflict: retry.Verdict{Action: retry.Wait}}, false, 409, one("Idempotent-Replayed", "true"), "", retry.ErrRejected, false},
		{"UUIDOnly, a replayed conflict", retry.UUIDOnly(), false, 409, one("Idempotent-Replayed", "true"), "", retry.ErrRejected, false},
		{"UUIDOnly, a conflict", retry.UUIDOnly(), false, 409, nil, "", nil, false},
		{"UUIDOnly, refused", retry.UUIDOnly(), false, 422, nil, "", retry.ErrRejected, false},
		{"with a marker of its own", &retry.Profile{Replayed: func(h http.Header) (replayed, honoured bool) {
			return h.Get("X-Seen") == "1", h.Get("X-Seen") != ""
		}}, true, 422, one("X-Seen", "1"), "", retry.ErrRejected, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				wired := &recorder{say: func(n int) *http.Response {
					switch {
					case tt.lost && n == 1:
						return status(http.StatusBadGateway, nil)
					case tt.want == nil && n == 3:
						return status(http.StatusOK, nil)
					}
					resp := status(tt.status, tt.header.Clone())
					resp.Body = io.NopCloser(strings.NewReader(tt.body))
					return resp
				}}
				c, err := sdk.New(sdk.Config{Services: map[string]sdk.Service{"payment": {
					URL: "http://payment", Profile: tt.profile, Retry: &retry.Config{Transport: wired},
				}}})
				require.NoError(t, err)
				_, err = sdk.Call(parent(t, "p"), c, contract.Post[amount, struct{}]("payment", "o", "/o"), amount{1})
				require.ErrorIs(t, err, tt.want)
				require.Equal(t, tt.forbidden, errors.Is(err, wire.ErrNotRetryable))
			})
		})
	}
}
