package main_test

import (
	"bufio"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgtest"
	"github.com/fanonce/fanonce/server/store"
)

// database makes a database with the tables of all components.
func database(t *testing.T) string {
	t.Helper()
	return pgtest.NewPool(t, everything).Config().ConnString()
}

type keyList struct {
	Keys []map[string]any
	Next string
}

type verdict struct {
	Verb, Actor   string
	DryRun        bool `json:"dry_run"`
	Matched, Done int
	Refused       []string
	Changed       []struct {
		ID, From, To string
		Fence        int64
	}
}

type auditLog struct {
	Audit []struct {
		At, ID, Verb, Step, Actor, Reason, From, To string
		Fence                                       int64
	}
}

func TestKeys(t *testing.T) {
	t.Parallel()
	url := database(t)
	ids := unknownKeys(t, url, "order-41", "order-42", "order-43")
	var listed []string
	for after := ""; ; {
		page := parse[keyList](t, on(t, url, "keys", "list", "--json", "--limit", "2", "--after", after).requireCode(t, 0))
		for _, key := range page.Keys {
			require.Equal(t, "unknown", key["state"])
			require.Equal(t, "shop:charge", key["route"])
			listed = append(listed, text(key["id"]))
		}
		if after = page.Next; after == "" {
			break
		}
	}
	require.ElementsMatch(t, ids, listed)
	require.Empty(t, parse[keyList](t, on(t, url, "keys", "list", "--json", "--state", "quarantined").requireCode(t, 0)).Keys)

	resolve := []string{"keys", "resolve", "--as", "never-happened", "--reason", "not in the portal", "--json"}
	dry := parse[verdict](t, on(t, url, append(resolve, "--dry-run", "--all")...).requireCode(t, 0))
	require.Equal(t, verdict{Verb: "resolve", Actor: dry.Actor, DryRun: true, Matched: 3, Refused: []string{}, Changed: dry.Changed}, dry)
	require.Empty(t, dry.Changed)
	require.Regexp(t, "^ann@.", dry.Actor)
	foreseen := parse[verdict](t, on(t, url, append(resolve, "--dry-run", "--fence", "7", ids[0])...).requireCode(t, 1))
	require.Contains(t, foreseen.Refused[0], "has moved on: it is unknown, with fence 1")
	r := on(t, url, append(resolve, ids[0])...).requireCode(t, 2)
	require.Contains(t, r.stderr, "add --yes")
	r = on(t, url, append(resolve, "--yes", "--fence", "7", ids[0])...).requireCode(t, 1)
	require.Len(t, parse[verdict](t, r).Refused, 1)
	require.Len(t, parse[keyList](t, on(t, url, "keys", "list", "--json")).Keys, 3, "a refused or unconfirmed verb changed a key")

	done := parse[verdict](t, on(t, url, append(resolve, "--yes", "--actor", "bob", ids[0])...).requireCode(t, 0))
	require.Equal(t, 1, done.Done)
	shown := parse[struct {
		Key   map[string]any
		Audit []map[string]any
	}](t, on(t, url, "keys", "show", ids[0], "--json").requireCode(t, 0))
	require.Equal(t, "released", shown.Key["state"])
	require.Equal(t, "bob", shown.Audit[0]["actor"])
	r = on(t, url, "keys", "resolve", "--as", "run-again", "--dry-run", "--reason", "r", ids[0], ids[1]).requireCode(t, 1)
	require.Contains(t, r.stdout, "refused "+ids[0]+": server: key "+ids[0]+" has moved on: it is released")
	require.Contains(t, r.stdout, "would resolve 1 of 2; nothing was changed")
	on(t, url, "keys", "forget", "--dry-run", "--reason", "r", ids[0]).requireCode(t, 0)
	done = parse[verdict](t, on(t, url, append(resolve, "--count", "2", "--all", "--route", "shop:charge")...).requireCode(t, 0))
	require.Equal(t, 2, done.Done)
	forgotten := parse[verdict](t, on(t, url, "keys", "forget", "--yes", "--reason", "a test", "--json", ids[1]).requireCode(t, 0))
	require.Equal(t, 1, forgotten.Done)
	require.Contains(t, on(t, url, "keys", "show", ids[1]).requireCode(t, 1).stderr, "no key has the ID")
	log := parse[auditLog](t, on(t, url, "keys", "audit", "--json").requireCode(t, 0)).Audit
	require.Len(t, log, 4)
	require.Equal(t, "forget", log[0].Verb)
	require.Empty(t, log[0].To)
	for _, command := range [][]string{{"keys", "show", ids[0]}, {"keys", "audit"}, {"keys", "list"}} {
		out := on(t, url, command...).requireCode(t, 0).stdout
		require.NotContains(t, out, secret)
		require.NotContains(t, out, "order-4")
	}
}

