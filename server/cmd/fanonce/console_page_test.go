package main_test

import (
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A visitor is a browser of a test.
type visitor struct {
	t      *testing.T
	client *http.Client
	base   string
}

// An answer is a page that a visitor got.
type answer struct {
	t      *testing.T
	status int
	body   string
}

func newVisitor(t *testing.T, base string) *visitor {
	t.Helper()
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	v := &visitor{t, &http.Client{Jar: jar, Timeout: patience, Transport: &http.Transport{}}, base}
	t.Cleanup(v.client.CloseIdleConnections)
	return v
}

func (v *visitor) get(path string) answer {
	v.t.Helper()
	req, err := http.NewRequestWithContext(v.t.Context(), http.MethodGet, v.base+path, nil)
	require.NoError(v.t, err)
	return v.do(req)
}

func (v *visitor) post(path string, form url.Values) answer {
	v.t.Helper()
	req, err := http.NewRequestWithContext(v.t.Context(), http.MethodPost, v.base+path, strings.NewReader(form.Encode()))
	require.NoError(v.t, err)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Sec-Fetch-Site", "same-origin")
	return v.do(req)
}

func (v *visitor) do(req *http.Request) answer {
	v.t.Helper()
	resp, err := v.client.Do(req)
	require.NoError(v.t, err)
	body, err := io.ReadAll(resp.Body)
	require.NoError(v.t, err)
	require.NoError(v.t, resp.Body.Close())
	require.NotEmpty(v.t, resp.Header.Get("Content-Security-Policy"))
	return answer{v.t, resp.StatusCode, string(body)}
}

func (a answer) requireStatus(want int) answer {
	a.t.Helper()
	require.Equal(a.t, want, a.status, a.body)
	return a
}

var (
	formTag  = regexp.MustCompile(`(?s)<form ([^>]*)>(.*?)</form>`)
	inputTag = regexp.MustCompile(`<input ([^>]*)>`)
	attr     = regexp.MustCompile(`([a-z-]+)="([^"]*)"`)
)

func attrs(tag string) map[string]string {
	m := map[string]string{}
	for _, found := range attr.FindAllStringSubmatch(tag, -1) {
		m[found[1]] = html.UnescapeString(found[2])
	}
	return m
}

// form returns what the first form for that path sends, without boxes.
func (a answer) form(path string) url.Values {
	a.t.Helper()
	for _, f := range formTag.FindAllStringSubmatch(a.body, -1) {
		if attrs(f[1])["action"] != path {
			continue
		}
		values := url.Values{}
		for _, i := range inputTag.FindAllStringSubmatch(f[2], -1) {
			if at := attrs(i[1]); at["name"] != "" && at["type"] != "checkbox" {
				values.Add(at["name"], at["value"])
			}
		}
		return values
	}
	require.Fail(a.t, "the page has no form for "+path, a.body)
	return nil
}

// settle goes from the page of a key over the confirmation to the end.
func (v *visitor) settle(store, id, verb string, values map[string]string) answer {
	v.t.Helper()
	form := v.get("/key?in=" + url.QueryEscape(store) + "&id=" + id).requireStatus(http.StatusOK).form("/confirm")
	form.Set("verb", verb)
	form = v.post("/confirm", form).requireStatus(http.StatusOK).form("/do")
	form.Set("reason", "the bank confirms")
	for field, value := range values {
		form.Set(field, value)
	}
	return v.post("/do", form)
}

// quick is how often a test looks.
const quick = 5 * time.Millisecond
