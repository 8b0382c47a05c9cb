package pgstore

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestContention(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c contention
		require.False(t, c.lately(), "nothing was noted")
		c.note()
		require.True(t, c.lately())
		time.Sleep(contentionLasts - time.Nanosecond)
		require.True(t, c.lately())
		c.note()
		time.Sleep(contentionLasts - time.Nanosecond)
		require.True(t, c.lately(), "it goes on")
		time.Sleep(time.Nanosecond)
		require.False(t, c.lately())
	})
}
