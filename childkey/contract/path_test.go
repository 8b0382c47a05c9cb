package contract_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/contract"
)

func TestPath_declared(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, path string
		ok         bool
	}{
		{"one segment", "/orders", true},
		{"wildcard", "/orders/{id}", true},
		{"wildcards", "/orders/{id}/lines/{line_2}", true},
		{"root alone", "/{$}", true},
		{"ends with a slash, alone", "/orders/{$}", true},
		{"rest", "/files/{path...}", true},
		{"rest at the root", "/{path...}", true},
		{"encoded", "/caf%C3%A9/a%20b", true},
		{"punctuation", "/v1/orders:capture;x=1,2/~a!$&'()*+@_-.", true},
		{"dots in a segment", "/..a/b..", true},

		{"empty", "", false},
		{"relative", "orders", false},
		{"with method", "POST /orders", false},
		{"with host", "example.com/orders", false},
		{"root", "/", false},
		{"ends with a slash", "/orders/", false},
		{"empty segment", "/orders//x", false},
		{"host by two slashes", "//example.com/x", false},
		{"dot", "/./x", false},
		{"dot dot", "/a/../b", false},
		{"dot dot at the end", "/a/..", false},
		{"encoded dot dot", "/a/%2e%2E/b", false},
		{"encoded slash", "/a%2Fb", false},
		{"query", "/orders?x=1", false},
		{"fragment", "/orders#x", false},
		{"space", "/a b", false},
		{"not ASCII", "/café", false},
		{"control byte", "/a\nb", false},
		{"backslash", `/a\b`, false},
		{"percent sign alone", "/100%", false},
		{"half an escape", "/a%2", false},
		{"wildcard and more", "/a{id}", false},
		{"wildcard not closed", "/{id", false},
		{"wildcard not opened", "/id}", false},
		{"wildcard without a name", "/{}", false},
		{"rest without a name", "/{...}", false},
		{"wildcard is no identifier", "/{order-id}", false},
		{"wildcard begins with a digit", "/{1}", false},
		{"wildcard with a space", "/{ id}", false},
		{"rest before the end", "/{path...}/x", false},
		{"end before the end", "/{$}/x", false},
		{"the same name twice", "/{id}/{id}", false},
		{"the same name twice, once as rest", "/{id}/{id...}", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			err := post(tt.path).Err()
			if !tt.ok {
				require.ErrorIs(t, err, contract.ErrInvalid)
				return
			}
			require.NoError(t, err)
			require.NotPanics(t, func() { http.NewServeMux().Handle("POST "+tt.path, http.NotFoundHandler()) })
		})
	}
}

func TestPath_filled(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		op   op
		want string
	}{
		{"no wildcard", post("/orders"), "/orders"},
		{"end", post("/orders/{$}"), "/orders/"},
		{"root", post("/{$}"), "/"},
		{"value", post("/orders/{id}").At("id", "42"), "/orders/42"},
		{"order of At", post("/{a}/{b}").At("b", "2").At("a", "1"), "/1/2"},
		{"slash", post("/orders/{id}").At("id", "a/b"), "/orders/a%2Fb"},
		{"everything", post("/orders/{id}").At("id", "?#% é\n"), "/orders/%3F%23%25%20%C3%A9%0A"},
		{"not UTF-8", post("/orders/{id}").At("id", "\xff"), "/orders/%FF"},
		{"a wildcard as a value", post("/{a}/{b}").At("a", "{b}").At("b", "x"), "/%7Bb%7D/x"},
		{"dots in a value", post("/orders/{id}").At("id", "..."), "/orders/..."},
		{"percent sign is encoded again", post("/orders/{id}").At("id", "%2e"), "/orders/%252e"},
		{"rest", post("/files/{path...}").At("path", "a/b c/d"), "/files/a/b%20c/d"},
		{"literal stays encoded", post("/caf%C3%A9/{id}").At("id", "1"), "/caf%C3%A9/1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := tt.op.Path()
			require.NoError(t, err)
			require.Equal(t, tt.want, got)
		})
	}
}

func TestPath_badFilling(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		op   op
	}{
		{"not set", post("/orders/{id}")},
		{"one not set", post("/{a}/{b}").At("a", "1")},
		{"rest not set", post("/files/{path...}")},
		{"unknown", post("/orders/{id}").At("order", "1")},
		{"unknown, no wildcard", post("/orders").At("id", "1")},
		{"no name", post("/orders/{$}").At("", "1")},
		{"the end", post("/orders/{$}").At("$", "1")},
		{"twice", post("/orders/{id}").At("id", "1").At("id", "2")},
		{"twice, equal", post("/orders/{id}").At("id", "1").At("id", "1")},
		{"empty value", post("/orders/{id}").At("id", "")},
		{"dot", post("/orders/{id}").At("id", ".")},
		{"dot dot", post("/orders/{id}/capture").At("id", "..")},
		{"slash alone", post("/orders/{id}").At("id", "/")},
		{"empty rest", post("/files/{path...}").At("path", "")},
		{"rest climbs", post("/files/{path...}").At("path", "a/../../b")},
		{"rest begins with a slash", post("/files/{path...}").At("path", "/a")},
		{"rest ends with a slash", post("/files/{path...}").At("path", "a/")},
		{"error before a good At", post("/{a}/{b}").At("a", "").At("b", "1")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			path, err := tt.op.Path()
			require.ErrorIs(t, err, contract.ErrInvalid)
			require.Empty(t, path)
		})
	}
}

// What the caller fills in is what the callee's ServeMux finds, under the
// pattern that both declared.
func FuzzPath_throughServeMux(f *testing.F) {
	f.Add("/orders/{id}/capture", "id", "a/b")
	f.Add("/orders/{id}", "id", "..")
	f.Add("/orders/{id}", "id", "%2e%2e")
	f.Add("/orders/{id}", "id", "/")
	f.Add("/files/{path...}", "path", "a/b c/%2F")
	f.Add("/files/{path...}", "path", "a//b")
	f.Add("/{x}", "x", "é\xff\x00?#")
	f.Add("/a%2Fb/{x}", "x", "{x}")
	f.Add("/orders/", "", "")
	f.Add("//x/{$}", "", "")
	f.Add("/%2e%2e/{x}", "x", "1")
	f.Fuzz(func(t *testing.T, pattern, name, value string) {
		o := post(pattern)
		if o.Err() != nil {
			return
		}
		mux, got, served := http.NewServeMux(), "", false
		mux.HandleFunc(o.Method()+" "+o.Pattern(), func(_ http.ResponseWriter, r *http.Request) {
			got, served = r.PathValue(name), true
		})
		filled := o.At(name, value)
		if filled.Err() != nil {
			filled, value = o, ""
		}
		path, err := filled.Path()
		if err != nil {
			return // another wildcard is left
		}
		mux.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, path, nil))
		if !served || got != value {
			t.Fatalf("%q with %q = %q: path %q: served = %v, got %q", pattern, name, value, path, served, got)
		}
	})
}
