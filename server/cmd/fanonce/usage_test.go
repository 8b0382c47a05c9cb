package main_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each bad input gets one clear line on stderr, nothing on stdout, and the code 2.
func TestUsage(t *testing.T) {
	t.Parallel()
	const nowhere = "postgres://ann:secret@127.0.0.1:1/orders?connect_timeout=2"
	for _, tt := range []struct {
		name     string
		database string
		args     string
		want     string
	}{
		{"no such command", "", "nope", `fanonce has no command "nope"`},
		{"no such command of a group", "", "key nope", `fanonce key has no command "nope"`},
		{"a command with a slip", "", "kyes list", `fanonce has no command "kyes"; did you mean key or keys?`},
		{"a command of a group with a slip", "", "saga lst", `fanonce saga has no command "lst"; did you mean list?`},
		{"a shell that is none", "", "completion tcsh", `fanonce completion has no command "tcsh"`},
		{"no such flag", "", "key new --nope", "unknown flag: --nope"},
		{"a flag without its value", "", "key new --count", "flag needs an argument"},
		{"no number", "", "key new --count many", `invalid argument "many"`},
		{"too many keys", "", "key new --count 10001", "not between 1 and 10000"},
		{"no keys", "", "key new --count 0", "not between 1 and 10000"},
		{"arguments too few", "", "key derive parent service", "the number of arguments is 2: usage is fanonce key derive PARENT"},
		{"arguments too many", "", "key new x", "the number of arguments is 1"},
		{"verify with half a call", "", "key verify k parent service", "the number of arguments is 3"},
		{"no key", "", `key derive a,b service operation`, "PARENT: childkey: bad key"},
		{"no service", "", "key derive parent a:b operation", "childkey"},
		{"encoding", "", "key derive parent service operation --encoding rot13", `--encoding "rot13" is none of hex32`},
		{"legacy with more", "", "key derive parent service operation one --legacy", "--legacy takes neither"},
		{"namespace alone", "", "key derive parent service operation --namespace shop", "--namespace needs --scope"},
		{"two from stdin", "", "key verify - - service operation", `only one argument can be "-"`},
		{"no database", "", "migrate status", "no database: set DATABASE_URL"},
		{"no address", "postgres://ann:se%zzcret@h:port/x", "migrate status", "the database's address is malformed"},
		{"no server", nowhere, "migrate status", "cannot reach the database"},
		{"schema", nowhere, "migrate status --schema pg_x", `--schema "pg_x" is not a name`},
		{"quoted schema", nowhere, "migrate status --schema a\"b", "is not a name"},
		{"timeout", nowhere, "migrate status --timeout 0s", "--timeout 0s is not between"},
		{"component", nowhere, "migrate up --component nope", `--component "nope" is none of keys, sagas, reader`},
		{"wait", nowhere, "migrate up --wait -1s", "--wait -1s is not positive"},
		{"ID", nowhere, "keys show nope", `"nope" is no ID`},
		{"no decision", nowhere, "keys resolve --all --reason r", `--as "" is none of`},
		{"happened without plain", nowhere, "keys resolve --as happened --reason r --status 200 6f1ed002-ab55-8a2c-9a51-0c6d5e4f3a2b", "--as happened needs --plain"},
		{"happened without status", nowhere, "keys resolve --as happened --plain --reason r 6f1ed002-ab55-8a2c-9a51-0c6d5e4f3a2b", "--status 0 is not between"},
		{"happened to all", nowhere, "keys resolve --as happened --plain --status 200 --reason r --all", "settles one key"},
		{"a body of nothing", nowhere, "keys resolve --as happened --plain --status 204 --body-file f --reason r 6f1ed002-ab55-8a2c-9a51-0c6d5e4f3a2b", "has no body"},
		{"no such body", nowhere, "keys resolve --as happened --plain --status 200 --body-file none --reason r 6f1ed002-ab55-8a2c-9a51-0c6d5e4f3a2b", "--body-file: open none"},
		{"a type of nothing", nowhere, "keys resolve --as happened --plain --status 200 --content-type a/b --reason r 6f1ed002-ab55-8a2c-9a51-0c6d5e4f3a2b", "--content-type needs --body-file"},
		{"a retention that is too short", nowhere, "keys resolve --as happened --plain --status 200 --retention 1s --reason r 6f1ed002-ab55-8a2c-9a51-0c6d5e4f3a2b", "--retention 1s is not between"},
		{"retention of another decision", nowhere, "keys resolve --as run-again --retention 48h --reason r 6f1ed002-ab55-8a2c-9a51-0c6d5e4f3a2b", "need --as happened"},
		{"answer of another decision", nowhere, "keys resolve --as run-again --status 200 --reason r 6f1ed002-ab55-8a2c-9a51-0c6d5e4f3a2b", "need --as happened"},
		{"no reason", nowhere, "keys forget --all", "--reason has 0 bytes"},
		{"no actor", nowhere, "keys forget --all --reason r --actor=", "--actor has 0 bytes"},
		{"no reason of a dry run", nowhere, "keys forget --all --dry-run", "--reason has 0 bytes"},
		{"no actor of a dry run", nowhere, "saga retry --all --reason r --dry-run --actor=", "--actor has 0 bytes"},
		{"a reason that is no text", nowhere, "keys forget --all --reason \xff", "--reason has 1 bytes"},
		{"neither IDs nor all", nowhere, "keys forget --reason r", "name one ID or more, or give --all"},
		{"IDs and all", nowhere, "saga abandon --all --reason r 6f1ed002-ab55-8a2c-9a51-0c6d5e4f3a2b", "not both"},
		{"fence of many", nowhere, "keys forget --all --reason r --fence 1", "--fence is the fence of one key"},
		{"state", nowhere, "keys list --state done", `--state "done" is none of any, cancelled, completed`},
		{"state of a verb", nowhere, "keys forget --all --reason r --state completed", `--state "completed" is none of unknown`},
		{"time", nowhere, "keys list --since -1s", "--since -1s is not between"},
		{"time of dead letters", nowhere, "keys list --since 1h --state dead-letter", "--since is not for dead letters"},
		{"no step", nowhere, "saga force-undone --all --reason r", "--step is empty"},
		{"status", nowhere, "saga list --status done", `--status "done" is none of any, running`},
		{"no status", nowhere, "saga list --status=", "--status is empty"},
		{"status of a verb", nowhere, "saga retry --all --reason r --status completed", "finished sagas cannot be moved"},
		{"step of a status", nowhere, "saga list --status running --step s", "--step needs --status stuck"},
		{"window", nowhere, "saga list --since 1h --until 2h", "--since 1h0m0s must be longer than --until 2h0m0s"},
		{"window in the future", nowhere, "saga list --until -1s", "--until -1s is not between"},
		{"page", nowhere, "saga list --limit 0", "--limit 0 is not between"},
		{"place", nowhere, "keys list --after x", "--after is not where a page ended"},
		{"finding", nowhere, "doctor --ignore nope", `--ignore "nope" is no finding`},
		{"limit", nowhere, "doctor --long 0s", "must be positive"},
		{"from of many", "", "migrate print --from 1", "give one --component"},
		{"from too far", "", "migrate print --from 9 --component sagas", "sagas has the versions 0 to"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := call{database: tt.database, stdin: "k\n", args: strings.Fields(tt.args)}.run(t).requireCode(t, 2)
			require.Empty(t, r.stdout)
			require.Contains(t, r.stderr, tt.want)
			require.Equal(t, 1, strings.Count(r.stderr, "\n"), r.stderr)
			require.NotContains(t, r.stderr, "cret", "a password")
			require.LessOrEqual(t, strings.Count(r.stderr, "connection refused"), 1, r.stderr)
		})
	}
}

