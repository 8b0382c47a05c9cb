package server_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/memstore"
)

// ask sends one request and prints what came back.
func ask(h http.Handler, path, key, body string, headers ...string) {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	r.Header.Set("Idempotency-Key", key)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	fmt.Println(w.Code, strings.TrimSpace(w.Body.String()), "replayed:", w.Header().Get("Idempotent-Replayed"))
}

type (
	Item  struct{ SKU string }
	Hold  struct{ ID int }
	Empty struct{}
)

func ExampleHandle() {
	var (
		reserve = contract.Post[Item, Hold]("inventory", "reserve", "/reservations")
		mux     = http.NewServeMux()
		holds   []string
	)
	guard, err := server.NewGuard(memstore.New(), server.Unscoped, server.Config{})
	if err != nil {
		panic(err)
	}
	err = server.Handle(mux, guard, reserve, server.Transactional, func(ctx context.Context, in Item) (Hold, error) {
		if in.SKU == "" {
			return Hold{}, server.Refuse(http.StatusUnprocessableEntity, "sku-missing", "Name a SKU.")
		}
		err := memstore.Tx(ctx).Do(func() { holds = append(holds, in.SKU) })
		return Hold{ID: len(holds) + 1}, err
	})
	if err != nil {
		panic(err)
	}
	ask(mux, "/reservations", "order-1042", `{"SKU":"tea"}`)
	ask(mux, "/reservations", "order-1042", `{"SKU":"tea"}`)
	fmt.Println(holds)
	// Output:
	// 200 {"ID":1} replayed: false
	// 200 {"ID":1} replayed: true
	// [tea]
}

func ExampleGuard_Handler() {
	guard, err := server.NewGuard(memstore.New(), func(r *http.Request) (string, error) {
		user, _, ok := r.BasicAuth() // verified by the layer around this one
		if !ok {
			return "", errors.New("not signed in")
		}
		return "acme/" + user, nil
	}, server.Config{})
	if err != nil {
		panic(err)
	}
	mails := 0
	handler, err := guard.Handler(server.Opaque, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		mails++
		fmt.Fprintln(w, "mail", mails)
	}))
	if err != nil {
		panic(err)
	}
	ask(handler, "/mails", "m-1", "hello", "Authorization", "Basic YW5uOng=")
	ask(handler, "/mails", "m-1", "hello", "Authorization", "Basic YW5uOng=")
	ask(handler, "/mails", "m-1", "hello", "Authorization", "Basic Ym9iOng=")
	// Output:
	// 200 mail 1 replayed: false
	// 200 mail 1 replayed: true
	// 200 mail 2 replayed: false
}

func ExampleBarrier() {
	var (
		book   = contract.Post[Item, Hold]("shipping", "book", "/bookings")
		cancel = contract.Post[contract.Undo[Item, Hold], Empty]("shipping", "cancel", "/bookings/cancel")
		mux    = http.NewServeMux()
	)
	guard, err := server.NewGuard(memstore.New(), server.Unscoped, server.Config{})
	if err != nil {
		panic(err)
	}
	err = errors.Join(
		server.Handle(mux, guard, book, server.Transactional, func(context.Context, Item) (Hold, error) {
			return Hold{ID: 7}, nil
		}),
		server.Handle(mux, guard, cancel, server.Transactional, func(ctx context.Context, _ contract.Undo[Item, Hold]) (Empty, error) {
			fate, err := server.Barrier(ctx)
			if err != nil {
				return Empty{}, err
			}
			fmt.Println("the booking", fate)
			return Empty{}, nil
		}),
	)
	if err != nil {
		panic(err)
	}
	ask(mux, "/bookings", "book-1", `{}`)
	ask(mux, "/bookings/cancel", "cancel-1", `{}`, "Idempotency-Cancels", "book-1")
	ask(mux, "/bookings/cancel", "cancel-2", `{}`, "Idempotency-Cancels", "book-2")
	// Output:
	// 200 {"ID":7} replayed: false
	// the booking ran
	// 200 {} replayed: false
	// the booking never ran
	// 200 {} replayed: false
}

func ExampleMetrics() {
	metrics := server.NewMetrics()
	guard, err := server.NewGuard(memstore.New(), server.Unscoped, server.Config{Observer: metrics})
	if err != nil {
		panic(err)
	}
	handler, err := guard.Route(server.Route{Effect: server.Keyed, Name: "pay"}, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusCreated)
	}))
	if err != nil {
		panic(err)
	}
	for range 3 {
		handler.ServeHTTP(httptest.NewRecorder(), ordered("k-1", "body"))
	}
	counts := metrics.Snapshot()["pay"].Counts
	fmt.Println(counts["miss"], "ran,", counts["hit"], "replayed")
	// Output: 1 ran, 2 replayed
}
