package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/memstore"
)

// eventKey returns the ID of an event of Stripe, which is in its body.
func eventKey(_ *http.Request, body []byte) (string, error) {
	var event struct{ ID string }
	if err := json.Unmarshal(body, &event); err != nil {
		return "", server.Refuse(http.StatusBadRequest, "no-event", "The body is no event.")
	}
	return event.ID, nil
}

// deliveryKey returns the ID of a delivery of GitHub, which is in a header.
func deliveryKey(r *http.Request, _ []byte) (string, error) {
	return r.Header.Get("X-GitHub-Delivery"), nil
}

// A vendor sends its webhook again until it gets a 2xx. The guard sees each event once, by the vendor's own ID. Check the
// vendor's signature in a layer around the guard, so that nobody else can use up its keys.
func ExampleRoute_webhook() {
	guard, err := server.NewGuard(memstore.New(), server.Unscoped, server.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	book := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { fmt.Println("booked") })
	stripe, err := guard.Route(server.Route{Effect: server.Transactional, Key: eventKey}, book)
	if err != nil {
		fmt.Println(err)
		return
	}
	github, err := guard.Route(server.Route{Effect: server.Transactional, Key: deliveryKey}, book)
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 2 {
		event := httptest.NewRequest(http.MethodPost, "/stripe", strings.NewReader(`{"id":"evt_1","type":"charge.succeeded"}`))
		w := httptest.NewRecorder()
		stripe.ServeHTTP(w, event)
		fmt.Println(w.Code)
	}
	push := httptest.NewRequest(http.MethodPost, "/github", strings.NewReader(`{"ref":"main"}`))
	push.Header.Set("X-GitHub-Delivery", "72d3162e-cc78-11e3-81ab-4c9367dc0958")
	w := httptest.NewRecorder()
	github.ServeHTTP(w, push)
	fmt.Println(w.Code)
	// Output:
	// booked
	// 200
	// 200
	// booked
	// 200
}
