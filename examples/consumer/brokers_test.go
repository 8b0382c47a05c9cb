package main

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A place is a database and a topic of a broker.
type place struct {
	pool    *pgxpool.Pool
	topic   string
	url     string // of the broker
	proxied string // the database's URL for processes, if it is not that of pool
	ackWait time.Duration

	mute    func(bool)                  // the broker does not hear that a message is done
	gate    *gate                       // through which the ledgers reach the broker
	dead    func(t *testing.T) []string // payloads of the dead letters
	waiting func(t *testing.T) int      // messages that no ledger has acknowledged. It is exact when all ledgers are stopped
	killed  map[int]time.Time           // processes that a test has killed
	expire  func(t *testing.T)          // makes up for a broker that does not miss all of them
	copies  time.Duration               // the least time between copies that the broker does not drop by itself
}

func (p *place) options() *options {
	return &options{
		database: cmp.Or(p.proxied, p.pool.Config().ConnString()), broker: p.url, topic: p.topic, lease: lease, ackWait: p.ackWait, nonDurable: true,
		log: slog.New(slog.DiscardHandler),
	}
}

// startNATS starts a JetStream server in this process. Its stream drops copies for the shortest time that it can.
func startNATS(t *testing.T, at *place) {
	t.Helper()
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true})
	require.NoError(t, err)
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	require.True(t, s.ReadyForConnections(time.Minute))
	conn, err := nats.Connect(s.ClientURL())
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	require.NoError(t, err)
	at.copies = 100 * time.Millisecond
	stream, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: at.topic, Subjects: []string{at.topic}, Duplicates: at.copies})
	require.NoError(t, err)
	p := startProxy(t, s.Addr().String())
	at.url, at.ackWait, at.mute, at.gate = "nats://"+p.address, time.Second, p.mute.Store, p.gate
	at.waiting = func(t *testing.T) int {
		t.Helper()
		from, err := stream.Consumer(t.Context(), group)
		require.NoError(t, err)
		info, err := from.Info(t.Context())
		require.NoError(t, err)
		return int(info.NumPending) + info.NumAckPending //nolint:gosec // few
	}
	at.dead = func(t *testing.T) (payloads []string) {
		t.Helper()
		letters, err := js.Stream(t.Context(), at.topic+"-dead")
		require.NoError(t, err)
		info, err := letters.Info(t.Context())
		require.NoError(t, err)
		for i := info.State.FirstSeq; i > 0 && i <= info.State.LastSeq; i++ {
			m, err := letters.GetMsg(t.Context(), i)
			require.NoError(t, err)
			payloads = append(payloads, string(m.Data))
		}
		return payloads
	}
}

// A broker that hears nothing of a ledger for a while, and sends it nothing, does not end the ledger.
func TestNATS_silence(t *testing.T) {
	t.Parallel()
	at := newPlace(t)
	startNATS(t, at)
	to, err := at.options().connect(t.Context())
	require.NoError(t, err)
	t.Cleanup(to.close)
	l := at.start(t, "ledger")
	require.NoError(t, to.publish(t.Context(), newMessage(at.topic)))
	at.untilBooked(t, 1)
	at.mute(true)
	time.Sleep(3 * at.ackWait) // a pull expires, its successor is lost, and heartbeats are missed
	at.mute(false)
	require.NoError(t, to.publish(t.Context(), newMessage(at.topic)))
	at.untilBooked(t, 2)
	l.stop(t)
}

// startKafka starts a Kafka in this process.
func startKafka(t *testing.T, at *place) {
	t.Helper()
	const partitions = 4
	// The client knows brokers by the addresses that they announce, and would pass by a proxy.
	listen := func(network, address string) (_ net.Listener, err error) {
		at.gate, err = listenGate(network, address)
		return at.gate, err
	}
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(partitions, at.topic, at.topic+deadSuffix),
		kfake.GroupMinSessionTimeout(time.Second), kfake.ListenFn(listen))
	require.NoError(t, err)
	t.Cleanup(cluster.Close)
	at.url, at.ackWait = "kafka://"+cluster.ListenAddrs()[0], 2*time.Second
	var muted atomic.Bool
	at.mute = muted.Store
	cluster.ControlKey(int16(kmsg.OffsetCommit), func(kmsg.Request) (kmsg.Response, error, bool) { //nolint:revive // its signature
		cluster.KeepControl()
		return nil, nil, muted.Load()
	})
	at.waiting = func(t *testing.T) (n int) {
		t.Helper()
		for _, p := range cluster.PartitionInfos(at.topic) {
			n += int(p.HighWatermark)
			if info := cluster.GroupInfo(group); info != nil && p.HighWatermark > 0 {
				n -= int(max(info.Commits[at.topic][p.Partition].Offset, 0))
			}
		}
		return n
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.ConsumeTopics(at.topic+deadSuffix))
	require.NoError(t, err)
	t.Cleanup(client.Close)
	at.expire = func(t *testing.T) {
		t.Helper()
		leaveForKilled(t, cluster, client, at)
	}
	at.dead = func(t *testing.T) (payloads []string) { // each letter once
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		client.PollFetches(ctx).EachRecord(func(r *kgo.Record) { payloads = append(payloads, string(r.Value)) })
		return payloads
	}
}

// leaveForKilled takes killed ledgers out of the group when their sessions are long over. kfake gives a session
// only to members that got its answer. So a member that dies while it waits for the others would stay for ever. Kafka
// itself removes it.
func leaveForKilled(t *testing.T, cluster *kfake.Cluster, client *kgo.Client, at *place) {
	t.Helper()
	long := make(map[string]bool)
	for pid, when := range at.killed {
		long[kafkaClient(pid)] = time.Since(when) > 3*at.ackWait
	}
	info := cluster.GroupInfo(group)
	if info == nil {
		return
	}
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group = group
	for _, m := range info.Members {
		if long[m.ClientID] {
			gone := kmsg.NewLeaveGroupRequestMember()
			gone.MemberID = m.MemberID
			req.Members = append(req.Members, gone)
		}
	}
	if len(req.Members) > 0 {
		_, err := req.RequestWith(t.Context(), client)
		require.NoError(t, err)
		t.Logf("kfake did not miss %d members", len(req.Members))
	}
}
