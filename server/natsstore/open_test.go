package natsstore_test

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/natsstore"
	"github.com/fanonce/fanonce/server/natsstore/natstest"
)

var alone = natsstore.Config{Replicas: 1, Durability: natsstore.FlushPeriodically}

func TestOpen_badConfig(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		cfg  natsstore.Config
	}{
		{"a dot in the bucket", natsstore.Config{Bucket: "a.b"}},
		{"two replicas", natsstore.Config{Replicas: 2}},
		{"a negative timeout", natsstore.Config{Timeout: -1}},
		{"an unknown durability", natsstore.Config{Durability: 9}},
	} {
		_, err := natsstore.Open(t.Context(), nil, tt.cfg)
		require.ErrorIs(t, err, natsstore.ErrConfig, tt.name)
		require.ErrorIs(t, natsstore.Create(t.Context(), nil, tt.cfg), natsstore.ErrConfig, tt.name)
	}
	_, err := natsstore.Open(t.Context(), nil, alone)
	require.ErrorIs(t, err, natsstore.ErrConfig, "no connection")
}

// Each setting that could lose a key is refused by its name.
func TestOpen_unsafeBuckets(t *testing.T) {
	t.Parallel()
	conn := natstest.Start(t, natstest.Config{}).Connect(t)
	js, err := jetstream.New(conn)
	require.NoError(t, err)
	_, err = natsstore.Open(t.Context(), conn, alone)
	require.ErrorIs(t, err, natsstore.ErrNoBucket)
	for setting, change := range map[string]func(*jetstream.StreamConfig){
		"":                     func(*jetstream.StreamConfig) {},
		"storage":              func(c *jetstream.StreamConfig) { c.Storage = jetstream.MemoryStorage },
		"discard":              func(c *jetstream.StreamConfig) { c.Discard = jetstream.DiscardOld },
		"max_age":              func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour },
		"max_msgs_per_subject": func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = 5 },
		"max_msgs":             func(c *jetstream.StreamConfig) { c.MaxMsgs = 1000 },
		"max_bytes":            func(c *jetstream.StreamConfig) { c.MaxBytes = 1 << 20 },
		"max_msg_size":         func(c *jetstream.StreamConfig) { c.MaxMsgSize = 1 << 10 },
		"allow_direct":         func(c *jetstream.StreamConfig) { c.AllowDirect = false },
		"allow_msg_ttl":        func(c *jetstream.StreamConfig) { c.AllowMsgTTL = false },
		"retention":            func(c *jetstream.StreamConfig) { c.Retention = jetstream.WorkQueuePolicy },
		"no_ack":               func(c *jetstream.StreamConfig) { c.NoAck = true },
		"subjects":             func(c *jetstream.StreamConfig) { c.Subjects = append(c.Subjects, "other") },
		"republish": func(c *jetstream.StreamConfig) {
			c.RePublish = &jetstream.RePublish{Source: ">", Destination: "copy.>"}
		},
	} {
		cfg := alone
		cfg.Bucket = "b_" + setting
		stream := natsstore.StreamConfig(cfg)
		change(&stream)
		_, err := js.CreateStream(t.Context(), stream)
		require.NoError(t, err, setting)
		s, err := natsstore.Open(t.Context(), conn, cfg)
		if setting == "" {
			require.NoError(t, err)
			s.Close()
			continue
		}
		var unsafe *natsstore.BucketError
		require.ErrorAs(t, err, &unsafe, setting)
		require.ErrorIs(t, err, natsstore.ErrBucket)
		require.Equal(t, setting, unsafe.Setting)
	}
	cfg := alone
	cfg.Bucket, cfg.Replicas = "b_", 3
	_, err = natsstore.Open(t.Context(), conn, cfg)
	require.ErrorContains(t, err, "num_replicas 1, want 3")
}

// The client library cannot ask for it yet.
func TestOpen_asynchronousPersistence(t *testing.T) {
	t.Parallel()
	conn := natstest.Start(t, natstest.Config{}).Connect(t)
	_, err := conn.Request("$JS.API.STREAM.CREATE.KV_fanonce", []byte(`{"name":"KV_fanonce","subjects":["$KV.fanonce.>"],"retention":"limits",
		"storage":"file","num_replicas":1,"discard":"new","max_msgs_per_subject":1,"max_msgs":-1,"max_bytes":-1,"max_consumers":-1,
		"max_msg_size":-1,"deny_delete":true,"allow_direct":true,"allow_rollup_hdrs":true,"allow_msg_ttl":true,"persist_mode":"async"}`), 5*time.Second)
	require.NoError(t, err)
	_, err = natsstore.Open(t.Context(), conn, alone)
	require.ErrorContains(t, err, "persist_mode async")
}

