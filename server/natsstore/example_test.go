package natsstore_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/natsstore"
)

// A small deployment has one process: the service, and a NATS server in it that keeps the keys on the process's disk.
func Example() {
	dir, err := os.MkdirTemp("", "keys") // a real service keeps its folder
	check(err)
	defer os.RemoveAll(dir)
	nodes, err := natsserver.NewServer(&natsserver.Options{
		DontListen: true, JetStream: true, StoreDir: dir, SyncAlways: true, NoSigs: true,
	})
	check(err)
	nodes.Start()
	defer nodes.WaitForShutdown()
	defer nodes.Shutdown()
	if !nodes.ReadyForConnections(10 * time.Second) {
		log.Fatal("the server in this process is not ready")
	}
	conn, err := nats.Connect("", nats.InProcessServer(nodes))
	check(err)
	defer conn.Close()

	ctx := context.Background()
	cfg := natsstore.Config{Replicas: 1, Durability: natsstore.FlushEachWrite}
	check(natsstore.Create(ctx, conn, cfg))
	store, err := natsstore.Open(ctx, conn, cfg)
	check(err)
	defer store.Close()

	guard, err := server.NewGuard(store, server.Unscoped, server.Config{})
	check(err)
	task := server.Task{Name: "charge", Scope: "acme", Effect: server.Opaque}
	for range 2 { // the second call is a repeat: it gets the first one's answer
		charge := func(context.Context, int) (string, error) { fmt.Println("charging"); return "receipt 1", nil }
		receipt, replayed, err := server.Do(ctx, guard, task, childkey.MustParse("order-1"), 1300, charge)
		fmt.Println(receipt, replayed, err)
	}
	// Output:
	// charging
	// receipt 1 false <nil>
	// receipt 1 true <nil>
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
