package sdk_test

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"mime/multipart"
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

func readAll(tb testing.TB, s *retry.Stream) string {
	tb.Helper()
	r, err := s.Open()
	require.NoError(tb, err)
	b, err := io.ReadAll(r)
	require.NoError(tb, err)
	require.NoError(tb, r.Close())
	require.EqualValues(tb, len(b), s.Size())
	return string(b)
}

func TestNewMultipart(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("scan ", 1<<16)
	given := []sdk.Part{
		{Name: "order", Body: []byte(`{"id":42}`), ContentType: "application/json"},
		{Name: `odd "name"\`, Body: []byte("--\r\n--x--")},
		{Name: "scan", FileName: `a "b".pdf`, Stream: stream(t, long)},
		{Name: "nothing"},
	}
	body, contentType, err := sdk.NewMultipart(given...)
	require.NoError(t, err)
	text := readAll(t, body)
	require.Equal(t, text, readAll(t, body), "it can be opened again")

	_, params, err := mime.ParseMediaType(contentType)
	require.NoError(t, err)
	form := multipart.NewReader(strings.NewReader(text), params["boundary"])
	for i, want := range []struct{ file, contentType, body string }{
		{"", "application/json", `{"id":42}`},
		{"", "", "--\r\n--x--"},
		{`a "b".pdf`, "application/octet-stream", long},
		{"", "", ""},
	} {
		part, err := form.NextRawPart()
		require.NoError(t, err)
		require.Equal(t, given[i].Name, part.FormName())
		require.Equal(t, want.file, part.FileName())
		require.Equal(t, want.contentType, part.Header.Get("Content-Type"))
		got, err := io.ReadAll(part)
		require.NoError(t, err)
		require.Equal(t, want.body, string(got))
	}
	_, err = form.NextRawPart()
	require.ErrorIs(t, err, io.EOF)
}

// The bytes depend on the parts and on nothing else.
func TestNewMultipart_boundary(t *testing.T) {
	t.Parallel()
	base := []sdk.Part{{Name: "a", Body: []byte("b")}, {Name: "c", FileName: "d", ContentType: "text/plain", Body: []byte("e")}}
	of := func(parts ...sdk.Part) string {
		_, contentType, err := sdk.NewMultipart(parts...)
		require.NoError(t, err)
		return contentType
	}
	require.Equal(t, of(base...), of(base...))
	require.Equal(t, of(sdk.Part{Name: "a", Body: []byte("b")}), of(sdk.Part{Name: "a", Stream: stream(t, "b")}))
	seen := map[string]bool{of(base...): true}
	for _, other := range [][]sdk.Part{
		{base[1], base[0]},
		base[:1],
		{{Name: "a", Body: []byte("x")}, base[1]},
		{base[0], {Name: "c", FileName: "d", Body: []byte("e")}},
		{base[0], {Name: "cd", ContentType: "text/plain", Body: []byte("e")}},
	} {
		require.False(t, seen[of(other...)])
		seen[of(other...)] = true
	}
}

func TestNewMultipart_rejects(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		parts []sdk.Part
	}{
		{"no parts", nil},
		{"no name", []sdk.Part{{Body: []byte("b")}}},
		{"line break in a name", []sdk.Part{{Name: "a\r\nX-Evil: 1"}}},
		{"line break in a file name", []sdk.Part{{Name: "a", FileName: "b\n"}}},
		{"line break in a type", []sdk.Part{{Name: "a", ContentType: "text/plain\r\nX: 1"}}},
		{"two bodies", []sdk.Part{{Name: "a", Body: []byte("b"), Stream: stream(t, "b")}}},
	} {
		_, _, err := sdk.NewMultipart(tt.parts...)
		require.ErrorIs(t, err, sdk.ErrRequest, tt.name)
	}
	_, _, err := sdk.NewMultipart(sdk.Part{Name: "a", Stream: new(retry.Stream)})
	require.ErrorIs(t, err, retry.ErrInvalid)
}

// An upload that is lost and tried again is one effect, with one hash.
func TestSend_stream(t *testing.T) {
	t.Parallel()
	var bodies []string
	d := sdktest.New(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		file, _, err := r.FormFile("scan")
		if err != nil {
			t.Error(err)
			return
		}
		b, _ := io.ReadAll(file)
		bodies = append(bodies, string(b))
	}))
	d.Script("/scans", sdktest.DropResponse(), sdktest.Status(http.StatusServiceUnavailable, ""))
	scan := strings.Repeat("scan ", 1<<18)
	file := filepath.Join(t.TempDir(), "scan")
	require.NoError(t, os.WriteFile(file, []byte(scan), 0o600))
	onDisk, err := retry.NewStream(func() (io.ReadCloser, error) { return os.Open(file) })
	require.NoError(t, err)
	body, contentType, err := sdk.NewMultipart(sdk.Part{Name: "scan", FileName: "scan.pdf", Stream: onDisk})
	require.NoError(t, err)

	req := sdk.Request{Service: "inventory", Operation: "scan", Path: "/scans", Stream: body, ContentType: contentType}
	resp, err := newClient(t, d).Send(parent(t, "order-42"), req)
	require.NoError(t, err)
	require.Equal(t, 3, resp.Attempts)
	require.Equal(t, []string{scan}, bodies)
	sent := d.Requests()
	for _, r := range sent {
		require.True(t, bytes.Equal(sent[0].Body, r.Body))
		require.Equal(t, contentType, r.Header.Get("Content-Type"))
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
