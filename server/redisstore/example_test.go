package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/redisstore"
	"github.com/fanonce/fanonce/server/redisstore/redistest"
)

// A handler whose effects are outside of any database runs once for each key.
func Example() {
	if err := chargeTwice(); err != nil {
		fmt.Println(err)
	}
	// Output:
	// charged
	// 201 false
	// 201 true
}

func chargeTwice() (err error) {
	redisServer, err := redistest.New() // a server of yours
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, redisServer.Stop()) }()
	ctx := context.Background()
	options := &redis.UniversalOptions{Addrs: []string{redisServer.Addr()}}
	store, err := redisstore.Open(ctx, options, redisstore.Config{})
	if err != nil {
		return err
	}
	defer store.Close()
	guard, err := server.NewGuard(store, server.Unscoped, server.Config{})
	if err != nil {
		return err
	}
	defer guard.Shutdown(ctx)
	charge, err := guard.Handler(server.Opaque, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Println("charged")
		w.WriteHeader(http.StatusCreated)
	}))
	if err != nil {
		return err
	}
	for range 2 {
		request := httptest.NewRequest(http.MethodPost, "/charges", strings.NewReader(`{"cents":1300}`))
		request.Header.Set("Idempotency-Key", "order-1")
		answer := httptest.NewRecorder()
		charge.ServeHTTP(answer, request)
		fmt.Println(answer.Code, answer.Header().Get("Idempotent-Replayed"))
	}
	return nil
}

func ExampleParseURL() {
	options, err := redisstore.ParseURL("redis://ann:secret@db1:7000?addr=db2:7000")
	fmt.Println(options.Addrs, options.Username, err)
	// Output: [db1:7000 db2:7000] ann <nil>
}