// Stored text is printed without the characters that steer a terminal.
func TestKeysList_steeringText(t *testing.T) {
	t.Parallel()
	url := database(t)
	unknownKeys(t, url, "order-41")
	execute(t, url, `update idempotency set route = E'\x1b[2Jcharge'`)
	listed := on(t, url, "keys", "list").requireCode(t, 0).stdout
	require.NotContains(t, listed, "\x1b")
	require.Contains(t, listed, "[2Jcharge")
}

func TestSaga(t *testing.T) {
	t.Parallel()
	url := database(t)
	ids := stuckSagas(t, url, "s-1", "s-2")
	type sagas struct {
		Sagas []map[string]any
		Next  string
	}
	list := parse[sagas](t, on(t, url, "saga", "list", "--json", "--name", "fragile").requireCode(t, 0))
	require.Len(t, list.Sagas, 2)
	require.Equal(t, "shipping.book", list.Sagas[0]["stuck_on"])
	page := parse[sagas](t, on(t, url, "saga", "list", "--json", "--limit", "1"))
	require.NotEqual(t, page.Sagas[0]["id"], parse[sagas](t, on(t, url, "saga", "list", "--json", "--limit", "1", "--after", page.Next)).Sagas[0]["id"])

	dry := parse[verdict](t, on(t, url, "saga", "abandon", "--all", "--dry-run", "--reason", "r", "--json").requireCode(t, 0))
	require.Equal(t, 2, dry.Matched)
	require.Len(t, parse[sagas](t, on(t, url, "saga", "list", "--json")).Sagas, 2, "a dry run changed a saga")
	on(t, url, "saga", "retry", "--reason", "the carrier is back", ids[0]).requireCode(t, 2)
	on(t, url, "saga", "retry", "--reason", "the carrier is back", "--yes", ids[0]).requireCode(t, 0)
	again := parse[verdict](t, on(t, url, "saga", "retry", "--reason", "again", "--yes", "--json", ids[0]).requireCode(t, 1))
	require.Len(t, again.Refused, 1)
	r := on(t, url, "saga", "retry", "--dry-run", "--reason", "r", ids[0], ids[1]).requireCode(t, 1)
	require.Contains(t, r.stdout, "refused "+ids[0]+": it is running")
	require.Regexp(t, "\nwhy: shipping.book Rejected: .*no such address\n", on(t, url, "saga", "show", ids[1]).stdout)
	on(t, url, "saga", "abandon", "--reason", "done by hand", "--count", "1", "--all").requireCode(t, 0)
	on(t, url, "saga", "retry-now", "--reason", "nothing waits", "--yes", ids[1]).requireCode(t, 1)

	shown := parse[struct {
		Saga                 map[string]any
		Awaits, Steps, Audit []map[string]any
	}](t, on(t, url, "saga", "show", "--json", ids[1]).requireCode(t, 0))
	require.Equal(t, "abandoned", shown.Saga["status"])
	require.Equal(t, "shipping.book", shown.Steps[0]["step"])
	require.Equal(t, "done by hand", shown.Audit[0]["reason"])
	require.Len(t, parse[auditLog](t, on(t, url, "saga", "audit", "--json").requireCode(t, 0)).Audit, 2)
	on(t, url, "saga", "show", "6f1ed002-ab55-8a2c-9a51-0c6d5e4f3a2b").requireCode(t, 1)
	require.Contains(t, on(t, url, "saga", "show", ids[1]).requireCode(t, 0).stdout, "abandoned")
}

