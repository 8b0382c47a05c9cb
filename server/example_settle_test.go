package server_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/memstore"
)

// A handler refuses, and keeps the row that says so. Without KeepRows a refusal rolls the rows back.
func ExampleSettle() {
	guard, err := server.NewGuard(memstore.New(), server.Unscoped, server.Config{})
	if err != nil {
		panic(err)
	}
	mux, declined := http.NewServeMux(), 0
	pay := contract.Post[int, string]("payment", "charge", "/charges")
	err = server.Handle(mux, guard, pay, server.Transactional, func(ctx context.Context, cents int) (string, error) {
		if cents <= 1000 {
			return "paid", nil
		}
		if err := memstore.Tx(ctx).Do(func() { declined++ }); err != nil {
			return "", err
		}
		return "", &server.StatusError{
			Status: http.StatusPaymentRequired, Code: "declined", Settle: []server.SettleOption{server.KeepRows()},
		}
	})
	if err != nil {
		panic(err)
	}
	for range 2 {
		r := httptest.NewRequest(http.MethodPost, "/charges", strings.NewReader("5000"))
		r.Header.Set(wire.HeaderKey, `"order-1042"`)
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		fmt.Println(w.Code, "replayed:", w.Header().Get(wire.HeaderReplayed), "rows:", declined)
	}
	// Output:
	// 402 replayed: false rows: 1
	// 402 replayed: true rows: 1
}

// A handler that wrote rows finds out that it must refuse. The rows are rolled back, and the refusal is stored.
func ExampleRefuse() {
	guard, err := server.NewGuard(memstore.New(), server.Unscoped, server.Config{})
	if err != nil {
		panic(err)
	}
	mux, held := http.NewServeMux(), 0
	reserve := contract.Post[[]string, string]("inventory", "reserve", "/reservations")
	server.MustHandle(mux, guard, reserve, server.Transactional, func(ctx context.Context, skus []string) (string, error) {
		for _, sku := range skus {
			if sku == "coffee" {
				return "", server.Refuse(http.StatusConflict, "sold-out", "No coffee is left.")
			}
			if err := memstore.Tx(ctx).Do(func() { held++ }); err != nil {
				return "", err
			}
		}
		return "held", nil
	})
	for range 2 {
		r := httptest.NewRequest(http.MethodPost, "/reservations", strings.NewReader(`["tea","coffee"]`))
		r.Header.Set(wire.HeaderKey, `"order-1042"`)
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		fmt.Println(w.Code, "replayed:", w.Header().Get(wire.HeaderReplayed), "held:", held)
	}
	// Output:
	// 409 replayed: false held: 0
	// 409 replayed: true held: 0
}

// An adapter of another protocol takes bytes and returns a Response.
func ExampleGuard_Do() {
	guard, err := server.NewGuard(memstore.New(), server.Unscoped, server.Config{})
	if err != nil {
		panic(err)
	}
	task := server.Task{Name: "rename", Scope: "tenant-7", Effect: server.Keyed}
	for range 2 {
		answer, replayed, err := guard.Do(context.Background(), task, childkey.MustParse("rename-1"), []byte("ann"),
			func(context.Context) (server.Response, error) {
				return server.Response{Status: http.StatusOK, Body: []byte("renamed")}, nil
			})
		fmt.Println(answer.Status, string(answer.Body), replayed, err)
	}
	// Output:
	// 200 renamed false <nil>
	// 200 renamed true <nil>
}
