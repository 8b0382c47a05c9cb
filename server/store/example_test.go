package store_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/server/memstore"
	"github.com/fanonce/fanonce/server/servertest"
	"github.com/fanonce/fanonce/server/store"
)

// A CountingStore counts the duplicates that it sees. It leaves the records to the store below it. A store on
// another database implements all methods itself, best in this order:
//
//   - Claim, Read and Settle carry a request that nothing disturbs. Claim is one conditional insert, and Settle is
//     one update that names token and fence.
//   - TakeOver, Renew and Quarantine are for owners that live long, or die.
//   - Cancel and the methods of [store.OperatorStore] decide a key from outside.
//   - Sweep and Stats keep the table small, and show it.
type CountingStore struct {
	store.Store
	Duplicates atomic.Int64
}

// Claim counts a claim that finds the record of an earlier one.
func (s *CountingStore) Claim(ctx context.Context, req store.ClaimRequest) (store.Record, bool, error) {
	record, won, err := s.Store.Claim(ctx, req)
	if err == nil && !won {
		s.Duplicates.Add(1)
	}
	return record, won, err
}

// conformance is the body of the author's test. Add [servertest.TestTxStore] for a [store.TxStore].
func conformance(t *testing.T) {
	servertest.TestStore(t, func(testing.TB) store.Store { return &CountingStore{Store: memstore.New()} })
}

// One run, as a guard makes it: the claim wins, the answer is settled, and a duplicate finds the answer.
func Example() {
	ctx, counting := context.Background(), &CountingStore{Store: memstore.New()}
	claim := store.ClaimRequest{
		ID:    store.NewID("acme", "", childkey.MustParse("order-42")),
		Token: store.Token{1}, Effect: store.Keyed, Lease: time.Minute, Keep: time.Hour,
	}
	record, won, err := counting.Claim(ctx, claim)
	fmt.Println(won, record.State, err)

	owner := store.Owner{ID: claim.ID, Token: claim.Token, Fence: record.Fence}
	answer := store.Answer{Status: 201, Envelope: []byte("sealed by the guard")}
	err = counting.Settle(ctx, owner, store.Settlement{State: store.StateCompleted, Answer: answer, ReplayFor: time.Hour})
	fmt.Println(err)

	claim.Token = store.Token{2} // another request with the key
	record, won, err = counting.Claim(ctx, claim)
	fmt.Println(won, record.State, record.Answer.Status, err)
	fmt.Println("duplicates:", counting.Duplicates.Load())
	// Output:
	// true in_progress <nil>
	// <nil>
	// false completed 201 <nil>
	// duplicates: 1
}
