package sdk_test

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/sdk"
	"github.com/fanonce/fanonce/sdk/sdktest"
)

// A cause is a sentinel of the caller's packages: whether it is resumable by itself, and as
// the cause of a call that was not sent.
type cause struct {
	err        error
	bare, call bool
}

var causes = map[string]cause{
	"childkey.ErrEmpty":          {childkey.ErrEmpty, false, false},
	"childkey.ErrTooLong":        {childkey.ErrTooLong, false, false},
	"childkey.ErrTooMany":        {childkey.ErrTooMany, false, false},
	"childkey.ErrBadKey":         {childkey.ErrBadKey, false, false},
	"childkey.ErrBadName":        {childkey.ErrBadName, false, false},
	"childkey.ErrBadScope":       {childkey.ErrBadScope, false, false},
	"childkey.ErrBadEncoding":    {childkey.ErrBadEncoding, false, false},
	"childkey.ErrBadSecret":      {childkey.ErrBadSecret, false, false},
	"childkey.ErrRandom":         {childkey.ErrRandom, false, true},
	"childkey.ErrDuplicateChild": {childkey.ErrDuplicateChild, false, false},

	"contract.ErrBody":     {contract.ErrBody, false, false},
	"contract.ErrInvalid":  {contract.ErrInvalid, false, false},
	"contract.ErrType":     {contract.ErrType, false, false},
	"wire.ErrBadHeader":    {wire.ErrBadHeader, false, false},
	"wire.ErrNotRetryable": {wire.ErrNotRetryable, false, true}, // it says that retries cannot help, and not another run

	"retry.ErrNotSent":          {retry.ErrNotSent, false, true},
	"retry.ErrRejected":         {retry.ErrRejected, false, true},
	"retry.ErrUnknown":          {retry.ErrUnknown, false, true},
	"retry.ErrCompleted":        {retry.ErrCompleted, false, true},
	"retry.ErrConfig":           {retry.ErrConfig, false, false},
	"retry.ErrInvalid":          {retry.ErrInvalid, false, false},
	"retry.ErrPayloadChanged":   {retry.ErrPayloadChanged, false, true},
	"retry.ErrDeadline":         {retry.ErrDeadline, true, true},
	"retry.ErrAttemptTimeout":   {retry.ErrAttemptTimeout, false, true},
	"retry.ErrBudgetExhausted":  {retry.ErrBudgetExhausted, false, true},
	"retry.ErrCallerRetries":    {retry.ErrCallerRetries, false, true},
	"retry.ErrStillInProgress":  {retry.ErrStillInProgress, false, true},
	"retry.ErrRetryAfter":       {retry.ErrRetryAfter, false, true},
	"retry.ErrNotRetryable":     {retry.ErrNotRetryable, false, true},
	"retry.ErrTruncated":        {retry.ErrTruncated, false, true},
	"retry.ErrUnmarked":         {retry.ErrUnmarked, false, true},
	"retry.ErrResponseTooLarge": {retry.ErrResponseTooLarge, false, true},
	"retry.ErrKeyReused":        {retry.ErrKeyReused, false, false},
	"retry.ErrKeyExpired":       {retry.ErrKeyExpired, false, false},
	"retry.ErrKeyCancelled":     {retry.ErrKeyCancelled, false, false},

	"sdk.ErrConfig":      {sdk.ErrConfig, false, false},
	"sdk.ErrNoParent":    {sdk.ErrNoParent, false, false},
	"sdk.ErrHasParent":   {sdk.ErrHasParent, false, false},
	"sdk.ErrIntentStore": {sdk.ErrIntentStore, true, true},
	"sdk.ErrNoService":   {sdk.ErrNoService, false, false},
	"sdk.ErrRequest":     {sdk.ErrRequest, false, false},
	"sdk.ErrNoUndo":      {sdk.ErrNoUndo, false, false},
	"sdk.ErrHeaderFunc":  {sdk.ErrHeaderFunc, true, true},
	"sdk.ErrNoCalls":     {sdk.ErrNoCalls, false, false},
	"sdk.ErrBranch":      {sdk.ErrBranch, false, false},
	"sdk.ErrPlan":        {sdk.ErrPlan, false, false},
	"sdk.ErrWaited":      {sdk.ErrWaited, false, false},
	"sdk.ErrCycle":       {sdk.ErrCycle, false, false},
	"sdk.ErrDependency":  {sdk.ErrDependency, false, true},
	"sdk.ErrPanic":       {sdk.ErrPanic, false, true},
}

