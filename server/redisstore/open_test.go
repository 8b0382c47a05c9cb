package redisstore_test

import (
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server/redisstore"
	"github.com/fanonce/fanonce/server/redisstore/redistest"
)

func TestOpen_refusesUnsafeServers(t *testing.T) {
	t.Parallel()
	primary := redistest.Start(t)
	for _, tt := range []struct {
		name    string
		options []string
		setting string // "": accepted
		cfg     redisstore.Config
	}{
		{"as started", nil, "", redisstore.Config{}},
		{"a second may be lost", []string{"--appendfsync", "everysec"}, "", redisstore.Config{}},
		{"the kernel decides", []string{"--appendfsync", "no"}, "appendfsync", redisstore.Config{}},
		{"in memory", []string{"--appendonly", "no"}, "appendonly", redisstore.Config{}},
		{"in memory, as asked", []string{"--appendonly", "no"}, "", redisstore.Config{AllowNonDurable: true}},
		{"evicting", []string{"--maxmemory-policy", "allkeys-lru"}, "maxmemory-policy", redisstore.Config{AllowNonDurable: true}},
		{"evicting what has a time", []string{"--maxmemory-policy", "volatile-ttl"}, "maxmemory-policy", redisstore.Config{}},
		{"a replica", []string{"--replicaof", "127.0.0.1", port(primary)}, "role", redisstore.Config{AllowNonDurable: true}},
		{"a cluster without slots", []string{"--cluster-enabled", "yes"}, "cluster_state", redisstore.Config{AllowNonDurable: true}},
	} {
		server := redistest.Start(t, tt.options...)
		s, err := redisstore.Open(t.Context(), &redis.UniversalOptions{Addrs: []string{server.Addr()}}, tt.cfg)
		if tt.setting == "" {
			require.NoError(t, err, tt.name)
			require.NoError(t, s.Close())
			continue
		}
		require.ErrorIs(t, err, redisstore.ErrSetting, tt.name)
		var setting *redisstore.SettingError
		require.ErrorAs(t, err, &setting, tt.name)
		require.Equal(t, tt.setting, setting.Setting, tt.name)
		require.Nil(t, s, tt.name)
	}
}

func port(s *redistest.Server) string { return s.Addr()[len("127.0.0.1:"):] }

// A primary with a replica acknowledges what the replica may not have.
func TestOpen_refusesReplicasThatMayLag(t *testing.T) {
	t.Parallel()
	primary := redistest.Start(t)
	redistest.Start(t, "--replicaof", "127.0.0.1", port(primary))
	client := primary.Client()
	defer client.Close()
	eventually(t, "the replica is connected", func() bool {
		n, err := client.Wait(t.Context(), 1, time.Second).Result()
		return err == nil && n == 1
	})
	options := &redis.UniversalOptions{Addrs: []string{primary.Addr()}}
	_, err := redisstore.Open(t.Context(), options, redisstore.Config{})
	var setting *redisstore.SettingError
	require.ErrorAs(t, err, &setting)
	require.Equal(t, "min-replicas-to-write", setting.Setting)

	s, err := redisstore.Open(t.Context(), options, redisstore.Config{Replicas: 1})
	require.NoError(t, err)
	st, err := s.Stats(t.Context())
	require.NoError(t, err)
	require.Zero(t, st.AsyncStandbys, "each replica confirms")
	require.NoError(t, s.Close())

	require.NoError(t, client.ConfigSet(t.Context(), "min-replicas-to-write", "1").Err())
	s, err = redisstore.Open(t.Context(), options, redisstore.Config{})
	require.NoError(t, err)
	st, err = s.Stats(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, st.AsyncStandbys)
	e, err := s.Reader().Estimate(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, e.AsyncStandbys)
	require.NoError(t, s.Close())
}

// Managed services refuse CONFIG.
func TestOpen_hiddenSettings(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--rename-command", "CONFIG", "")
	options := &redis.UniversalOptions{Addrs: []string{server.Addr()}}
	_, err := redisstore.Open(t.Context(), options, redisstore.Config{})
	require.ErrorIs(t, err, redisstore.ErrUnreadableSetting)
	s, err := redisstore.Open(t.Context(), options, redisstore.Config{Unverified: true})
	require.NoError(t, err)
	require.NoError(t, s.Close())
}

func TestOpen_badConfig(t *testing.T) {
	t.Parallel()
	some := &redis.UniversalOptions{Addrs: []string{"127.0.0.1:1"}}
	for _, tt := range []struct {
		name    string
		options *redis.UniversalOptions
		cfg     redisstore.Config
	}{
		{"no options", nil, redisstore.Config{}},
		{"no address", &redis.UniversalOptions{}, redisstore.Config{}},
		{"read from replicas", &redis.UniversalOptions{Addrs: some.Addrs, ReadOnly: true}, redisstore.Config{}},
		{"no end of a call", &redis.UniversalOptions{Addrs: some.Addrs, ReadTimeout: -1}, redisstore.Config{}},
		{"braces in the prefix", some, redisstore.Config{Prefix: "a{b}"}},
		{"negative replicas", some, redisstore.Config{Replicas: -1}},
		{"WAIT longer than a call", some, redisstore.Config{Replicas: 1, WaitTimeout: time.Minute}},
		{"WAIT shorter than its unit", some, redisstore.Config{Replicas: 1, WaitTimeout: time.Microsecond}},
		{"negative queue", some, redisstore.Config{MaxQueued: -1}},
		{"too many flushes", some, redisstore.Config{MaxFlushes: 65}},
		{"negative close timeout", some, redisstore.Config{CloseTimeout: -1}},
	} {
		_, err := redisstore.Open(t.Context(), tt.options, tt.cfg)
		require.ErrorIs(t, err, redisstore.ErrConfig, tt.name)
	}
	_, err := redisstore.Open(t.Context(), some, redisstore.Config{})
	require.Error(t, err, "nobody is there")
	require.False(t, errors.Is(err, redisstore.ErrConfig))
}

func TestParseURL(t *testing.T) {
	t.Parallel()
	o, err := redisstore.ParseURL("rediss://ann:secret@a:7000?addr=b:7001&pool_size=7")
	require.NoError(t, err)
	require.Equal(t, []string{"a:7000", "b:7001"}, o.Addrs)
	require.Equal(t, "ann", o.Username)
	require.Equal(t, "secret", o.Password)
	require.Equal(t, 7, o.PoolSize)
	require.NotNil(t, o.TLSConfig)
	o, err = redisstore.ParseURL("unix:///run/redis.sock?db=2")
	require.NoError(t, err)
	require.Equal(t, []string{"/run/redis.sock"}, o.Addrs)
	require.Equal(t, 2, o.DB)
	for _, bad := range []string{"", "http://a", "redis://ann:secret@a/x", "redis://ann:secret@a?none=1", "redis://ann:secret@[", ":"} {
		_, err := redisstore.ParseURL(bad)
		require.ErrorIs(t, err, redisstore.ErrConfig, bad)
		require.NotContains(t, err.Error(), "secret")
	}
}
