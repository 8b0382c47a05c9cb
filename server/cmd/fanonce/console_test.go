package main_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// A lockedBuffer is written by a process and read by a test at the same time.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// A served is a running fanonce console.
type served struct {
	cmd    *exec.Cmd
	stderr *lockedBuffer
	out    struct {
		URL      string
		Stores   []string
		ReadOnly bool `json:"read_only"`
	}
	base string
}

// serveConsole starts the program on any free port. It ends with the test, unless the test ends it.
func serveConsole(t *testing.T, url string, args ...string) *served {
	t.Helper()
	s := &served{stderr: &lockedBuffer{}}
	s.cmd, _, _ = call{database: url, args: append([]string{"console", "--json", "--listen", "localhost:0"}, args...)}.command(t.Context())
	s.cmd.Stdout, s.cmd.Stderr = nil, s.stderr
	out, err := s.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, s.cmd.Start())
	t.Cleanup(func() { _ = s.cmd.Process.Kill() })
	if err := json.NewDecoder(out).Decode(&s.out); err != nil {
		_ = s.cmd.Wait()
		t.Fatalf("no address: %v: %s", err, s.stderr)
	}
	base, err := s.cmdBase()
	require.NoError(t, err)
	s.base = base
	return s
}

func (s *served) cmdBase() (string, error) {
	u, err := url.Parse(s.out.URL)
	if err != nil {
		return "", err
	}
	return u.Scheme + "://" + u.Host, nil
}

// stop interrupts the program, and returns its exit code.
func (s *served) stop(t *testing.T) int {
	t.Helper()
	require.NoError(t, s.cmd.Process.Signal(os.Interrupt))
	err := s.cmd.Wait()
	var exit *exec.ExitError
	if err != nil {
		require.True(t, errors.As(err, &exit), "%v", err)
	}
	return s.cmd.ProcessState.ExitCode()
}

// A person comes in by the address that the program prints, settles a key, and the audit log names the person.
func TestConsole(t *testing.T) {
	t.Parallel()
	url := database(t)
	ids := unknownKeys(t, url, "order-41", "order-42")
	stuck := stuckSagas(t, url, "s-1")[0]
	s := serveConsole(t, url)
	require.Len(t, s.out.Stores, 2)
	name := s.out.Stores[0]
	ann, eve := newVisitor(t, s.base), newVisitor(t, s.base)
	eve.get("/").requireStatus(http.StatusUnauthorized)
	eve.get("/keys").requireStatus(http.StatusUnauthorized)

	entrance := strings.TrimPrefix(s.out.URL, s.base)
	require.Contains(t, ann.get(entrance).requireStatus(http.StatusOK).body, "You are ann@")
	eve.get(entrance).requireStatus(http.StatusUnauthorized)
	require.Eventually(t, func() bool { return strings.Contains(s.stderr.String(), "for another one: "+s.base) }, patience, quick)

	var pages string
	for _, path := range []string{"/", "/keys", "/sagas", "/saga?in=" + name + "+sagas&id=" + stuck, "/letters", "/audit", "/help", "/key?in=" + name + "&id=" + ids[0]} {
		pages += ann.get(path).requireStatus(http.StatusOK).body
	}
	require.Contains(t, pages, ids[1])
	eve.post("/do", nil).requireStatus(http.StatusUnauthorized)
	done := ann.settle(name, ids[0], "run-again", nil)
	require.Less(t, done.status, 400, done.body)
	log := parse[auditLog](t, on(t, url, "keys", "audit", "--json").requireCode(t, 0)).Audit
	require.Len(t, log, 1)
	require.Equal(t, ids[0], log[0].ID)
	require.True(t, strings.HasPrefix(log[0].Actor, "ann@"), log[0].Actor)
	require.Contains(t, log[0].Reason, "the bank confirms")

	// An answer that this program stored would be unreadable for a service that seals.
	require.NotContains(t, pages, `value="happened"`)
	require.Contains(t, pages, "fanonce keys resolve --as happened --plain")
	form := ann.get("/key?in=" + name + "&id=" + ids[1]).form("/confirm")
	for field, value := range map[string]string{"verb": "happened", "status": "200", "body": "{}", "reason": "r"} {
		form.Set(field, value)
	}
	for _, path := range []string{"/confirm", "/do"} {
		require.Contains(t, ann.post(path, form).requireStatus(http.StatusBadRequest).body, "Nothing was changed")
	}
	require.Equal(t, "unknown", parse[shownKey](t, on(t, url, "keys", "show", ids[1], "--json")).Key["state"])
	// Nor does this program know the type of a step's output.
	require.NotContains(t, pages, `value="force-ok"`)
	require.Contains(t, pages, "does not have the definition of the saga")

	require.Equal(t, 0, s.stop(t), s.stderr)
	said := s.stderr.String()
	require.Contains(t, said, "interrupted: ending what runs")
	for _, text := range []string{secret, "order-4", "s-1"} {
		require.NotContains(t, pages, text)
		require.NotContains(t, said, text)
	}
}

