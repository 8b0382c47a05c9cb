//go:build unix

package browsertest_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/saga/pgjournal"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/pgtest"
	"github.com/fanonce/fanonce/server/store"
)

// A demo is examples/checkout as a process, with customers, a bad network, and a payment service in another process.
type demo struct {
	*testing.T
	cmd     *exec.Cmd
	folder  string // of its temporary files
	cluster *pgtest.Cluster
	stdout  said
	stderr  said
	ended   chan struct{} // closed when err is there
	err     error
}

// said is what a process has written so far.
type said struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write implements [io.Writer].
func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

// String implements [fmt.Stringer].
func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// startDemo starts the demo on a Postgres of its own.
func startDemo(t *testing.T) *demo {
	t.Helper()
	cluster, err := pgtest.Start(t.Context(), pgtest.Config{Private: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cluster.Stop()) })
	d := &demo{T: t, folder: t.TempDir(), cluster: cluster, ended: make(chan struct{})}
	d.cmd = exec.Command(buildDemo(t), "-serve", "-json", "-c=4")
	d.cmd.Env = append(os.Environ(), pgtest.EnvDatabaseURL+"="+cluster.URL(""), "TMPDIR="+d.folder, "STORE=")
	d.cmd.Stdout, d.cmd.Stderr = &d.stdout, &d.stderr
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // its processes are one group
	require.NoError(t, d.cmd.Start())
	go func() {
		d.err = d.cmd.Wait()
		close(d.ended)
	}()
	t.Cleanup(func() {
		select {
		case <-d.ended:
		default: // the test has failed before its signal
			_ = syscall.Kill(-d.cmd.Process.Pid, syscall.SIGKILL)
			<-d.ended
		}
	})
	return d
}

// buildDemo builds the demo as this test was built: with the race detector, or without it.
func buildDemo(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "checkout")
	args := []string{"build", "-o", path}
	if info, ok := debug.ReadBuildInfo(); ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		args = append(args, "-race")
	}
	cmd := exec.Command("go", append(args, "./examples/checkout")...)
	cmd.Dir = filepath.Join("..", "..", "..")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	return path
}

// find waits until the demo has written text that matches, and returns it.
func (d *demo) find(pattern *regexp.Regexp) (found string) {
	d.Helper()
	for end := time.Now().Add(2 * patience); found == ""; found = pattern.FindString(d.stderr.String()) {
		select {
		case <-d.ended:
			require.Fail(d, "the demo has ended", "%v\n%s", d.err, d.stderr.String())
		case <-time.After(10 * time.Millisecond):
			require.True(d, time.Now().Before(end), "the demo does not write %v\n%s", pattern, d.stderr.String())
		}
	}
	return found
}

var progress = regexp.MustCompile(`(\d+) accepted, (\d+) attempts on the wire, (\d+) faults, payment down (\d+) times`)

// traffic is how many orders were accepted, and how many faults the network had, by the last line of progress.
func (d *demo) traffic() (accepted, faults int) {
	d.Helper()
	lines := progress.FindAllStringSubmatch(d.stderr.String(), -1)
	require.NotEmpty(d, lines)
	accepted, _ = strconv.Atoi(lines[len(lines)-1][1]) // the pattern has digits alone
	faults, _ = strconv.Atoi(lines[len(lines)-1][3])
	return accepted, faults
}

// databases returns the names of the server's databases.
func (d *demo) databases() []string {
	d.Helper()
	names, err := databasesOf(d.Context(), d.cluster.URL(""))
	require.NoError(d, err)
	return names
}

// pool opens the database of a service.
func (d *demo) pool(service string) *pgxpool.Pool {
	d.Helper()
	names := slices.DeleteFunc(d.databases(), func(name string) bool { return !strings.HasSuffix(name, "_"+service) })
	require.Len(d, names, 1, "databases of %s", service)
	cfg, err := pgxpool.ParseConfig(d.cluster.URL(names[0]))
	require.NoError(d, err)
	pgstore.Prepare(cfg)
	pool, err := pgxpool.NewWithConfig(d.Context(), cfg)
	require.NoError(d, err)
	return pool
}

// end ends the demo by a signal, and checks that it leaves nothing. The demo must then have counted each effect once.
func (d *demo) end(signal syscall.Signal, databases []string) {
	d.Helper()
	require.NoError(d, d.cmd.Process.Signal(signal))
	select {
	case <-d.ended:
		require.NoError(d, d.err, d.stderr.String())
	case <-time.After(3 * patience):
		require.Fail(d, "the demo does not end", d.stderr.String())
	}
	var report struct{ OK bool }
	require.NoError(d, json.Unmarshal([]byte(d.stdout.String()), &report), d.stdout.String())
	require.True(d, report.OK, d.stdout.String())
	require.Eventually(d, func() bool { return errors.Is(syscall.Kill(-d.cmd.Process.Pid, 0), syscall.ESRCH) }, patience, 10*time.Millisecond, "a process is left")
	require.Equal(d, databases, d.databases(), "databases are left")
	left, err := os.ReadDir(d.folder)
	require.NoError(d, err)
	require.Empty(d, left, "files are left")
}

