package main_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// The beginning of an ID stands for it. One that several IDs have is refused, and they are listed.
func TestIDs_short(t *testing.T) {
	t.Parallel()
	url := database(t)
	ids := unknownKeys(t, url, "k-1", "k-2", "k-3")
	twins := []string{"abcdef00-0000-8000-8000-000000000001", "abcdef00-0000-8000-8000-000000000002"}
	for i, twin := range twins {
		execute(t, url, fmt.Sprintf("update idempotency set key = '%s' where key = '%s'", twin, ids[i]),
			fmt.Sprintf("update idempotency_attention set key = '%s' where key = '%s'", twin, ids[i]))
	}
	whole := ids[2]
	for _, short := range []string{whole, whole[:8], whole[:13], whole[:35], whole[:4]} {
		require.Contains(t, on(t, url, "keys", "show", short).requireCode(t, 0).stdout, whole)
	}
	for _, short := range []string{"abcd", "ABCDEF00", "abcdef00-0000", "abcdef000000"} {
		r := on(t, url, "keys", "show", short).requireCode(t, 1)
		require.Contains(t, r.stderr, "more than one ID of a key: "+twins[0]+", "+twins[1])
		require.Empty(t, r.stdout)
	}
	r := on(t, url, "keys", "resolve", "--as", "run-again", "--yes", "--reason", "r", whole, "abcd").requireCode(t, 1)
	require.Contains(t, r.stderr, twins[1])
	require.Len(t, parse[keyList](t, on(t, url, "keys", "list", "--json")).Keys, 3, "an ambiguous ID changed a key")
	require.Contains(t, on(t, url, "keys", "show", "0123456789").requireCode(t, 1).stderr, "no key has an ID that begins with 0123456789")
	for _, bad := range []string{"abc", "abcd-ef", "abcdefgh", whole + "0", "abcdef00_0000"} {
		require.Contains(t, on(t, url, "keys", "show", bad).requireCode(t, 2).stderr, "is no ID")
	}

	// A verb says what became of each key. An ID that is named twice is changed once.
	done := parse[verdict](t, on(t, url, "keys", "resolve", "--as", "run-again", "--yes", "--reason", "r", "--json", whole[:9], whole).requireCode(t, 0))
	require.Equal(t, 1, done.Done)
	require.Equal(t, whole, done.Changed[0].ID)
	require.Equal(t, []string{"unknown", "released"}, []string{done.Changed[0].From, done.Changed[0].To})
	require.EqualValues(t, 2, done.Changed[0].Fence)
	said := on(t, url, "keys", "forget", "--yes", "--reason", "r", whole[:12]).requireCode(t, 0).stdout
	require.Contains(t, said, whole+": was released, is forgotten\n")
	require.NotEmpty(t, parse[auditLog](t, on(t, url, "keys", "audit", "--json", whole[:12]).requireCode(t, 0)).Audit, "the log outlives the key")

	sagas := stuckSagas(t, url, "s-1")
	require.Contains(t, on(t, url, "saga", "show", sagas[0][:10]).requireCode(t, 0).stdout, sagas[0])
	said = on(t, url, "saga", "abandon", "--yes", "--reason", "r", sagas[0][:10]).requireCode(t, 0).stdout
	require.Contains(t, said, sagas[0]+": was stuck, is abandoned\n")
	require.NotEmpty(t, parse[auditLog](t, on(t, url, "saga", "audit", "--json", sagas[0][:10]).requireCode(t, 0)).Audit)
}

// Who changes all that match says how many these are. A "yes" is not enough where nothing can be taken back.
func TestVerbs_countOfAll(t *testing.T) {
	t.Parallel()
	url := database(t)
	unknownKeys(t, url, "k-1", "k-2")
	stuckSagas(t, url, "s-1")
	forget := []string{"keys", "forget", "--all", "--reason", "r"}
	require.Contains(t, on(t, url, append(forget, "--yes")...).requireCode(t, 2).stderr, "add --count")
	require.Contains(t, on(t, url, append(forget, "--yes", "--count", "3")...).requireCode(t, 1).stderr, "2 match: --count is 3; nothing was changed")
	require.Contains(t, on(t, url, append(forget, "--count", "-1")...).requireCode(t, 2).stderr, "--count -1 needs --all")
	require.Len(t, parse[keyList](t, on(t, url, "keys", "list", "--json")).Keys, 2)
	on(t, url, append(forget, "--count", "2")...).requireCode(t, 0)
	require.Contains(t, on(t, url, "saga", "cancel", "--all", "--yes", "--reason", "r").requireCode(t, 2).stderr, "add --count")
	on(t, url, "saga", "retry", "--all", "--yes", "--reason", "r").requireCode(t, 0)
	require.Contains(t, on(t, url, "saga", "retry", "--count", "1", "--reason", "r", "6f1ed002-ab55-8a2c-9a51-0c6d5e4f3a2b").requireCode(t, 2).stderr, "needs --all")
}
