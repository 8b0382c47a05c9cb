// Stuck lists the keys that need a person. With the ID of one, it resolves that key.
package main

import (
	"context"
	"log"
	"os"

	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/store"
)

func main() {
	ctx := context.Background()
	keys, err := pgstore.OpenURL(ctx, os.Getenv("DATABASE_URL"), pgstore.Config{})
	check(err)
	defer keys.Close()
	guard, err := server.NewGuard(keys, server.Unscoped, server.Config{Namespace: "payment"})
	check(err)
	stuck, err := guard.ListStuck(ctx, store.ListRequest{Limit: 100}) // of all namespaces; After has the next page
	check(err)
	for _, record := range stuck {
		if len(os.Args) == 1 {
			log.Println(record.ID, record.State, record.Route)
		} else if os.Args[1] == record.ID.String() { // somebody has asked the bank, or Happened(server.Response{…})
			by := store.Audit{Actor: "ann", Reason: "the bank knows no such charge"}
			check(guard.Resolve(ctx, record.ID, record.Fence, server.NeverHappened(), by))
			log.Println("resolved")
			return
		}
	}
	if len(os.Args) > 1 {
		log.Fatal("no such key among the first ", len(stuck))
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
