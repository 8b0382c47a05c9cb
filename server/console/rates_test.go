package console_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Two looks make a rate, and the durations are those between them.
func TestOverview_rates(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		l := newLive(t, nil, 0, func(w http.ResponseWriter, _ *http.Request) {
			time.Sleep(40 * time.Millisecond)
			w.WriteHeader(http.StatusCreated)
		})
		first := l.get("/").text()
		require.Contains(t, first, "on the next look")
		for i := range 50 {
			l.call(fmt.Sprintf("k-%d", i))
			for range 3 {
				l.call(fmt.Sprintf("k-%d", i))
			}
		}
		time.Sleep(8 * time.Second) // 50 runs of 40 ms, and this, are 10 seconds
		second := l.get("/").text()
		require.Contains(t, second, "rates over the last 10 s")
		require.Contains(t, second, `<th scope="row">hit</th><td class="n">15/s</td><td class="n">150</td>`)
		require.Contains(t, second, `<th scope="row">miss</th><td class="n">5/s</td><td class="n">50</td>`)
		require.Contains(t, second, `<th scope="row">mismatch</th><td class="n">0/s</td><td class="n">0</td>`)
		require.Regexp(t, `<th scope="row">pending age</th><td class="n">\d+ ms</td><td class="n">\d+ ms</td><td class="n">\d+ ms</td><td class="n">50</td>`, second)
		require.Contains(t, second, "<figcaption>hit per second</figcaption><svg")
		// A look right after it adds no sample.
		require.Contains(t, l.get("/").text(), "rates over the last 10 s")
		for range 300 {
			time.Sleep(2 * time.Second)
			l.get("/")
		}
		require.Contains(t, l.get("/").text(), "rates over the last 3 min 58 s", "120 samples are kept")
	})
}

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