func TestResumable_everySentinel(t *testing.T) {
	t.Parallel()
	for name, c := range causes {
		require.Equal(t, c.bare, sdk.Resumable(c.err), name)
		require.Equal(t, c.bare, sdk.Resumable(fmt.Errorf("begin: %w", c.err)), "%s, wrapped", name)
		for _, o := range []retry.Outcome{retry.NotSent, retry.Unknown} {
			call := &retry.Error{Outcome: o, Err: fmt.Errorf("%w: text", c.err)}
			require.Equal(t, c.call, sdk.Resumable(call), "%s of a call, %v", name, o)
			require.Equal(t, c.call, sdk.Resumable(fmt.Errorf("charge: %w", call)), "%s of a call, %v, wrapped", name, o)
		}
		for _, o := range []retry.Outcome{retry.Rejected, retry.Completed} {
			require.False(t, sdk.Resumable(&retry.Error{Outcome: o, Err: c.err}), "%s of a call, %v", name, o)
		}
	}
}

// A sentinel that is new has to be decided on.
func TestResumable_knowsEverySentinel(t *testing.T) {
	t.Parallel()
	for name, folder := range map[string]string{
		"childkey": "../childkey", "contract": "../childkey/contract", "wire": "../childkey/wire", "retry": "../retry", "sdk": ".",
	} {
		files, err := filepath.Glob(filepath.Join(folder, "*.go"))
		require.NoError(t, err)
		found := 0
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
			require.NoError(t, err)
			for _, decl := range parsed.Decls {
				if vars, ok := decl.(*ast.GenDecl); ok && vars.Tok == token.VAR {
					for _, spec := range vars.Specs {
						for _, id := range spec.(*ast.ValueSpec).Names {
							if strings.HasPrefix(id.Name, "Err") {
								found++
								_, decided := causes[name+"."+id.Name]
								require.True(t, decided, "%s.%s", name, id.Name)
							}
						}
					}
				}
			}
		}
		require.Positive(t, found, name)
	}
}

// A key that belongs to another payload, has been forgotten or cancelled stays so.
var finalCodes = map[wire.Code]bool{wire.KeyReused: true, wire.KeyExpired: true, wire.KeyCancelled: true, wire.ResponseGone: true}

// refusals that another run cannot change, though it may have other credentials.
var refusals = map[wire.Code]bool{
	wire.KeyMissing: true, wire.KeyInvalid: true, wire.FirstSentInvalid: true, wire.BodyTooLarge: true,
	wire.MethodNotAllowed: true,
	wire.BodyIncomplete:   true, // not retryable
}

func TestResumable_everyCode(t *testing.T) {
	t.Parallel()
	for _, s := range wire.Situations() {
		for _, resumed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, resumed %v", s.Code, resumed), func(t *testing.T) {
				t.Parallel()
				d := sdktest.New(t, answering(charge{}))
				d.Script("/charges", repeat(sdktest.Problem(s.Code), 8)...)
				c, err := sdk.New(sdk.Config{Services: map[string]sdk.Service{"payment": {URL: d.URL()}}, Retry: briefly})
				require.NoError(t, err)
				var options []sdk.CallOption
				if resumed {
					options = append(options, sdk.Resumed())
				}
				_, err = sdk.Call(parent(t, "p"), c, pay, amount{1}, options...)
				want := !finalCodes[s.Code] && (resumed || !refusals[s.Code])
				require.Equal(t, want, sdk.Resumable(err), "%v", err)
			})
		}
	}
}

// briefly makes two attempts and asks once more.
var briefly = retry.Config{MaxAttempts: 2, MaxPolls: 1, Backoff: quick.Backoff, Poll: quick.Poll}

func repeat(f sdktest.Fault, n int) []sdktest.Fault {
	faults := make([]sdktest.Fault, n)
	for i := range faults {
		faults[i] = f
	}
	return faults
}

func TestResumable_statuses(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]bool{
		400: false, 401: true, 402: false, 403: false, 404: false, 410: false, 412: false, 413: false, 422: false, 501: false, 505: false,
		302: true, 408: true, 409: true, 421: true, 423: true, 425: true, 429: true, 460: true, 499: true, 500: true, 502: true, 503: true, 504: true,
		307: false,
	} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			t.Parallel()
			d := sdktest.New(t, answering(charge{}))
			d.Script("/charges", repeat(sdktest.Status(status, ""), 8)...)
			c, err := sdk.New(sdk.Config{Services: map[string]sdk.Service{"payment": {URL: d.URL()}}, Retry: briefly})
			require.NoError(t, err)
			_, err = sdk.Call(parent(t, "p"), c, pay, amount{1})
			require.Equal(t, want, sdk.Resumable(err), "%d: %v", status, err)
		})
	}
}

type says bool

func (says) Error() string     { return "it says so" }
func (s says) Resumable() bool { return bool(s) }

