package hosting_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/examples/internal/hosting"
	"github.com/fanonce/fanonce/server"
)

func TestStorable(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, body string
		ok         bool
	}{
		{"text", `{"fp":"näh"}`, true},
		{"no JSON", `{`, true},
		{"empty", ``, true},
		{"a backslash before u0000", `{"fp":"\\u0000"}`, true},
		{"longest", `"` + strings.Repeat("x", hosting.MaxBodyBytes-2) + `"`, true},
		{"NUL", `{"fp":"a\u0000b"}`, false},
		{"NUL in a name", `{"f\u0000p":1}`, false},
		{"NUL deep down", `[{"a":[["\u0000"]]}]`, false},
		{"two backslashes, then a NUL", `{"fp":"\\\u0000"}`, false},
		{"no UTF-8", "{\"fp\":\"\xff\"}", false},
		{"too long", `"` + strings.Repeat("x", hosting.MaxBodyBytes-1) + `"`, false},
	} {
		got, err := hosting.Storable(nil, []byte(tt.body))
		if tt.ok {
			require.NoError(t, err, tt.name)
			require.Equal(t, tt.body, string(got), tt.name)
			continue
		}
		var refused *server.StatusError
		require.True(t, errors.As(err, &refused), tt.name)
		require.Equal(t, http.StatusBadRequest, refused.Status, tt.name)
		require.NotEmpty(t, refused.Detail, tt.name)
	}
}
