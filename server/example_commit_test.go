package server_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/memstore"
	"github.com/fanonce/fanonce/server/store"
)

// A deferred constraint of the database refuses the COMMIT, after the handler answered. The route turns the refusal
// into an answer, which is stored.
func ExampleRoute_onCommitError() {
	guard, err := server.NewGuard(memstore.New(), server.Unscoped, server.Config{})
	if err != nil {
		panic(err)
	}
	rename, err := guard.Route(server.Route{
		Effect: server.Transactional,
		OnCommitError: func(_ context.Context, refused *store.TxError) (server.Response, error) {
			if refused.Constraint != "accounts_name_unique" {
				return server.Response{}, refused // answered with 500 transaction-failed
			}
			return server.Response{}, server.Refuse(http.StatusConflict, "name-taken", "Choose another name.")
		},
	}, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		fmt.Println("the handler runs")
		// A database with such a constraint does this by itself:
		refusal := &store.TxError{SQLState: "23505", Constraint: "accounts_name_unique", Commit: true}
		if err := memstore.Tx(r.Context()).Fail(refusal); err != nil {
			panic(err)
		}
	}))
	if err != nil {
		panic(err)
	}
	for range 2 {
		r := httptest.NewRequest(http.MethodPost, "/accounts/7/name", nil)
		r.Header.Set("Idempotency-Key", "rename-1")
		w := httptest.NewRecorder()
		rename.ServeHTTP(w, r)
		fmt.Println(w.Code, w.Header().Get("Idempotent-Replayed"))
	}
	// Output:
	// the handler runs
	// 409 false
	// 409 true
}