// A person states an answer, and the service's own guard replays it. A key of a guard that seals is refused.
func TestKeysResolve_happened(t *testing.T) {
	t.Parallel()
	url := database(t)
	id := unknownKeys(t, url, "k-1")[0]
	happened := func(id, body string) call {
		return call{database: url, stdin: body, args: []string{
			"keys", "resolve", "--as", "happened", "--plain", "--status", "201", "--body-file", "-", "--reason", "the bank has it", "--retention", "72h", "--yes", id,
		}}
	}
	dry := happened(id, `{"receipt":7}`)
	dry.args = append(dry.args, "--dry-run")
	require.Contains(t, dry.run(t).requireCode(t, 0).stdout, "would resolve 1 of 1")
	happened(id, `{"receipt":7}`).run(t).requireCode(t, 0)
	w := charge(t, charges(t, url, server.Config{}), "k-1")
	require.Equal(t, http.StatusCreated, w.Code)
	require.Equal(t, "true", w.Header().Get(wire.HeaderReplayed))
	require.Equal(t, "application/json", w.Header().Get("Content-Type"))
	require.JSONEq(t, `{"receipt":7}`, w.Body.String())
	var kept bool
	require.NoError(t, dial(t, url).QueryRow(t.Context(), "select replay_until > clock_timestamp() + interval '71 hours' from idempotency").Scan(&kept))
	require.True(t, kept, "as long as --retention says")
	happened(id, "").run(t).requireCode(t, 1) // it is settled

	codec, err := server.NewAESGCM(server.AESKey{ID: "a", Secret: make(server.Secret, server.AESKeyBytes)})
	require.NoError(t, err)
	require.Equal(t, http.StatusInternalServerError, charge(t, charges(t, url, server.Config{Codec: codec}), "k-2").Code)
	sealed := store.NewID(tenant, namespace, childkey.MustParse("k-2")).String()
	for _, dry := range []bool{true, false} {
		c := happened(sealed, "paid")
		if dry {
			c.args = append(c.args, "--dry-run")
		}
		require.Contains(t, c.run(t).requireCode(t, 1).stdout, "has a sealed memo")
	}
	require.Contains(t, on(t, url, "keys", "show", sealed).stdout, "unknown")
}

// A list has sagas of any status, pages through them by keyset, and says how to make the index that it needs.
func TestSagaList(t *testing.T) {
	t.Parallel()
	url := database(t)
	stuck := stuckSagas(t, url, "s-1", "s-2", "s-3")
	back := stuckOf(t, url, halfway, "h-1")[0]
	on(t, url, "saga", "abandon", "--reason", "done by hand", "--yes", stuck[0]).requireCode(t, 0)
	ids := func(args ...string) (found []string, next string) {
		t.Helper()
		list := parse[struct {
			Sagas []map[string]any
			Next  string
		}](t, on(t, url, append([]string{"saga", "list", "--json"}, args...)...).requireCode(t, 0))
		for _, s := range list.Sagas {
			found = append(found, s["id"].(string)) //nolint:forcetypeassert // else the test fails
		}
		return found, list.Next
	}
	all, _ := ids()
	require.Equal(t, []string{back, stuck[2], stuck[1]}, all, "stuck ones, the youngest first")
	byStep, _ := ids("--step", "shipping.book")
	require.Equal(t, []string{stuck[2], stuck[1]}, byStep)
	old, _ := ids("--until", "1h")
	require.Empty(t, old)

	r := on(t, url, "saga", "list", "--status", "abandoned").requireCode(t, 2)
	require.Contains(t, r.stderr, "fanonce migrate up --component reader")
	on(t, url, "migrate", "up", "--component", "reader").requireCode(t, 0)
	gone, _ := ids("--status", "abandoned,completed")
	require.Equal(t, stuck[:1], gone)
	var paged []string
	for next, page := "", []string(nil); ; paged = append(paged, page...) {
		if page, next = ids("--status", "any", "--since", "2h", "--limit", "1", "--after", next); len(page) == 0 {
			break
		}
	}
	require.Equal(t, []string{back, stuck[2], stuck[1], stuck[0]}, paged)
	young, _ := ids("--status", "any", "--since", "1ns")
	require.Empty(t, young)
	require.Contains(t, on(t, url, "saga", "list").requireCode(t, 0).stdout, "undo of stock.hold")
}

