package server_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/memstore"
)

// stripeEvents are the webhooks of Stripe.
var stripeEvents = server.Route{
	Effect: server.Transactional,
	Key: func(_ *http.Request, body []byte) (string, error) {
		var event struct{ ID string }
		if err := json.Unmarshal(body, &event); err != nil || event.ID == "" {
			return "", server.ErrNoKey
		}
		return event.ID, nil
	},
	// The ID alone names an event: pending_webhooks, for one, may differ between two deliveries.
	Fingerprint: func(*http.Request, []byte) ([]byte, error) { return nil, nil },
}

// githubDeliveries are the webhooks of GitHub.
var githubDeliveries = server.Route{
	Effect: server.Transactional,
	Key: func(r *http.Request, _ []byte) (string, error) {
		if id := r.Header.Get("X-GitHub-Delivery"); id != "" {
			return id, nil
		}
		return "", server.ErrNoKey
	},
}

// requireSignature lets through what GitHub has signed. It is around the guard, so that nobody else can use up a key.
func requireSignature(secret []byte, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		mac := hmac.New(sha256.New, secret)
		mac.Write(body)
		want := "sha256=" + hex.EncodeToString(mac.Sum(nil))
		if err != nil || !hmac.Equal([]byte(want), []byte(r.Header.Get("X-Hub-Signature-256"))) {
			http.Error(w, "not signed", http.StatusUnauthorized)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body)) // for the guard
		next.ServeHTTP(w, r)
	})
}

// A vendor may send a webhook several times. The guard runs each one once, by the vendor's own ID.
func ExampleRoute_webhook() {
	guard, err := server.NewGuard(memstore.New(), server.Unscoped, server.Config{Namespace: "webhooks"})
	if err != nil {
		fmt.Println(err)
		return
	}
	book := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { fmt.Println("booked", r.URL.Path) })
	stripe, err := guard.Route(stripeEvents, book)
	if err != nil {
		fmt.Println(err)
		return
	}
	github, err := guard.Route(githubDeliveries, book)
	if err != nil {
		fmt.Println(err)
		return
	}
	github = requireSignature([]byte("secret"), github)

	for pending := range 2 {
		body := fmt.Sprintf(`{"id":"evt_1","type":"charge.succeeded","pending_webhooks":%d}`, pending)
		w := httptest.NewRecorder()
		stripe.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/stripe", strings.NewReader(body)))
		fmt.Println(w.Code)
	}
	for range 2 {
		r := httptest.NewRequest(http.MethodPost, "/github", strings.NewReader(`{"ref":"main"}`))
		r.Header.Set("X-GitHub-Delivery", "72d3162e-cc78-11e3-81ab-4c9367dc0958")
		r.Header.Set("X-Hub-Signature-256", "sha256=037e8019218b6f3526f73ce493693b2091270a17552a7ca43f059e494420f2f0")
		w := httptest.NewRecorder()
		github.ServeHTTP(w, r)
		fmt.Println(w.Code)
	}
	// Output:
	// booked /stripe
	// 200
	// 200
	// booked /github
	// 200
	// 200
}
