package server_test

import (
	"context"
	"fmt"
	"net/http"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/memstore"
	"github.com/fanonce/fanonce/server/store"
)

// A nightly job that is started twice pays once.
func ExampleDo() {
	guard, err := server.NewGuard(memstore.New(), server.Unscoped, server.Config{})
	if err != nil {
		panic(err)
	}
	task := server.Task{Name: "payroll/pay", Scope: "acme", Effect: server.Transactional}
	key, err := childkey.FromParts("payroll", "2026-11", "ann")
	if err != nil {
		panic(err)
	}
	paid := 0
	for range 2 {
		total, replayed, err := server.Do(context.Background(), guard, task, key, 1200, func(ctx context.Context, cents int) (int, error) {
			err := memstore.Tx(ctx).Do(func() { paid += cents })
			return cents, err
		})
		fmt.Println(total, replayed, err)
	}
	fmt.Println("paid", paid)
	// Output:
	// 1200 false <nil>
	// 1200 true <nil>
	// paid 1200
}

// An opaque route loses an outcome, and a person looks it up.
func ExampleGuard_Resolve() {
	guard, err := server.NewGuard(memstore.New(), server.Unscoped, server.Config{})
	if err != nil {
		panic(err)
	}
	wire, err := guard.Handler(server.Opaque, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusGatewayTimeout) // the bank did not answer: the money may have gone
	}))
	if err != nil {
		panic(err)
	}
	ask(wire, "/wires", "wire-7", "")
	stuck, err := guard.ListStuck(context.Background(), store.ListRequest{})
	if err != nil {
		panic(err)
	}
	for _, record := range stuck {
		fmt.Println("stuck:", record.State)
		err := guard.Resolve(context.Background(), record.ID, record.Fence,
			server.Happened(server.Response{Status: http.StatusCreated, Body: []byte("sent")}),
			store.Audit{Actor: "ann", Reason: "the statement shows it"})
		if err != nil {
			panic(err)
		}
	}
	ask(wire, "/wires", "wire-7", "")
	// Output:
	// 504  replayed: false
	// stuck: unknown
	// 201 sent replayed: true
}

func ExampleNewAESGCM() {
	secret := make([]byte, server.AESKeyBytes) // from a key service; never from the code
	codec, err := server.NewAESGCM(server.AESKey{ID: "2026-11", Secret: secret})
	if err != nil {
		panic(err)
	}
	_, err = server.NewGuard(memstore.New(), server.Unscoped, server.Config{Codec: codec})
	fmt.Println(err)
	// Output: <nil>
}

// An answer that holds a secret is not stored. A retry gets a new answer, made
// from the reference that the first run left.
func ExampleReference() {
	guard, err := server.NewGuard(memstore.New(), server.Unscoped, server.Config{})
	if err != nil {
		panic(err)
	}
	vault := map[string]string{}
	tokens, err := guard.Route(server.Route{
		Effect: server.Keyed,
		Render: func(_ *http.Request, status int, reference string) (server.Response, error) {
			return server.Response{Status: status, Body: []byte(vault[reference])}, nil
		},
	}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := fmt.Sprintf("token-%d", len(vault)+1)
		vault[id] = "the secret of " + id
		if err := server.Settle(r.Context(), server.Reference(id)); err != nil {
			panic(err)
		}
		w.WriteHeader(http.StatusCreated)
		_, _ = fmt.Fprint(w, vault[id])
	}))
	if err != nil {
		panic(err)
	}
	ask(tokens, "/tokens", "order-1042", "")
	ask(tokens, "/tokens", "order-1042", "")
	// Output:
	// 201 the secret of token-1 replayed: false
	// 201 the secret of token-1 replayed: true
}
