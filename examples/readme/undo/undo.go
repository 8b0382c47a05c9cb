// Package undo takes a reservation back.
package undo

import (
	"context"
	"net/http"

	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/examples/readme/shopapi"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgstore"
)

// Handle serves Release, which undoes Reserve.
func Handle(mux *http.ServeMux, guard *server.Guard) error {
	return server.Handle(mux, guard, shopapi.Release, server.Transactional, release)
}

func release(ctx context.Context, _ contract.Undo[shopapi.Line, shopapi.Hold]) (none struct{}, err error) {
	fate, err := server.Barrier(ctx) // a late copy of Reserve is refused from now on
	if err != nil || fate == server.NeverRan {
		return none, err
	}
	// Ran, or MaybeRan: delete what is there. Once it is, a repeat of Reserve is refused, too.
	forward, _ := server.ForwardHopKey(ctx) // the key under which Reserve stored its row
	_, err = pgstore.Tx(ctx).Exec(ctx, "delete from holds where key = $1", forward.String())
	return none, err
}
