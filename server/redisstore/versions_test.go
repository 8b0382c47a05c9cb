package redisstore_test

import (
	"io/fs"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server/redisstore"
	"github.com/fanonce/fanonce/server/redisstore/redistest"
	"github.com/fanonce/fanonce/server/store"
)

// The answers are those of redis-server 6.2.16 and 7.0.15 to the same scripts.
func TestCode(t *testing.T) {
	t.Parallel()
	const within = "ERR Error running script (call to f_63513ef721c1dcd34dc697552e11c6fa5356c64c): @user_script:1: "
	for _, tt := range []struct{ answer, want string }{
		{within + "@user_script: 1: -READONLY You can't write against a read only replica.", "READONLY"},
		{within + "@user_script: 12: -OOM command not allowed when used memory > 'maxmemory'.", "OOM"},
		{within + "@user_script: 1: -NOREPLICAS Not enough good replicas to write.", "NOREPLICAS"},
		{within + "WRONGTYPE Operation against a key holding the wrong kind of value", "WRONGTYPE"},
		{within + "attempt to index a nil value", "ERR"},
		{"READONLY You can't write against a read only replica. script: 63513e, on @user_script:1.", "READONLY"},
		{"WRONGTYPE Operation against a key holding the wrong kind of value script: 620cd2, on @user_script:1.", "WRONGTYPE"},
		{"NOSCRIPT No matching script. Please use EVAL.", "NOSCRIPT"},
		{"MOVED 3999 127.0.0.1:6381", "MOVED"},
		{"LOADING", "LOADING"},
		{"", ""},
	} {
		require.Equal(t, tt.want, redisstore.Code(tt.answer), tt.answer)
	}
}

// A server that is a replica for a moment refuses writes. The store sends them again.
func TestStore_demotedForAMoment(t *testing.T) {
	t.Parallel()
	primary, srv := redistest.Start(t), redistest.Start(t)
	s := open(t, redisstore.Config{}, srv.Addr())
	client := srv.Client()
	defer client.Close()
	claim(t, s, request(store.Keyed)) // the connections are there
	require.NoError(t, client.ReplicaOf(t.Context(), "127.0.0.1", port(primary)).Err())
	eventually(t, "the server refuses writes", func() bool { return client.Set(t.Context(), "x", "", 0).Err() != nil })
	// While the claim is sent again: nothing tells when the server has refused it.
	promoted := time.AfterFunc(100*time.Millisecond, func() { client.ReplicaOf(t.Context(), "NO", "ONE") })
	defer promoted.Stop()
	claim(t, s, request(store.Keyed))
}

// since is the version of Redis that brought each command and option of the scripts. Most tests run on Redis 7 or
// later, and would not notice a later one.
var since = map[string]string{
	"DEL": "1.0.0", "GET": "1.0.0", "GETRANGE": "2.4.0", "PEXPIREAT": "2.6.0", "PUBLISH": "2.0.0", "SET": "1.0.0", "SETRANGE": "2.2.0",
	"TIME": "2.6.0", "XADD": "5.0.0", "ZADD": "1.2.0", "ZCARD": "1.2.0", "ZRANGE": "1.2.0", "ZRANGEBYSCORE": "1.0.5", "ZREM": "1.2.0",
	// The options.
	"KEEPTTL": "6.0.0", "LIMIT": "1.0.5", "NX": "2.6.12", "PXAT": "6.2.0", "WITHSCORES": "2.0.0",
}

var inQuotes = regexp.MustCompile(`'([A-Z]+)'`)

// No script has a command, an option or a flag that came after Redis 6.2.
func TestScripts_useRedis62(t *testing.T) {
	t.Parallel()
	files, err := fs.Glob(redisstore.ScriptFiles, "script/*.lua")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		text, err := fs.ReadFile(redisstore.ScriptFiles, file)
		require.NoError(t, err)
		require.False(t, strings.HasPrefix(string(text), "#!"), "%s: a script with flags needs Redis 7", file)
		for _, name := range []string{"redis.acl_check_cmd", "redis.set_repl", "redis.REDIS_VERSION", "redis.register_function"} {
			require.NotContains(t, string(text), name, file)
		}
		for line := range strings.Lines(string(text)) {
			if !strings.Contains(line, "redis.call(") && !strings.Contains(line, "redis.pcall(") {
				continue
			}
			for _, word := range inQuotes.FindAllStringSubmatch(line, -1) {
				version, known := since[word[1]]
				require.True(t, known, "%s: %s is not in the table of versions", file, word[1])
				require.LessOrEqual(t, version, "6.2.0", "%s: %s", file, word[1])
			}
		}
	}
}
