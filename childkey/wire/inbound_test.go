package wire_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
)

func TestInbound(t *testing.T) {
	t.Parallel()
	in, ok := wire.FromContext(t.Context())
	require.False(t, ok)
	require.Equal(t, wire.Inbound{Allowance: -1}, in, "nothing said must not mean no retries")

	want := wire.Inbound{FirstSent: time.Unix(1, 0), Attempt: 2, Allowance: 0, Deadline: time.Unix(2, 0)}
	in, ok = wire.FromContext(wire.NewContext(t.Context(), want))
	require.True(t, ok)
	require.Equal(t, want, in)
}

func ExampleParseKeyHeader() {
	h := http.Header{wire.HeaderKey: {`"order-42"`}}
	key, present, err := wire.ParseKeyHeader(h.Values(wire.HeaderKey))
	fmt.Println(key, present, err)

	h.Add(wire.HeaderKey, "order-43")
	_, _, err = wire.ParseKeyHeader(h.Values(wire.HeaderKey))
	fmt.Println(err)
	// Output:
	// order-42 true <nil>
	// wire: bad header: key: more than one line
}

func ExampleParseRetryAfter() {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	wait, ok := wire.ParseRetryAfter("120", "", now)
	fmt.Println(wait, ok)
	wait, ok = wire.ParseRetryAfter("Sun, 01 Mar 2026 12:00:05 GMT", "", now)
	fmt.Println(wait, ok)
	// Output:
	// 2m0s true
	// 5s true
}
