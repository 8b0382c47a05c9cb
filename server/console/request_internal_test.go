package console

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server/console/internal/tree"
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
}