func TestResumable_otherErrors(t *testing.T) {
	t.Parallel()
	unknown := &retry.Error{Outcome: retry.Unknown, Err: io.ErrUnexpectedEOF}
	rejected := &retry.Error{Outcome: retry.Rejected, Status: 402, Err: errors.New("declined")}
	for name, tt := range map[string]struct {
		err  error
		want bool
	}{
		"nil":                                 {nil, false},
		"nil call":                            {(*retry.Error)(nil), false},
		"plain":                               {errors.New("bad input"), false},
		"plain, of io":                        {io.EOF, false},
		"wraps nil":                           {fmt.Errorf("%w", nil), false},
		"joins nothing":                       {errors.Join(), false},
		"cancelled":                           {context.Canceled, true},
		"out of time":                         {fmt.Errorf("waiting: %w", context.DeadlineExceeded), true},
		"joined, both final":                  {errors.Join(errors.New("no"), rejected), false},
		"joined, the second is not":           {errors.Join(rejected, unknown), true},
		"joined, the first is not":            {errors.Join(unknown, rejected), true},
		"joined to a plain one":               {errors.Join(errors.New("no"), unknown), true},
		"a mistake out of time":               {fmt.Errorf("%w: %w", sdk.ErrConfig, context.DeadlineExceeded), false},
		"the store is down":                   {fmt.Errorf("%w: %w", sdk.ErrIntentStore, errors.New("no connection")), true},
		"rejected for now":                    {&retry.Error{Outcome: retry.Rejected, Retryable: true, Err: retry.ErrBudgetExhausted}, true},
		"rejected for credentials":            {&retry.Error{Outcome: retry.Rejected, Status: 401, Err: errors.New("401")}, true},
		"a fan-out, all final":                {&sdk.FanoutError{Results: []sdk.Result{{}, {Err: rejected}}}, false},
		"a fan-out, one is not":               {fmt.Errorf("%w", &sdk.FanoutError{Results: []sdk.Result{{}, {Err: rejected}, {Err: unknown}}}), true},
		"two fan-outs":                        {errors.Join(&sdk.FanoutError{Results: []sdk.Result{{Err: rejected}}}, &sdk.FanoutError{Results: []sdk.Result{{Err: unknown}}}), true},
		"waited for a final one":              {&sdk.DependencyError{Err: rejected}, false},
		"waited for another":                  {&retry.Error{Outcome: retry.NotSent, Err: &sdk.DependencyError{Err: unknown}}, true},
		"waited for a final one, of a branch": {&retry.Error{Outcome: retry.NotSent, Err: &sdk.DependencyError{Err: rejected}}, false},
		"an error that says yes":              {fmt.Errorf("%w", says(true)), true},
		"an error that says no":               {says(false), false},
		"a panic":                             {&sdk.PanicError{Value: "boom"}, false},
	} {
		require.Equal(t, tt.want, sdk.Resumable(tt.err), name)
	}
}

// A branch is worth another run if one of its calls is, even if its function does not
// return the call's error.
func TestResumable_functions(t *testing.T) {
	t.Parallel()
	d := sdktest.New(t, answering(charge{}))
	d.Script("/charges", repeat(sdktest.Status(500, ""), 8)...)
	d.Script("/reservations", sdktest.Status(402, ""))
	c := newClient(t, d)
	plain := errors.New("the card is expired")
	for name, tt := range map[string]struct {
		fn   func(ctx context.Context) (int, error)
		want bool
	}{
		"plain":             {func(context.Context) (int, error) { return 0, plain }, false},
		"panic":             {func(context.Context) (int, error) { panic("nil deref") }, false},
		"its ctx has ended": {func(context.Context) (int, error) { return 0, context.Canceled }, true},
		"refused":           {func(ctx context.Context) (int, error) { return 0, second(sdk.Call(ctx, c, reserve.For("r"), lines{})) }, false},
		"plain, after an effect": {func(ctx context.Context) (int, error) {
			return 0, errors.Join(plain, second(sdk.Call(ctx, c, pay.For("x"), amount{1}, sdk.Header("x", "y"))))
		}, true},
		"plain, and a call is unknown": {func(ctx context.Context) (int, error) {
			_ = second(sdk.Call(ctx, c, pay.For("u"), amount{1}))
			return 0, plain
		}, true},
		"refused, and a call is unknown": {func(ctx context.Context) (int, error) {
			_ = second(sdk.Call(ctx, c, pay.For("v"), amount{1}))
			return 0, second(sdk.Call(ctx, c, reserve.For("s"), lines{}))
		}, true},
	} {
		f := c.Fanout(parent(t, "p"))
		sdk.AddFunc(f, "f", tt.fn)
		err := f.Wait()
		require.Equal(t, tt.want, sdk.Resumable(err), "%s: %v", name, err)
		require.Equal(t, tt.want, sdk.Resumable(f.Results()["f"].Err), name)
	}
}
