// Memory guards one handler, in memory.
package main

import (
	"context"
	"log"
	"net/http"
	"sync/atomic"

	"github.com/fanonce/fanonce/examples/readme/shopapi"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/memstore"
)

var holds atomic.Int64 // the last ID
func reserve(ctx context.Context, line shopapi.Line) (shopapi.Hold, error) {
	memstore.Tx(ctx).Do(func() { log.Println("reserved", line.SKU) }) // once, with the answer
	return shopapi.Hold{ID: holds.Add(1)}, nil
}

func main() {
	guard, err := server.NewGuard(memstore.New(), server.Unscoped, server.Config{})
	if err != nil {
		log.Fatal(err)
	}
	if err = server.Handle(http.DefaultServeMux, guard, shopapi.Reserve, server.Transactional, reserve); err == nil {
		err = http.ListenAndServe("localhost:8080", nil)
	}
	log.Fatal(err)
}
