package console_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

// A store that fails is one panel with its error, and the rest is shown.
func TestOverview_failures(t *testing.T) {
	t.Parallel()
	s := newSite(t, plantedConfig(newFixture(t)))
	a := s.get("/")
	require.Equal(t, http.StatusOK, a.Code)
	require.Contains(t, a.text(), "cannot be read")
	require.Contains(t, a.text(), "The read failed")
}

// The page says of totals that they are estimates.
func TestOverview_estimates(t *testing.T) {
	t.Parallel()
	text := newFixture(t).site(t).get("/").text()
	require.Contains(t, text, `about 8 <small class="faint">estimate</small>`)
}

func BenchmarkOverview(b *testing.B) {
	f := newFixture(b)
	s := f.site(b)
	b.ReportAllocs()
	for b.Loop() {
		r := httptest.NewRequest(http.MethodGet, prefix+"/", nil)
		if a := s.send(r); a.Code != http.StatusOK {
			b.Fatal(a.Code)
		}
	}
}
