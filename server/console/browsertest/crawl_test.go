package browsertest_test

import (
	"net/http"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"
)

// crawl visits the pages that a person can reach from the overview by links, and calls f there. It visits at most
// perPath pages with one path: those of keys in several states, for example. It returns the paths below the prefix.
func (t *tab) crawl(perPath int, f func(address string)) []string {
	t.Helper()
	next, seen, visits := []string{prefix + "/"}, map[string]bool{}, map[string]int{}
	var paths []string
	for len(next) > 0 {
		address := next[0]
		next = next[1:]
		path, _, _ := strings.Cut(address, "?")
		if seen[address] || visits[path] >= perPath {
			continue
		}
		seen[address] = true
		visits[path]++
		require.Equal(t, http.StatusOK, t.visit(address), address)
		if path = strings.TrimPrefix(path, prefix); !slices.Contains(paths, path) {
			paths = append(paths, path)
		}
		f(address)
		next = append(next, eval[[]string](t, `Array.from(document.querySelectorAll("a[href]"), a => new URL(a.getAttribute("href"), location.href).href)
			.filter(h => h.startsWith(location.origin + "`+prefix+`")).map(h => h.slice(location.origin.length).split("#")[0])`)...)
	}
	return paths
}