// The verbs that must know the plan read it in the journal.
func TestSaga_byPlan(t *testing.T) {
	t.Parallel()
	url := database(t)
	stuck := stuckOf(t, url, halfway, "h-1", "h-2")
	forward := stuckSagas(t, url, "s-1")[0]
	begun := startedOf(t, url, halfway, "h-3")
	yes := []string{"--yes", "--reason", "freed by hand", "--json"}
	move := func(code int, args ...string) verdict {
		return parse[verdict](t, on(t, url, append(append([]string{"saga"}, args...), yes...)...).requireCode(t, code))
	}
	require.Equal(t, 1, move(0, "cancel", begun).Done)
	require.Contains(t, move(1, "cancel", begun).Refused[0], "undone already")
	require.Contains(t, move(1, "cancel", "--dry-run", stuck[0]).Refused[0], "it is stuck")
	for _, tt := range []struct {
		verb, step, id, want string
	}{
		{"force-undone", "no.step", stuck[0], "no.step"},
		{"force-undone", "shipping.book", forward, "can be forced"},
		{"force-rejected", "stock.hold", stuck[0], "stock.hold completed"},
	} {
		refused := move(1, tt.verb, "--step", tt.step, tt.id).Refused
		require.Contains(t, refused[0], tt.want)
		require.Equal(t, refused, move(1, tt.verb, "--step", tt.step, "--dry-run", tt.id).Refused, "a dry run refuses the same")
	}
	// --all means those that are stuck on the step.
	require.Equal(t, 2, move(0, "force-undone", "--step", "stock.hold", "--all", "--dry-run").Matched)
	require.Equal(t, 2, move(0, "force-undone", "--step", "stock.hold", "--all", "--count", "2").Done)
	require.Equal(t, 0, move(0, "force-undone", "--step", "stock.hold", "--all").Matched)
	log := parse[auditLog](t, on(t, url, "saga", "audit", stuck[1], "--json").requireCode(t, 0)).Audit
	require.Equal(t, "stock.hold", log[0].Step)
	require.Equal(t, "compensating", log[0].To)
}

// Keys of any state are listed within a time, and the children of a key, by the optional indexes.
func TestKeysList_byTime(t *testing.T) {
	t.Parallel()
	url := database(t)
	unknown := unknownKeys(t, url, "order-41")[0]
	execute(t, url, records("5", "1 day"), "update idempotency set created_at = now() - interval '2 hours' where ctid in (select ctid from idempotency where state = 2 limit 1)",
		"update idempotency set parent = '"+unknown+"' where ctid in (select ctid from idempotency where state = 2 and created_at > now() - interval '1 hour' limit 2)")
	for _, args := range [][]string{{"keys", "list", "--state", "completed"}, {"keys", "list", "--since", "1m"}, {"keys", "children", unknown}} {
		require.Contains(t, on(t, url, args...).requireCode(t, 2).stderr, "fanonce migrate up --component reader")
	}
	on(t, url, "migrate", "up", "--component", "reader").requireCode(t, 0)
	list := func(args ...string) keyList {
		return parse[keyList](t, on(t, url, append(append([]string{"keys"}, args...), "--json")...).requireCode(t, 0))
	}
	require.Len(t, list("list", "--state", "completed").Keys, 4)
	require.Len(t, list("list", "--state", "any", "--since", "3h").Keys, 6)
	require.Len(t, list("list", "--since", "1h").Keys, 1)
	require.Empty(t, list("list", "--state", "cancelled").Keys)
	require.Len(t, list("list", "--state", "any", "--route", "shop:charge").Keys, 1)
	require.Len(t, list("children", unknown).Keys, 2)
	require.Empty(t, list("children", "6f1ed002-ab55-8a2c-9a51-0c6d5e4f3a2b").Keys)
	first := list("list", "--state", "completed", "--limit", "3")
	require.Len(t, first.Keys, 3)
	require.Len(t, list("list", "--state", "completed", "--limit", "3", "--after", first.Next).Keys, 1)
	page := list("children", unknown, "--limit", "1")
	require.Len(t, list("children", unknown, "--limit", "1", "--after", page.Next).Keys, 1)
}

// The rights of an observer are enough for the commands that only look.
func TestLists_asObserver(t *testing.T) {
	t.Parallel()
	address := database(t)
	id, stuck := unknownKeys(t, address, "order-41")[0], stuckSagas(t, address, "s-1")[0]
	on(t, address, "migrate", "up", "--component", "reader").requireCode(t, 0)
	execute(t, address, fanonce(t, "migrate", "print", "--component", "keys", "--from", "2", "--roles").stdout,
		fanonce(t, "migrate", "print", "--component", "sagas", "--from", "3", "--roles").stdout,
		"create role looker login password 'looker' in role fanonce_observer")
	u, err := url.Parse(address)
	require.NoError(t, err)
	u.User = url.UserPassword("looker", "looker")
	for _, args := range [][]string{
		{"keys", "list"}, {"keys", "list", "--state", "any"}, {"keys", "show", id}, {"keys", "children", id}, {"keys", "audit"}, {"keys", "audit", "--actor", "ann"},
		{"saga", "list"}, {"saga", "list", "--status", "any"}, {"saga", "audit"}, {"saga", "audit", "--actor", "ann"},
	} {
		on(t, u.String(), args...).requireCode(t, 0)
	}
	on(t, u.String(), "keys", "forget", "--yes", "--reason", "r", id).requireCode(t, 2)
	for _, args := range [][]string{{"saga", "list", "--step", "s"}, {"saga", "show", stuck}} {
		require.Regexp(t, "needs? the rights of (the runtime role|fanonce_runtime)", on(t, u.String(), args...).requireCode(t, 2).stderr)
	}
	execute(t, address, "drop role looker")
}