type shownKey struct {
	Key   map[string]any
	Audit []map[string]any
}

// An observer sees all of it and changes nothing. The rights of the observer are enough.
func TestConsole_readOnly(t *testing.T) {
	t.Parallel()
	url := database(t)
	id := unknownKeys(t, url, "order-41")[0]
	s := serveConsole(t, url, "--read-only", "--title", "night watch")
	require.True(t, s.out.ReadOnly)
	v := newVisitor(t, s.base)
	v.get(strings.TrimPrefix(s.out.URL, s.base)).requireStatus(http.StatusOK)
	page := v.get("/key?in=" + s.out.Stores[0] + "&id=" + id).requireStatus(http.StatusOK)
	require.NotContains(t, page.body, `action="/confirm"`)
	require.Contains(t, page.body, "night watch")
	form := v.get("/help").form("/find")
	for name, value := range map[string]string{"kind": "key", "in": s.out.Stores[0], "which": "one", "verb": "forget", "id": id, "reason": "r"} {
		form.Set(name, value)
	}
	v.post("/do", form).requireStatus(http.StatusForbidden)
	v.post("/confirm", form).requireStatus(http.StatusForbidden)
	on(t, url, "keys", "show", id).requireCode(t, 0)
	require.Equal(t, 0, s.stop(t))
}

// Several databases are one page. One that cannot be shown is an error, and its address is not.
func TestConsole_stores(t *testing.T) {
	t.Parallel()
	one, two := database(t), database(t)
	id := unknownKeys(t, two, "order-41")[0]
	t.Run("two", func(t *testing.T) {
		t.Parallel()
		s := serveConsole(t, "", "--store", "orders="+one, "--store", "payments="+two)
		require.Subset(t, s.out.Stores, []string{"orders", "payments", "orders sagas", "payments sagas"})
		v := newVisitor(t, s.base)
		v.get(strings.TrimPrefix(s.out.URL, s.base)).requireStatus(http.StatusOK)
		overview := v.get("/").requireStatus(http.StatusOK).body
		require.Contains(t, overview, "orders")
		require.Contains(t, overview, "payments")
		v.get("/key?in=payments&id=" + id).requireStatus(http.StatusOK)
		v.get("/key?in=orders&id=" + id).requireStatus(http.StatusNotFound)
		require.Less(t, v.settle("payments", id, "abandon", nil).status, 400)
		require.Equal(t, 0, s.stop(t))
	})
	for _, tt := range []struct {
		name string
		args []string
		want string
	}{
		{"one that is not there", []string{"--store", "a=" + one, "--store", "b=postgres://ann:secret@127.0.0.1:1/x?connect_timeout=2"}, "b: cannot reach the database"},
		{"one without tables", []string{"--store", "a=" + one, "--schema", "nowhere"}, "a: there are no tables to show"},
		{"one twice", []string{"--store", "a=" + one, "--store", "a=" + two}, "--store a is there twice"},
		{"a malformed one", []string{"--store", "postgres://ann:secret@h/x"}, "a: "},
		{"no address", []string{"--store", "a="}, "--store is not NAME=postgres://"},
		{"no name", []string{"--store", "=" + one}, "--store is not NAME=postgres://"},
		{"an empty variable", []string{"--store", "a=env:NO_SUCH_VARIABLE"}, "the variable NO_SUCH_VARIABLE is empty"},
		{"two ways", []string{"--store", "a=" + one, "--database", two}, "--database or --store, not both"},
		{"a port in use", []string{"--store", "a=" + one, "--listen", "127.0.0.1:1x"}, "--listen"},
		{"strangers", []string{"--store", "a=" + one, "--listen", "0.0.0.0:0"}, "can be reached from other machines"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if tt.name == "a malformed one" {
				tt.want = "NAME=postgres://"
			}
			r := on(t, "", append([]string{"console"}, tt.args...)...).requireCode(t, 2)
			require.Empty(t, r.stdout)
			require.Contains(t, r.stderr, tt.want)
			require.NotContains(t, r.stderr, "secret")
		})
	}
}

// A page of another site can make its own name lead to this machine. It gets nothing, even with the cookie.
func TestConsole_foreignName(t *testing.T) {
	t.Parallel()
	s := serveConsole(t, database(t))
	v := newVisitor(t, s.base)
	v.get(strings.TrimPrefix(s.out.URL, s.base)).requireStatus(http.StatusOK)
	for host, want := range map[string]int{"": http.StatusOK, "localhost:8080": http.StatusOK, "evil.example": http.StatusMisdirectedRequest} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.base+"/", nil)
		require.NoError(t, err)
		req.Host = host
		v.do(req).requireStatus(want)
	}
	require.Equal(t, 0, s.stop(t))
}
