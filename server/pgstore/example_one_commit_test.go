package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/pgtest"
	"github.com/fanonce/fanonce/server/store"
)

type transfer struct {
	From, To string
	Cents    int64
}

type receipt struct{ Cents int64 }

var moveMoney = contract.Post[transfer, receipt]("bank", "transfer", "/transfers")

// move knows its statements and its answer before anything is sent. It runs for duplicates too, whose statements are
// dropped. The schema has the rules: no balance is negative, and every account exists.
func move(ctx context.Context, in transfer) (receipt, error) {
	if in.Cents <= 0 {
		return receipt{}, &server.StatusError{Status: http.StatusUnprocessableEntity, Code: "no-amount"}
	}
	const add = "insert into entry (account, cents) values ($1, $2)"
	return receipt{Cents: in.Cents}, errors.Join(
		pgstore.Queue(ctx, "update account set cents = cents - $2 where name = $1", in.From, in.Cents),
		pgstore.Queue(ctx, "update account set cents = cents + $2 where name = $1", in.To, in.Cents),
		pgstore.Queue(ctx, add, in.From, -in.Cents),
		pgstore.Queue(ctx, add, in.To, in.Cents),
	)
}

// refused makes the answer where a rule of the schema was violated. It is stored like any other.
func refused(_ context.Context, refused *store.TxError) (server.Response, error) {
	code := "no-such-account"
	if refused.Constraint == "not_negative" {
		code = "no-funds"
	}
	return server.Response{}, &server.StatusError{Status: http.StatusPaymentRequired, Code: code}
}

// bank serves transfers. The claim, the four statements, the answer and the commit are one round trip.
func bank(s *pgstore.Store) (http.Handler, error) {
	guard, err := server.NewGuard(s, server.Unscoped, server.Config{})
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	return mux, server.HandleRoute(mux, guard, moveMoney, server.Route{
		Effect: server.Transactional, OneCommit: true, OnCommitError: refused,
	}, move)
}

// A route whose statements are known beforehand costs one round trip and one commit.
func Example_oneCommit() {
	ctx := context.Background()
	cluster, err := pgtest.Start(ctx, pgtest.Config{Private: true})
	if err != nil {
		panic(err)
	}
	defer func() { _ = cluster.Stop() }()
	pool, err := pgxpool.New(ctx, cluster.URL("postgres"))
	if err != nil {
		panic(err)
	}
	defer pool.Close()
	if err := pgstore.Migrate(ctx, pool, ""); err != nil {
		panic(err)
	}
	_, err = pool.Exec(ctx, `create table account (name text primary key, cents bigint constraint not_negative check (cents >= 0));
		create table entry (account text references account, cents bigint);
		insert into account values ('ann', 100), ('bob', 0)`, pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		panic(err)
	}
	s, err := pgstore.Open(ctx, pool.Config(), pgstore.Config{AllowNonDurable: true}) // pgtest runs without fsync
	if err != nil {
		panic(err)
	}
	defer s.Close()
	handler, err := bank(s)
	if err != nil {
		panic(err)
	}
	for _, call := range []struct{ key, body string }{
		{"order-42", `{"From":"ann","To":"bob","Cents":70}`},
		{"order-42", `{"From":"ann","To":"bob","Cents":70}`},
		{"order-43", `{"From":"ann","To":"bob","Cents":70}`},
		{"order-43", `{"From":"ann","To":"bob","Cents":70}`},
		{"order-44", `{"From":"ann","To":"carl","Cents":7}`},
		{"order-42", `{"From":"ann","To":"bob","Cents":71}`},
	} {
		r := httptest.NewRequest(http.MethodPost, "/transfers", strings.NewReader(call.body))
		r.Header.Set("Idempotency-Key", call.key)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		fmt.Println(call.key, w.Code, "replayed:", w.Header().Get("Idempotent-Replayed"))
	}
	var ann, bob int64
	err = pool.QueryRow(ctx, "select min(cents), max(cents) from account").Scan(&ann, &bob)
	fmt.Println(ann, bob, err)
	// Output:
	// order-42 200 replayed: false
	// order-42 200 replayed: true
	// order-43 402 replayed: false
	// order-43 402 replayed: true
	// order-44 402 replayed: false
	// order-42 422 replayed: false
	// 30 70 <nil>
}
