package browsertest_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/console"
	"github.com/fanonce/fanonce/server/store"
)

// planted runs a script, or opens a dialog, on a page that shows it without escaping. It has a way out of a text,
// of an attribute with any quotes, and of a script.
const planted = `'"></title></textarea></script><script>window.hacked=1</script><img src=x onerror="window.hacked=2;alert(1)"><svg onload=window.hacked=3>`

func TestPlantedScripts(t *testing.T) {
	t.Parallel()
	name := `orders'"><img src=x onerror=alert(1)>`
	s := newSite(t, func(cfg *console.Config) {
		cfg.Title = planted
		cfg.Stores[0].Name, cfg.Sagas[0].Name = name, "sagas"+name
		cfg.Authenticate = scripted()
	})
	s.plant(1, 0, store.StateUnknown, "POST /"+planted)
	s.plant(2, 1, store.StateQuarantined, planted)
	s.plant(3, 1, store.StateCompleted, planted)
	s.plant(4, 0, store.StateUnknown, planted)
	s.letter(5, planted)
	s.run("order-1", planted, refused, journal.Stuck)
	s.run("order-2", planted, undoRefused, journal.Stuck)
	rec, err := s.keys.Read(context.Background(), number(4))
	require.NoError(t, err)
	require.NoError(t, s.guard.Resolve(context.Background(), rec.ID, rec.Fence, server.Abandoned(), store.Audit{Actor: planted[:120], Reason: planted}))

	for _, script := range []bool{true, false} {
		b := open(t, s, look{user: "ada", script: script})
		shown := 0
		b.crawl(2, func(address string) {
			if script {
				b.notHacked(address)
			}
			shown += eval[int](b, `document.body.innerText.split("onerror").length - 1`)
		})
		require.Greater(t, shown, 10, "the pages show what was planted")
		if script {
			// The values of a filter come back on the page.
			b.visit(prefix + "/keys?state=unknown&route=" + "%22%3E%3Cscript%3Ewindow.hacked%3D4%3C%2Fscript%3E")
			b.notHacked("a filter")
			b.visit(prefix + "/keys?state=" + "%22%3E%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E&in=%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E")
			b.notHacked("a bad filter")
		}
		b.quiet()
	}
}

// scripted is the authentication of a user whose name is a script.
func scripted() func(r *http.Request) (console.User, error) {
	return func(r *http.Request) (console.User, error) {
		u, err := authenticate(r)
		u.Name += `"><img src=x onerror=alert(1)>`
		return u, err
	}
}

func (t *tab) notHacked(address string) {
	t.Helper()
	require.Equal(t, 0, eval[int](t, "window.hacked || 0"), address)
	require.Empty(t, eval[[]string](t, "window.violations"), "%s: only the policy stopped a script", address)
	require.Equal(t, 0, eval[int](t, `document.querySelectorAll("img, [onerror], [onload], svg[onload]").length`), address)
	t.quiet()
}