// The demo runs, with a key that is unknown and a saga that is stuck. A person finds and settles both from the
// overview. The databases then say so.
func TestDemo(t *testing.T) {
	t.Parallel()
	browser(t)
	d := startDemo(t)
	before := []string{"postgres", "template0", "template1"}
	address := d.find(regexp.MustCompile(`http://127\.0\.0\.1:\d+/\?secret=\w+`))
	d.find(regexp.MustCompile(`(?m)^[1-9]\d* accepted, \d+ attempts on the wire, [1-9]`))
	accepted, _ := d.traffic()

	b := openAt(t, strings.Split(address, "/?")[0], look{script: true})
	b.visit(address)
	saga := b.undoGift("the courier brought the parcel back")
	key := b.settleLabel("the label lies in the printer")
	require.LessOrEqual(t, b.clicks, 6, "clicks")
	b.quiet()

	ctx := context.Background()
	keys, sagas := d.pool("depot"), d.pool("checkout")
	requireLabel(ctx, t, keys, key)
	requireGift(ctx, t, sagas, saga)
	keys.Close()
	sagas.Close()
	b.requireAudited("depot", "resolve", "the label lies in the printer")
	b.requireAudited("sagas of checkout", "force-undone", "the courier brought the parcel back")

	require.Eventually(t, func() bool { now, _ := d.traffic(); return now > accepted }, patience, 10*time.Millisecond, "customers buy meanwhile")
	now, faults := d.traffic()
	t.Logf("%d orders were accepted meanwhile, with %d faults on the network; %d clicks", now-accepted, faults, b.clicks)
	require.NoError(t, chromedp.Cancel(b.ctx)) // the page would go on with asking
	d.end(syscall.SIGTERM, before)
}

// undoGift finds the stuck saga of the gift from the overview, and settles it. It returns the saga's ID.
func (t *tab) undoGift(reason string) journal.ID {
	t.Helper()
	t.click(`//*[@data-kind="stuck"][contains(., "gift")]//a[contains(@href, "/saga?")]`)
	require.Contains(t, t.main(), "undo of depot.pack Rejected: parcel-left", "the page says why")
	id := t.shown()
	t.click(button("Force undone"))
	require.Contains(t, t.main(), "1 saga", "the confirmation names the count")
	t.confirmed(reason)
	require.Eventually(t, func() bool { return strings.Contains(t.main(), "compensated") }, patience, 50*time.Millisecond, "the page shows the end by itself")
	return journal.ID(id)
}

// shown is the ID of the key or saga that the page shows.
func (t *tab) shown() store.ID {
	t.Helper()
	id, err := store.ParseID(eval[string](t, `new URL(location).searchParams.get("id")`))
	require.NoError(t, err)
	return id
}

// settleLabel finds the unknown key of the label from any page, and settles it. It returns the key's ID.
func (t *tab) settleLabel(reason string) store.ID {
	t.Helper()
	t.click(`//nav//a[@data-go="o"]`)
	id, err := store.ParseID(eval[string](t, `document.querySelector('[data-kind="unknown"] input[name="id"]').value`))
	require.NoError(t, err)
	t.click(`//*[@data-kind="unknown"][contains(., "/labels")]//button[contains(., "It happened")]`)
	require.Contains(t, t.main(), "1 key", "the confirmation names the count")
	t.do(chromedp.SetValue(`//*[@id="status"]`, "201"))
	t.confirmed(reason)
	require.Contains(t, t.main(), "completed")
	return id
}

func requireLabel(ctx context.Context, t *testing.T, pool *pgxpool.Pool, id store.ID) {
	t.Helper()
	keys, err := pgstore.NewReader(pool, pgstore.ReaderConfig{StatementTimeout: patience})
	require.NoError(t, err)
	rec, err := keys.Show(ctx, id)
	require.NoError(t, err)
	require.Equal(t, store.StateCompleted, rec.State)
	require.Equal(t, 201, rec.Answer.Status)
	lines, err := keys.AuditPage(ctx, store.AuditRequest{ID: id, Limit: 10})
	require.NoError(t, err)
	require.Len(t, lines, 1)
	require.Equal(t, "you: the label lies in the printer", lines[0].Actor+": "+lines[0].Reason)
}

func requireGift(ctx context.Context, t *testing.T, pool *pgxpool.Pool, id journal.ID) {
	t.Helper()
	sagas, err := pgjournal.NewReader(pool, pgjournal.ReaderConfig{StatementTimeout: patience})
	require.NoError(t, err)
	rec, err := sagas.Show(ctx, id)
	require.NoError(t, err)
	require.Equal(t, "gift", rec.Name)
	require.Equal(t, journal.Compensated, rec.Status)
	lines, err := sagas.AuditPage(ctx, journal.AuditRequest{ID: id, Limit: 10})
	require.NoError(t, err)
	require.Len(t, lines, 1)
	require.Equal(t, "you: the courier brought the parcel back", lines[0].Actor+": "+lines[0].Reason)
}

// requireAudited checks that the audit page of a source has one line with that verb and reason of the demo's user.
func (t *tab) requireAudited(source, verb, reason string) {
	t.Helper()
	t.visit("/audit?" + url.Values{"in": {source}, "actor": {"you"}}.Encode())
	line := `//main//tbody/tr[contains(., "` + verb + `")][contains(., "you")][contains(., "` + reason + `")]`
	require.Equal(t, 1, eval[int](t, "document.evaluate(`count("+line+")`, document).numberValue"), t.main())
}
