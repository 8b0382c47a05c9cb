package server_test

import (
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server"
)

func TestExposedHeaders(t *testing.T) {
	t.Parallel()
	var runs atomic.Int64
	h, _ := guarded(t, server.Keyed, answer(http.StatusOK, &runs))
	const header = "Access-Control-Expose-Headers"
	for _, tt := range []struct {
		name, key, body string
		headers         []string
		want            []string
	}{
		{"first", "k", "b", []string{"Origin", "https://shop.example"}, []string{"Idempotent-Replayed, Idempotency-Code, Idempotency-Should-Retry, X-Should-Retry, Retry-After, Retry-After-Ms"}},
		{"replay", "k", "b", []string{"Origin", "https://shop.example"}, []string{"Idempotent-Replayed, Idempotency-Code, Idempotency-Should-Retry, X-Should-Retry, Retry-After, Retry-After-Ms"}},
		{"refusal", "k", "other", []string{"Origin", "https://shop.example"}, []string{"Idempotent-Replayed, Idempotency-Code, Idempotency-Should-Retry, X-Should-Retry, Retry-After, Retry-After-Ms"}},
		{"same origin", "k", "b", nil, nil},
	} {
		require.Equal(t, tt.want, send(h, tt.key, tt.body, tt.headers...).Header().Values(header), tt.name)
	}
}
