package demo

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/cookiejar"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/examples/checkout/internal/report"
)

var pageURL = regexp.MustCompile(`http://127\.0\.0\.1:\d+/\?secret=\w+`)

// bought is a line of progress with an order that was accepted.
var bought = regexp.MustCompile(`^[1-9]\d* accepted`)

// A watched demo has a stuck saga and an unknown key from the beginning, and counts at its end.
func TestRun_serve(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		args []string
	}{
		{"postgres", nil},
		{"memory", []string{"-database=memory"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ctx, interrupt := context.WithCancel(t.Context())
			defer interrupt()
			said, says := io.Pipe()
			var stdout bytes.Buffer
			code := make(chan int, 1)
			go func() {
				code <- run(ctx, append([]string{"-json", "-serve", "-c=4"}, tt.args...), nil, &stdout, says)
				_ = says.Close()
			}()
			lines := bufio.NewScanner(said)
			url := ""
			for url == "" && lines.Scan() {
				url = pageURL.FindString(lines.Text())
			}
			require.NotEmpty(t, url, "no address was printed")
			for lines.Scan() && !bought.MatchString(lines.Text()) {
			}
			go func() { _, _ = io.Copy(io.Discard, said) }()

			require.Equal(t, http.StatusUnauthorized, status(t, http.DefaultClient, strings.Split(url, "?")[0]))
			jar, err := cookiejar.New(nil)
			require.NoError(t, err)
			browser := &http.Client{Jar: jar}
			overview := get(t, browser, url)
			require.Regexp(t, `(?s)unknown`, overview)
			require.Contains(t, get(t, browser, base(url)+"/keys?in=depot&state=unknown"), "depot:POST /labels")
			require.Contains(t, get(t, browser, base(url)+"/sagas"), "gift")
			browser.CloseIdleConnections()

			interrupt()
			require.Equal(t, exitOK, <-code)
			var r report.Report
			require.NoError(t, json.Unmarshal(stdout.Bytes(), &r))
			require.True(t, r.OK)
			require.Equal(t, r.Sagas.Orders, r.Sagas.Undone)
			require.Positive(t, r.Sagas.Orders)
		})
	}
}

func base(url string) string { return strings.Split(url, "/?")[0] }

func status(t *testing.T, client *http.Client, url string) int {
	t.Helper()
	resp, err := client.Get(url)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return resp.StatusCode
}

func get(t *testing.T, client *http.Client, url string) string {
	t.Helper()
	resp, err := client.Get(url)
	require.NoError(t, err)
	defer func() { require.NoError(t, resp.Body.Close()) }()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, resp.StatusCode, string(body))
	return string(body)
}
