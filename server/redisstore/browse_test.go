package redisstore_test

import (
	"fmt"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server/redisstore"
	"github.com/fanonce/fanonce/server/redisstore/redistest"
	"github.com/fanonce/fanonce/server/store"
)

// A page of a list costs as many reads of records as it has, however many records there are.
func TestReader_browseReadsItsPage(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s, client := open(t, redisstore.Config{KeepRoutes: true}, srv.Addr()), srv.Client()
	defer client.Close()
	const all, limit = 3000, 100
	owners := make([]store.Owner, all)
	for i := range owners {
		req := request(store.Keyed)
		req.Route = fmt.Sprintf("POST /charges/%d", i%3)
		owners[i] = claim(t, s, req)
		require.NoError(t, s.Settle(t.Context(), owners[i], completion))
	}
	var before store.Cursor
	for page := range 3 {
		begun := calls(t, client, "evalsha")
		found, err := s.Reader().Browse(t.Context(), store.BrowseRequest{Limit: limit, Before: before})
		require.NoError(t, err)
		require.Len(t, found, limit)
		for i := range found {
			require.Equal(t, owners[all-1-page*limit-i].ID, found[i].ID)
		}
		require.LessOrEqual(t, calls(t, client, "evalsha")-begun, limit+2)
		before = found[limit-1].Cursor()
	}

	// A filter reads what does not match, too, and no more than it needs.
	begun := calls(t, client, "evalsha")
	found, err := s.Reader().Browse(t.Context(), store.BrowseRequest{Limit: limit, Route: "POST /charges/1"})
	require.NoError(t, err)
	require.Len(t, found, limit)
	require.LessOrEqual(t, calls(t, client, "evalsha")-begun, 4*limit)

	// Children of a record are not older than it.
	parent := owners[all-10]
	child := request(store.Keyed)
	child.Parent = parent.ID
	claim(t, s, child)
	children, err := s.Reader().List(t.Context(), store.ListRequest{Parent: parent.ID, Limit: limit})
	require.NoError(t, err)
	require.Len(t, children, 1)
	require.Equal(t, child.ID, children[0].ID)

	empty, err := s.Reader().Browse(t.Context(), store.BrowseRequest{Limit: limit, To: time.Now().Add(-time.Hour)})
	require.NoError(t, err)
	require.Empty(t, empty)
}

// A server that is full takes no claim, and still tells what it has.
func TestStore_fullServerStillReplays(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s, client := open(t, redisstore.Config{}, srv.Addr()), srv.Client()
	defer client.Close()
	req := request(store.Keyed)
	r, won, err := s.Claim(t.Context(), req)
	require.NoError(t, err)
	require.True(t, won)
	require.NoError(t, s.Settle(t.Context(), store.Owner{ID: r.ID, Token: r.Token, Fence: r.Fence}, completion))
	require.NoError(t, client.ConfigSet(t.Context(), "maxmemory", "1").Err())
	req.Token = request(store.Keyed).Token
	r, won, err = s.Claim(t.Context(), req)
	require.NoError(t, err)
	require.False(t, won)
	require.Equal(t, store.StateCompleted, r.State)
	_, _, err = s.Claim(t.Context(), request(store.Keyed))
	require.ErrorContains(t, err, "OOM")
	require.NotErrorIs(t, err, store.ErrFateUnknown)
}

var callCount = regexp.MustCompile(`cmdstat_(\w+):calls=(\d+)`)

// calls is how often the server has got a command.
func calls(t *testing.T, client *redis.Client, command string) int {
	t.Helper()
	info, err := client.Info(t.Context(), "commandstats").Result()
	require.NoError(t, err)
	for _, found := range callCount.FindAllStringSubmatch(info, -1) {
		if found[1] == command {
			n, err := strconv.Atoi(found[2])
			require.NoError(t, err)
			return n
		}
	}
	return 0
}
