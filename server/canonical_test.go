package server_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/memstore"
)

func canonical(tb testing.TB, body string, ignore ...string) string {
	tb.Helper()
	b, err := server.CanonicalJSON(ignore...)(nil, []byte(body))
	require.NoError(tb, err)
	return string(b)
}

func TestCanonicalJSON_form(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, body, want string }{
		{"white space and order", " { \"b\" : [ 1 , 2 ] ,\n\"a\":null } ", `{"a":null,"b":[1,2]}`},
		{"nested order", `{"z":{"b":true,"a":false}}`, `{"z":{"a":false,"b":true}}`},
		{"code units, not code points", `{"\uFB33":1,"\uD83D\uDE00":2}`, "{\"\U0001F600\":2,\"\uFB33\":1}"},
		{"escapes", `"\u0041\/\u000a\u001F\"\\\u2028"`, "\"A/\\n\\u001f\\\"\\\\\u2028\""},
		{
			"numbers of RFC 8785", `[333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001]`,
			"raw:" + `[333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001]`,
		},
		{"numbers", `[1E30, 4.50, 2e-3, 1e-27, 1.0, -0.0, 100, 1e21]`, `[1e+30,4.5,0.002,1e-27,1,0,100,1e+21]`},
		{"largest integer that every double has", `9007199254740992`, `9007199254740992`},
		{"an integer that no double has", `9007199254740993`, `raw:9007199254740993`},
		{"too large", `1e400`, `raw:1e400`},
		{"too small", `1e-400`, `raw:1e-400`},
		{"exponent beyond integers", `1e99999999999999999999`, `raw:1e99999999999999999999`},
		{"name twice", `{"a":1,"a":2}`, `raw:{"a":1,"a":2}`},
		{"name twice, escaped", `{"a":1,"\u0061":2}`, `raw:{"a":1,"\u0061":2}`},
		{"half a pair", `"\uD83D"`, `raw:"\uD83D"`},
		{"the other half", `"\uDE00"`, `raw:"\uDE00"`},
		{"half a pair, then a letter", `"\uD83Dx"`, `raw:"\uD83Dx"`},
		{"an escaped backslash is no escape", `"\\uD83D"`, `"\\uD83D"`},
		{"no UTF-8", "\"\xff\"", "raw:\"\xff\""},
		{"no JSON", `{"a":`, `raw:{"a":`},
		{"empty", ``, `raw:`},
		{"two values", `{} {}`, `raw:{} {}`},
		{"deep", strings.Repeat("[", 600) + strings.Repeat("]", 600), "raw:" + strings.Repeat("[", 600) + strings.Repeat("]", 600)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			want := tt.want
			if !strings.HasPrefix(want, "raw:") {
				want = "jcs:" + want
			}
			require.Equal(t, want, canonical(t, tt.body))
		})
	}
}

func TestCanonicalJSON_ignores(t *testing.T) {
	t.Parallel()
	require.Equal(t, canonical(t, `{"a":1,"sent_at":"now"}`, "sent_at"), canonical(t, `{"sent_at":"later","a":1}`, "sent_at"))
	require.NotEqual(t, canonical(t, `{"in":{"sent_at":1}}`, "sent_at"), canonical(t, `{"in":{"sent_at":2}}`, "sent_at"), "outermost members only")
	require.NotEqual(t, canonical(t, `{"a":1}`, "sent_at"), canonical(t, `{"a":2}`, "sent_at"))
}

func TestCanonicalJSON_route(t *testing.T) {
	t.Parallel()
	var runs atomic.Int64
	g := newGuard(t, memstore.New(), server.Config{})
	h, err := g.Route(server.Route{Effect: server.Keyed, Fingerprint: server.CanonicalJSON("sent_at")}, answer(http.StatusOK, &runs))
	require.NoError(t, err)
	first := send(h, "k", `{"amount": 10.0, "sent_at": 1}`)
	requireAnswer(t, first, http.StatusOK, first.Body.String(), false)
	requireAnswer(t, send(h, "k", `{"sent_at":2,"amount":10}`), http.StatusOK, first.Body.String(), true)
	requireCode(t, send(h, "k", `{"sent_at":1,"amount":11}`), wire.KeyReused)
	require.EqualValues(t, 1, runs.Load())
}

// Canonical forms are JSON of the same value, and canonical themselves.
func FuzzCanonicalJSON(f *testing.F) {
	for _, seed := range []string{
		`{"b":[1.50,"\u00e9",null],"a":{"c":true}}`, `[1E30,4.50,2e-3]`, `"\uD83D\uDE00"`, `"\uD83D"`, `{"a":1,"a":1}`, `-0`, `1e999`, `[`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		form, isCanonical := strings.CutPrefix(canonical(t, body), "jcs:")
		if !isCanonical {
			require.Equal(t, "raw:"+body, form)
			return
		}
		require.Equal(t, "jcs:"+form, canonical(t, form))
		var want, got any
		require.NoError(t, json.Unmarshal([]byte(body), &want))
		require.NoError(t, json.Unmarshal([]byte(form), &got))
		require.Equal(t, want, got)
	})
}
