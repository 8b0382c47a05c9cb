package saga_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/saga/memjournal"
	"github.com/fanonce/fanonce/saga/sagatest"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/memstore"
)

type Approval struct{ Order, By string }

var (
	Approved = saga.NewSignal[Approval]("order.approved")
	Approve  = contract.Post[Approval, struct{}]("orders", "approve", "/approvals")
)

// The goods are held until somebody approves the order. If nobody does in two days they are released.
var Reviewed = saga.MustDefine("reviewed", 1, func(b *saga.Builder[Order, Charge]) {
	held := saga.Step(b, Reserve, b.Input())
	approved := saga.Await(b, Approved).After(held).Timeout(48 * time.Hour)
	paid := saga.Step(b, Pay, b.Input()).After(approved)
	saga.Return(b, paid.Output())
})

// A webhook sends the signal. Its handler is guarded as any other, and may run again: the first value stays.
func ExampleAwait() {
	ctx := context.Background()
	client, err := sagatest.NewServices().Client("inventory", "payment")
	if err != nil {
		panic(err)
	}
	engine, err := saga.Open(ctx, memjournal.New(), saga.Config{Client: client, Definitions: []saga.AnyDefinition{Reviewed}})
	if err != nil {
		panic(err)
	}
	defer func() { _ = engine.Close(ctx) }()
	guard, err := server.NewGuard(memstore.New(), server.Unscoped, server.Config{})
	if err != nil {
		panic(err)
	}
	mux := http.NewServeMux()
	err = server.Handle(mux, guard, Approve, server.Keyed, func(ctx context.Context, in Approval) (struct{}, error) {
		key, err := childkey.Parse(in.Order)
		if err != nil {
			return struct{}{}, server.Refuse(http.StatusBadRequest, "no-order", "Name an order.")
		}
		err = Approved.Send(ctx, engine, journal.IDOf("", Reviewed.Name(), key), in)
		if errors.Is(err, saga.ErrTooLate) || errors.Is(err, saga.ErrSignalReused) {
			return struct{}{}, server.Refuse(http.StatusConflict, "decided", "The order is decided already.")
		}
		return struct{}{}, err
	})
	if err != nil {
		panic(err)
	}
	approve := func(request, body string) {
		r := httptest.NewRequest(http.MethodPost, "/approvals", strings.NewReader(body))
		r.Header.Set("Idempotency-Key", request)
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		fmt.Println(w.Code)
	}
	approve("hook-1", `{"Order":"order-7","By":"ann"}`) // the saga has not begun yet
	approve("hook-2", `{"Order":"order-7","By":"ann"}`) // another delivery
	approve("hook-3", `{"Order":"order-7","By":"bob"}`)
	_, err = Reviewed.Run(ctx, engine, childkey.MustParse("order-7"), Order{SKU: "a-1", Card: "visa"})
	fmt.Println(err)
	// Output:
	// 200
	// 200
	// 409
	// <nil>
}