func TestOpen_durability(t *testing.T) {
	t.Parallel()
	for _, always := range []bool{true, false} {
		servers := natstest.Start(t, natstest.Config{SyncAlways: always})
		conn, system := servers.Connect(t), servers.ConnectSystem(t)
		require.NoError(t, natsstore.Create(t.Context(), conn, alone))
		require.NoError(t, natsstore.Create(t.Context(), conn, alone), "made twice")
		for _, tt := range []struct {
			name   string
			d      natsstore.Durability
			system *nats.Conn
			ok     bool
		}{
			{"nobody says anything", natsstore.FlushReported, nil, false},
			{"the server reports", natsstore.FlushReported, system, always},
			{"somebody says it", natsstore.FlushEachWrite, nil, true},
			{"somebody says it, and the server reports", natsstore.FlushEachWrite, system, always},
			{"it is accepted", natsstore.FlushPeriodically, nil, true},
		} {
			s, err := natsstore.Open(t.Context(), conn, natsstore.Config{Replicas: 1, Durability: tt.d, System: tt.system})
			if tt.ok {
				require.NoError(t, err, tt.name)
				s.Close()
			} else {
				require.ErrorIs(t, err, natsstore.ErrDurability, tt.name)
			}
		}
	}
}

// withoutJetStream connects to a server of core NATS alone.
func withoutJetStream(t *testing.T) *nats.Conn {
	t.Helper()
	s, err := natsserver.NewServer(&natsserver.Options{DontListen: true, NoSigs: true})
	require.NoError(t, err)
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	conn, err := nats.Connect("", nats.InProcessServer(s))
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	return conn
}

func TestOpen_noJetStream(t *testing.T) {
	t.Parallel()
	_, err := natsstore.Open(t.Context(), withoutJetStream(t), alone)
	require.ErrorIs(t, err, natsstore.ErrServer)
}

func TestFlushes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		report string
		counts bool
		ok     bool
	}{
		{`{"server":{"name":"a"},"data":{"jetstream":{"config":{"sync_always":true}}}}`, true, true},
		{`{"server":{"name":"a"},"data":{"jetstream":{"config":{"sync_interval":120000000000}}}}`, false, false},
		{`{"server":{"name":"a"},"data":{"jetstream":{}}}`, false, true},
		{`no JSON`, false, false},
	} {
		counts, err := natsstore.Flushes([]byte(tt.report))
		require.Equal(t, tt.counts, counts, tt.report)
		require.Equal(t, tt.ok, err == nil, tt.report)
	}
}

// A guard refuses a Transactional route before its first request, and says why.
func TestTransactionalIsRefused(t *testing.T) {
	t.Parallel()
	conn := natstest.Start(t, natstest.Config{}).Connect(t)
	guard, err := server.NewGuard(newStore(t, conn, 1), server.Unscoped, server.Config{})
	require.NoError(t, err)
	_, err = guard.Handler(server.Transactional, http.NotFoundHandler())
	require.ErrorContains(t, err, "needs a TxStore")
}

// Close ends what the store has started, also twice, and a closed connection is told from a slow server.
func TestClose(t *testing.T) {
	t.Parallel()
	servers := natstest.Start(t, natstest.Config{})
	conn := servers.Connect(t)
	s := newStore(t, conn, 1)
	r := claimed(t, s, false)
	ended, stop := s.Watch(r.ID, r.Fence)
	defer stop()
	s.Close()
	s.Close()
	<-ended
	ended, _ = s.Watch(r.ID, r.Fence)
	<-ended
	conn.Close()
	_, err := s.Read(t.Context(), r.ID)
	require.ErrorIs(t, err, natsstore.ErrClosed)
	_, _, err = s.Claim(t.Context(), request(random16()))
	require.Error(t, err)
}

// A server that does not answer is an error within the time of ctx.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	servers := natstest.Start(t, natstest.Config{})
	s := newStore(t, servers.Connect(t), 1)
	r := claimed(t, s, false)
	servers.Kill(0)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err := s.Read(ctx, r.ID)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, s.Settle(ctx, owner(r), done), "deadline")
	servers.Restart(t, 0)
	require.NoError(t, s.Settle(t.Context(), owner(r), done))
}

// An answer that is lost, as with a server that is killed, does not keep Open for ever. It asks again until Timeout.
func TestOpen_lostAnswers(t *testing.T) {
	t.Parallel()
	const absent, unsafe = `{"error": {"code": 404, "err_code": 10059}}`, `{"config": {"name": "KV_idempotency"}}`
	for _, tt := range []struct {
		name    string
		lost    func(n int64) bool
		answer  string
		timeout time.Duration
		want    error
	}{
		{"the first one", func(n int64) bool { return n == 1 }, absent, time.Minute, natsstore.ErrNoBucket},
		{"all but the first one", func(n int64) bool { return n > 1 }, unsafe, time.Minute, natsstore.ErrBucket},
		{"all", func(int64) bool { return true }, absent, 100 * time.Millisecond, context.DeadlineExceeded},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cfg := alone
			cfg.Timeout = tt.timeout
			_, err := natsstore.Open(context.WithoutCancel(t.Context()), forgetful(t, tt.answer, tt.lost), cfg)
			require.ErrorIs(t, err, tt.want)
		})
	}
}

// forgetful connects to a stand-in of JetStream, which gives one answer about every stream and loses some.
func forgetful(t *testing.T, answer string, lost func(n int64) bool) *nats.Conn {
	t.Helper()
	conn := withoutJetStream(t)
	_, err := conn.Subscribe("$JS.API.INFO", func(m *nats.Msg) { _ = m.Respond([]byte("{}")) })
	require.NoError(t, err)
	var asked atomic.Int64
	_, err = conn.Subscribe("$JS.API.STREAM.INFO.*", func(m *nats.Msg) {
		if !lost(asked.Add(1)) {
			_ = m.Respond([]byte(answer))
		}
	})
	require.NoError(t, err)
	return conn
}