// Each command answers by its exit code as --help says it.
func TestExitCodes(t *testing.T) {
	t.Parallel()
	url := database(t)
	id := unknownKeys(t, url, "k-1")[0]
	stuck := stuckSagas(t, url, "s-1")[0]
	const nobody = "6f1ed002-ab55-8a2c-9a51-0c6d5e4f3a2b"
	yes := " --yes --reason r "
	for _, tt := range []struct {
		args string
		want int
	}{
		{"key new", 0},
		{"key verify k", 0},
		{"key verify a,b", 1},
		{"migrate status", 0},
		{"migrate up --dry-run", 0},
		{"migrate status --schema nowhere", 1},
		{"migrate up --schema nowhere", 2},
		{"doctor --component keys --schema nowhere", 1},
		{"doctor --list", 0},
		{"doctor --role nobody", 2},
		{"keys list", 0},
		{"keys list --schema nowhere", 2},
		{"keys show " + id, 0},
		{"keys show " + nobody, 1},
		{"keys resolve --as run-again --dry-run --reason r " + id, 0},
		{"keys resolve --as run-again --dry-run " + id, 2},
		{"keys resolve --as run-again" + yes + nobody, 1},
		{"keys forget --reason r " + id, 2}, // nobody can confirm
		{"keys forget" + yes + "--fence 9 " + id, 1},
		{"saga list", 0},
		{"saga show " + nobody, 1},
		{"saga retry --dry-run --reason r " + stuck, 0},
		{"saga retry-now" + yes + stuck, 1},
		{"saga list --status completed", 2},
		{"keys list --limit 1001", 2},
		{"sweep --dry-run", 0},
		{"sweep --timeout -1s", 2},
	} {
		t.Run(tt.args, func(t *testing.T) {
			t.Parallel()
			r := on(t, url, strings.Fields(tt.args)...).requireCode(t, tt.want)
			if tt.want == 2 {
				require.Empty(t, r.stdout)
				require.NotEmpty(t, r.stderr)
			}
		})
	}
}
