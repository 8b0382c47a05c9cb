package wire_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
)

func TestProblem_roundTrip(t *testing.T) {
	t.Parallel()
	for _, s := range wire.Situations() {
		t.Run(string(s.Code), func(t *testing.T) {
			t.Parallel()
			p := wire.NewProblem(s.Code, "key 0123456789abcdef <&>")
			p.Instance, p.RetryAfterMs = "req-7", 1500
			require.Equal(t, s.Status, p.Status)
			require.Equal(t, s.Title, p.Title)
			require.Equal(t, s.Retryable, p.Retryable)
			require.Equal(t, wire.TypePrefix+string(s.Code), p.Type)
			got, ok := wire.ParseProblem(wire.ProblemContentType, p.JSON())
			require.True(t, ok)
			require.Equal(t, p, got)
			require.Equal(t, 1500*time.Millisecond, got.RetryAfter())
		})
	}
}

func TestProblem_JSON(t *testing.T) {
	t.Parallel()
	require.JSONEq(t, `{"type":"https://fanonce.dev/problems/key-missing","title":"An idempotency key is required","status":400,
		"code":"key-missing","retryable":false}`, string(wire.NewProblem(wire.KeyMissing, "").JSON()))
	require.True(t, json.Valid(wire.NewProblem(wire.KeyMissing, "not UTF-8: \xff").JSON()))
}

func TestNewProblem_unknownCode(t *testing.T) {
	t.Parallel()
	p := wire.NewProblem("teapot", "")
	require.Equal(t, 500, p.Status)
	require.False(t, p.Retryable)
	require.NotEmpty(t, p.Title)
}

func TestParseProblem(t *testing.T) {
	t.Parallel()
	body := string(wire.NewProblem(wire.InProgress, "").JSON())
	tests := []struct {
		name, contentType, body string
		ok                      bool
	}{
		{"ours", "application/problem+json", body, true},
		{"with charset", "application/problem+json; charset=utf-8", body, true},
		{"upper case", "Application/Problem+JSON", body, true},
		{"further members", "application/problem+json", strings.Replace(body, "{", `{"trace":{"id":[1]},`, 1), true},
		{"longest", "application/problem+json", body + strings.Repeat(" ", wire.MaxProblemBytes-len(body)), true},

		{"plain JSON", "application/json", body, false},
		{"no media type", "", body, false},
		{"broken media type", "application/problem+json; charset", body, false},
		{"too long", "application/problem+json", body + strings.Repeat(" ", wire.MaxProblemBytes), false},
		{"empty", "application/problem+json", "", false},
		{"null", "application/problem+json", "null", false},
		{"array", "application/problem+json", "[" + body + "]", false},
		{"two values", "application/problem+json", body + body, false},
		{"cut off", "application/problem+json", body[:len(body)-1], false},
		{"status is a string", "application/problem+json", strings.Replace(body, "409", `"409"`, 1), false},
		{"no code", "application/problem+json", `{"type":"about:blank","title":"Conflict","status":409}`, false},
		{"code of another service", "application/problem+json", strings.ReplaceAll(body, "in-progress", "teapot"), false},
		{"our code, type of another service", "application/problem+json", strings.Replace(body, wire.TypePrefix, "https://example.com/", 1), false},
		{"our type, other code", "application/problem+json", strings.Replace(body, `"code":"in-progress"`, `"code":"key-reused"`, 1), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p, ok := wire.ParseProblem(tt.contentType, []byte(tt.body))
			require.Equal(t, tt.ok, ok)
			if ok {
				require.Equal(t, wire.InProgress, p.Code)
			} else {
				require.Zero(t, p)
			}
		})
	}
}

func TestProblem_RetryAfter(t *testing.T) {
	t.Parallel()
	tests := []struct {
		ms   int64
		want time.Duration
	}{
		{0, 0}, {1, time.Millisecond}, {-5, 0}, {-1 << 63, 0}, {1<<63 - 1, forever}, {9223372036854, 9223372036854 * time.Millisecond},
	}
	for _, tt := range tests {
		if got := (wire.Problem{RetryAfterMs: tt.ms}).RetryAfter(); got != tt.want {
			t.Errorf("RetryAfter of %d ms = %v, want %v", tt.ms, got, tt.want)
		}
	}
}

func FuzzParseProblem(f *testing.F) {
	f.Add(wire.ProblemContentType, wire.NewProblem(wire.Poisoned, "d").JSON())
	f.Add("application/problem+json;", []byte(`{"code":"poisoned","type":"about:blank"}`))
	f.Add("application/json", []byte(`[[[[`))
	f.Fuzz(func(t *testing.T, contentType string, body []byte) {
		p, ok := wire.ParseProblem(contentType, body)
		if !ok {
			if p != (wire.Problem{}) {
				t.Fatalf("got %+v with ok = false", p)
			}
			return
		}
		if _, known := p.Code.Situation(); !known {
			t.Fatalf("code %q is none of ours", p.Code)
		}
		if again, ok := wire.ParseProblem(wire.ProblemContentType, p.JSON()); len(p.JSON()) <= wire.MaxProblemBytes && (!ok || again != p) {
			t.Fatalf("parsed again: %+v, %v, want %+v", again, ok, p)
		}
	})
}

func ExampleNewProblem() {
	body := wire.NewProblem(wire.InProgress, "").JSON()
	p, ok := wire.ParseProblem("application/problem+json", body)
	fmt.Println(ok, p.Code, p.Status, p.Retryable)
	// Output: true in-progress 409 true
}
