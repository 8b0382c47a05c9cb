package main_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server/pgtest"
)

type statusDoc struct {
	NeedsPerson bool `json:"needs_person"`
	Unreadable  int
	Stores      []struct {
		Store, Status, Error string
		Unknown, Quarantined *int64
		DeadLetters          *int64 `json:"dead_letters"`
		StuckSagas           *int64 `json:"stuck_sagas"`
		OldestKey            *int64 `json:"oldest_key_seconds"`
		OldestSaga           *int64 `json:"oldest_saga_seconds"`
	}
}

// One look over several databases: what needs a person decides the exit code, and what cannot be read is never calm.
func TestStatus(t *testing.T) {
	t.Parallel()
	const nowhere = "postgres://ann:secret@127.0.0.1:1/orders?connect_timeout=2"
	calm, busy, empty := database(t), database(t), pgtest.URL(t)
	require.Contains(t, on(t, calm, "status").requireCode(t, 0).stdout, "calm")

	unknownKeys(t, busy, "k-1", "k-2")
	stuckSagas(t, busy, "s-1")
	execute(t, busy, "update idempotency_attention set created_at = created_at - interval '2 h'")
	execute(t, busy, "update idempotency set created_at = created_at - interval '2 h'")
	execute(t, busy, "update saga set created_at = created_at - interval '3 days 1 h'")
	said := on(t, busy, "status").requireCode(t, 1).stdout
	require.Regexp(t, `2h\dm +3d1h`, said)
	require.Contains(t, said, "Type: fanonce keys list; fanonce saga list\n", "there is no dead letter")
	r := on(t, "", "status", "--json", "--store", "a="+calm, "--store", "b="+busy, "--store", "c="+nowhere, "--store", "d="+empty).requireCode(t, 1)
	doc := parse[statusDoc](t, r)
	require.True(t, doc.NeedsPerson)
	require.Equal(t, 2, doc.Unreadable)
	a, b, c, d := doc.Stores[0], doc.Stores[1], doc.Stores[2], doc.Stores[3]
	require.Equal(t, "calm", a.Status)
	require.Zero(t, *a.Unknown+*a.Quarantined+*a.DeadLetters+*a.StuckSagas)
	require.Equal(t, "needs a person", b.Status)
	require.EqualValues(t, 2, *b.Unknown)
	require.EqualValues(t, 1, *b.StuckSagas)
	require.InDelta(t, 2*3600, *b.OldestKey, 300)
	require.InDelta(t, 73*3600, *b.OldestSaga, 300)
	require.Nil(t, a.OldestKey, "there is none")
	require.Nil(t, a.OldestSaga)
	require.Equal(t, "unreadable", c.Status)
	require.Nil(t, c.Unknown, "a number of a database that could not be read")
	require.Nil(t, c.StuckSagas)
	require.Contains(t, c.Error, "cannot reach the database")
	require.NotContains(t, r.stdout+r.stderr, "secret")
	require.Equal(t, "unreadable", d.Status)
	require.Contains(t, d.Error, "no tables")

	r = on(t, "", "status", "--store", "a="+calm, "--store", "c="+nowhere).requireCode(t, 2)
	require.Contains(t, r.stdout, "unreadable")
	require.Contains(t, r.stderr, "1 of 2 databases could not be read")
}

// Tables of one component that cannot be read hide nothing of the other, and are not calm.
func TestStatus_oneComponentUnreadable(t *testing.T) {
	t.Parallel()
	url := database(t)
	execute(t, url, "drop table saga_result, saga cascade")
	doc := parse[statusDoc](t, on(t, url, "status", "--json").requireCode(t, 2))
	require.Equal(t, "unreadable", doc.Stores[0].Status)
	require.Zero(t, *doc.Stores[0].Unknown)
	require.Nil(t, doc.Stores[0].StuckSagas)
	unknownKeys(t, url, "k-1")
	doc = parse[statusDoc](t, on(t, url, "status", "--json").requireCode(t, 1))
	require.Equal(t, "needs a person", doc.Stores[0].Status)
	require.NotEmpty(t, doc.Stores[0].Error)
}

func TestVersion(t *testing.T) {
	t.Parallel()
	doc := parse[struct {
		Version, Commit, Go string
		Tables              map[string]int
	}](t, fanonce(t, "version", "--json").requireCode(t, 0))
	require.NotEmpty(t, doc.Version)
	require.Regexp(t, "^go1", doc.Go)
	require.Positive(t, doc.Tables["keys"])
	require.Positive(t, doc.Tables["sagas"])
	require.Contains(t, fanonce(t, "version").requireCode(t, 0).stdout, "fanonce "+doc.Version+"\n")
	require.Contains(t, fanonce(t, "--version").requireCode(t, 0).stdout, doc.Version)
}

// With --json an error is one JSON document on stderr, also that of a flag or a command that there is not.
func TestErrors_asJSON(t *testing.T) {
	t.Parallel()
	url := database(t)
	for _, tt := range []struct {
		args string
		code int
		want string
	}{
		{"key new --nope --json", 2, "unknown flag"},
		{"--json nope", 2, "no command"},
		{"keys show 6f1ed002-ab55-8a2c-9a51-0c6d5e4f3a2b --json", 1, "no key has the ID"},
		{"keys list --schema nowhere --json", 2, "missing"},
		{"status --json --database postgres://ann:secret@127.0.0.1:1/orders", 2, "could not be read"},
		{"keys forget --all --reason r --json --state dead-letter --count 7", 1, "0 match: --count is 7"},
	} {
		t.Run(tt.args, func(t *testing.T) {
			t.Parallel()
			r := on(t, url, strings.Fields(tt.args)...).requireCode(t, tt.code)
			var doc struct {
				Error    string `json:"error"`
				ExitCode int    `json:"exit_code"`
			}
			require.NoError(t, json.Unmarshal([]byte(r.stderr), &doc), r.stderr)
			require.Contains(t, doc.Error, tt.want)
			require.Equal(t, tt.code, doc.ExitCode)
			require.Equal(t, 1, strings.Count(r.stderr, "\n"))
		})
	}
	// What the document on stdout says already is not said twice.
	require.Empty(t, on(t, url, "migrate", "status", "--json", "--schema", "nowhere").requireCode(t, 1).stderr)
}