type swept struct {
	Components []struct {
		Component        string
		Deleted, Expired int
	}
	DryRun bool `json:"dry_run"`
}

func TestSweep(t *testing.T) {
	t.Parallel()
	url := database(t)
	execute(t, url, records("2500", "-1 minute"), records("10", "1 hour"),
		"update idempotency set state = 1, effect = 3, fingerprint = sha256('x'), lease_until = now() - interval '1 minute' where key = (select key from idempotency where expires_at > now() limit 1)")
	on(t, url, "status").requireCode(t, 0)
	dry := parse[swept](t, on(t, url, "sweep", "--dry-run", "--json").requireCode(t, 0))
	require.Equal(t, 2500, dry.Components[0].Expired)
	require.Equal(t, 2500, parse[swept](t, on(t, url, "sweep", "--json").requireCode(t, 0)).Components[0].Deleted)
	golden(t, "sweep.txt", on(t, url, "sweep").requireCode(t, 0).stdout)
	var left int
	require.NoError(t, dial(t, url).QueryRow(t.Context(), "select count(*) from idempotency").Scan(&left))
	require.Equal(t, 10, left)
	on(t, url, "status").requireCode(t, 1) // of an Opaque run whose process died, and for which nobody asks
}

// requireWaiting returns once a session of the database waits for a lock.
func requireWaiting(t *testing.T, url string) {
	t.Helper()
	watch := dial(t, url)
	require.Eventually(t, func() bool {
		var waits int
		err := watch.QueryRow(t.Context(), "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()").Scan(&waits)
		return err == nil && waits > 0
	}, patience, time.Millisecond)
}

// interrupt starts the program, which meets a lock of holder, sends SIGINT, and ends the lock once the process knows of
// the signal. It returns the output, and the rest of stderr.
func interrupt(t *testing.T, url, lock string, args ...string) (out result, last string) {
	t.Helper()
	holder := hold(t, url, lock)
	cmd, stdout, _ := call{database: url, args: args}.command(t.Context())
	cmd.Stderr = nil
	pipe, err := cmd.StderrPipe()
	require.NoError(t, err)
	stderr := bufio.NewReader(pipe)
	require.NoError(t, cmd.Start())
	requireWaiting(t, url)
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	line, err := stderr.ReadString('\n')
	require.NoError(t, err)
	require.Contains(t, line, "ending what runs")
	_, err = holder.Exec(t.Context(), "commit")
	require.NoError(t, err)
	rest, err := io.ReadAll(stderr)
	require.NoError(t, err)
	var exit *exec.ExitError
	require.ErrorAs(t, cmd.Wait(), &exit)
	require.Equal(t, 130, exit.ExitCode())
	return result{code: exit.ExitCode(), stdout: stdout.String()}, string(rest)
}

// An interrupt in the middle of a batch lets that batch end, begins no other, and says what was deleted.
func TestSweep_interrupted(t *testing.T) {
	t.Parallel()
	url := database(t)
	execute(t, url, records("2500", "-1 minute"))
	out, last := interrupt(t, url, "lock table idempotency in share mode", "sweep", "--json", "--component", "keys")
	require.Contains(t, last, "interrupted: what the table counts is deleted")
	require.Equal(t, 1000, parse[swept](t, out).Components[0].Deleted)
	var left int
	require.NoError(t, dial(t, url).QueryRow(t.Context(), "select count(*) from idempotency").Scan(&left))
	require.Equal(t, 1500, left)
}

// An interrupt of a verb on many keys lets the running change end, and says how many are done.
func TestKeysResolve_interrupted(t *testing.T) {
	t.Parallel()
	url := database(t)
	unknownKeys(t, url, "k-1", "k-2", "k-3")
	out, last := interrupt(t, url, "lock table idempotency in share mode",
		"keys", "resolve", "--as", "run-again", "--all", "--count", "3", "--reason", "a test", "--json")
	require.Equal(t, 1, parse[verdict](t, out).Done)
	require.Contains(t, last, "interrupted: resolve is done for 1 of 3")
	require.Len(t, parse[keyList](t, on(t, url, "keys", "list", "--json")).Keys, 2)
}
