package server_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/memstore"
)

// A Seat is the input of Block, and a Ticket is its output.
type (
	Seat   struct{ Row, Number int }
	Ticket struct{ ID int }
)

// Block is in a package that the service and its callers import.
var Block = contract.Post[Seat, Ticket]("theatre", "block", "/tickets")

// The same request comes twice. The handler runs once, and both requests get its answer.
func Example() {
	// In production the store is pgstore's, and the second argument returns the
	// authenticated tenant of a request.
	guard, err := server.NewGuard(memstore.New(), server.Unscoped, server.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	blocked := 0
	mux := http.NewServeMux()
	err = server.Handle(mux, guard, Block, server.Transactional, func(ctx context.Context, seat Seat) (Ticket, error) {
		err := memstore.Tx(ctx).Do(func() { blocked++ }) // commits together with the answer
		return Ticket{ID: 100*seat.Row + seat.Number}, err
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 2 {
		request := httptest.NewRequest(http.MethodPost, "/tickets", strings.NewReader(`{"Row":7,"Number":12}`))
		request.Header.Set("Idempotency-Key", "order-1042")
		answer := httptest.NewRecorder()
		mux.ServeHTTP(answer, request)
		fmt.Println(answer.Code, answer.Body, "replayed:", answer.Header().Get("Idempotent-Replayed"))
	}
	fmt.Println("blocked:", blocked)
	// Output:
	// 200 {"ID":712} replayed: false
	// 200 {"ID":712} replayed: true
	// blocked: 1
}
