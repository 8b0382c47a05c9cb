package wire_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
)

func TestReadProblem(t *testing.T) {
	t.Parallel()
	ours := wire.NewProblem(wire.Poisoned, "d")
	for _, tt := range []struct {
		name, contentType, body string
		want                    wire.Problem
		ok                      bool
	}{
		{"ours", wire.ProblemContentType, string(ours.JSON()), ours, true},
		{
			"the service's", "application/problem+json; charset=utf-8",
			`{"type":"https://x.test/declined","title":"Declined","status":402,"detail":"No funds.","instance":"/7","code":"declined","retryable":true,"more":[1]}`,
			wire.Problem{Type: "https://x.test/declined", Title: "Declined", Status: 402, Detail: "No funds.", Instance: "/7", Code: "declined"}, true,
		},
		{"members of other types", wire.ProblemContentType, `{"type":1,"status":"402","code":7,"detail":"d","title":null}`, wire.Problem{Detail: "d"}, true},
		{"no members", wire.ProblemContentType, `{}`, wire.Problem{}, true},
		{"other media type", "application/json", `{"code":"declined"}`, wire.Problem{}, false},
		{"no media type", "", `{"code":"declined"}`, wire.Problem{}, false},
		{"null", wire.ProblemContentType, `null`, wire.Problem{}, false},
		{"list", wire.ProblemContentType, `[]`, wire.Problem{}, false},
		{"empty", wire.ProblemContentType, ``, wire.Problem{}, false},
		{"too long", wire.ProblemContentType, `{"code":"declined"}` + strings.Repeat(" ", wire.MaxProblemBytes), wire.Problem{}, false},
	} {
		got, ok := wire.ReadProblem(tt.contentType, []byte(tt.body))
		require.Equal(t, tt.ok, ok, tt.name)
		require.Equal(t, tt.want, got, tt.name)
	}
}
