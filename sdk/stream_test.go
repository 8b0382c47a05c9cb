package sdk_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/sdk"
	"github.com/fanonce/fanonce/sdk/sdktest"
)

func stream(tb testing.TB, body string) *retry.Stream {
	tb.Helper()
	s, err := retry.NewStream(func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(body)), nil })
	require.NoError(tb, err)
	return s
}

// An upload that is lost and tried again is one effect, with one hash.
func TestSend_stream(t *testing.T) {
	t.Parallel()
	var bodies []string
	d := sdktest.New(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		bodies = append(bodies, string(b))
	}))
	d.Script("/scans", sdktest.DropResponse(), sdktest.Status(http.StatusServiceUnavailable, ""))
	scan := strings.Repeat("scan ", 1<<18)
	file := filepath.Join(t.TempDir(), "scan")
	require.NoError(t, os.WriteFile(file, []byte(scan), 0o600))
	onDisk, err := retry.NewStream(func() (io.ReadCloser, error) { return os.Open(file) })
	require.NoError(t, err)

	req := sdk.Request{Service: "inventory", Operation: "scan", Path: "/scans", Stream: onDisk, ContentType: "application/pdf"}
	resp, err := newClient(t, d).Send(parent(t, "order-42"), req)
	require.NoError(t, err)
	require.Equal(t, 3, resp.Attempts)
	require.Equal(t, []string{scan}, bodies)
	sent := d.Requests()
	for _, r := range sent {
		require.True(t, bytes.Equal(sent[0].Body, r.Body))
		require.Equal(t, "application/pdf", r.Header.Get("Content-Type"))
	}
	require.Len(t, d.Effects(), 1)
}

// The file changes between two runs under one parent key: that is another payload.
func TestSend_streamChanged(t *testing.T) {
	t.Parallel()
	d := sdktest.New(t, nil)
	client, ctx := newClient(t, d), parent(t, "order-42")
	req := sdk.Request{Service: "inventory", Operation: "scan", Path: "/scans", Stream: stream(t, "one"), ContentType: "application/pdf"}
	_, err := client.Send(ctx, req)
	require.NoError(t, err)
	req.Stream = stream(t, "two")
	_, err = client.Send(ctx, req)
	require.ErrorIs(t, err, childkey.ErrDuplicateChild)
	require.Len(t, d.Requests(), 1)

	req.Body = []byte("two")
	_, err = client.Send(parent(t, "order-43"), req)
	require.ErrorIs(t, err, sdk.ErrRequest)
}

func TestSend_streamCannotCarryTheKey(t *testing.T) {
	t.Parallel()
	d := sdktest.New(t, nil)
	client, err := sdk.New(sdk.Config{Services: map[string]sdk.Service{
		"square": {URL: d.URL(), Profile: &retry.Profile{BodyField: "idempotency_key"}},
	}})
	require.NoError(t, err)
	_, err = client.Send(parent(t, "order-42"), sdk.Request{Service: "square", Operation: "pay", Path: "/pay", Stream: stream(t, "{}")})
	require.ErrorIs(t, err, retry.ErrInvalid)
	require.True(t, errors.Is(err, retry.ErrNotSent))
	require.Empty(t, d.Requests())
}
