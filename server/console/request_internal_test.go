package console

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server/console/internal/tree"
	"github.com/fanonce/fanonce/server/store"
)

// A caller's bar is around those of its calls, as far as the records tell.
func TestHop_surround(t *testing.T) {
	t.Parallel()
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	node := func(start, end int, ending tree.Ending, children ...*hop) *hop {
		return &hop{Node: &tree.Node{Start: at(start), End: at(end), Ending: ending}, Children: children}
	}
	vague := node(1, 31, tree.EndBy)
	long := node(2, 50, tree.EndRunning)
	caller := node(0, 10, tree.EndSettled, vague, long)
	caller.surround()
	require.Equal(t, at(10), caller.End, "a known end stays")
	require.Equal(t, at(10), vague.End)
	require.Equal(t, at(50), long.End)

	settled := node(1, 31, tree.EndSettled)
	caller = node(0, 10, tree.EndBy, settled, node(20, 40, tree.EndBy))
	caller.surround()
	require.Equal(t, at(31), caller.End)

	caller = node(0, 10, tree.EndDead, node(20, 40, tree.EndSettled))
	caller.surround()
	require.Equal(t, at(40), caller.End, "it died at some time before")

	caller = node(0, 10, tree.EndSettled)
	require.Equal(t, at(10), node(2, 50, tree.EndSettled).endWithin(caller), "a bar ends with its caller's")
	require.Equal(t, at(30), node(20, 50, tree.EndSettled).endWithin(caller), "a bar is not longer than its caller's")
	require.Equal(t, at(23), node(20, 23, tree.EndSettled).endWithin(caller))
	require.Equal(t, at(50), node(20, 50, tree.EndSettled).endWithin(nil))
}

// An owner that died is marked as a need only where nobody knows what it did.
func TestKeyRow_lost(t *testing.T) {
	t.Parallel()
	now := time.Unix(100, 0)
	row := keyRow{Record: store.Record{State: store.StateInProgress, Effect: store.Opaque, LeaseUntil: now, Now: now}}
	require.True(t, row.Dead() && row.Lost())
	row.Effect = store.Keyed
	require.True(t, row.Dead() && !row.Lost())
	row.Effect, row.LeaseUntil = store.Opaque, now.Add(time.Second)
	require.False(t, row.Lost(), "it lives")
}

// A batch wants its number typed with every verb for many that can do harm, as the command fanonce does.
func TestJob_wantsCount(t *testing.T) {
	t.Parallel()
	lists := make(map[string]verb)
	for _, state := range append(stateNames, stateDeadLetter) {
		for _, v := range keyListVerbs(state) {
			lists[kindKey+" "+v.Name] = v
		}
	}
	for _, status := range statusNames {
		for _, v := range sagaListVerbs(status) {
			lists[kindSaga+" "+v.Name] = v
		}
	}
	want := map[string]bool{
		"key run-again": true, "key never-happened": true, "key abandon": true, "key forget": true,
		"saga retry": false, "saga retry-now": false, "saga cancel": true, "saga abandon": true,
	}
	got := make(map[string]bool)
	for name, v := range lists {
		j := &job{Total: 3}
		got[name] = j.wantsCount(v)
		require.Equal(t, got[name], j.checkCount(v, "2") != nil, name)
		require.NoError(t, j.checkCount(v, "3"), name)
	}
	require.Equal(t, want, got)
}
