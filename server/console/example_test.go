package console_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/console"
	"github.com/fanonce/fanonce/server/memstore"
)

// A service mounts the page on a listener of its own. The proxy before it has authenticated the person.
func ExampleNew() {
	keys := memstore.New()
	guard, err := server.NewGuard(keys, server.Unscoped, server.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	page, err := console.New(console.Config{
		Prefix: "/ops",
		Stores: []console.Store{{Name: "orders", Reader: keys.Reader(), Guard: guard}},
		Authenticate: func(r *http.Request) (console.User, error) {
			name := r.Header.Get("X-Forwarded-User")
			if name == "" {
				return console.User{}, errors.New("no user")
			}
			return console.User{Name: name, Role: console.Observer}, nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	mux := http.NewServeMux()
	mux.Handle("/ops/", page)

	for _, user := range []string{"", "ann@example.com"} {
		r := httptest.NewRequest(http.MethodGet, "/ops/", nil)
		r.Header.Set("X-Forwarded-User", user)
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		fmt.Println(w.Code)
	}
	// Output:
	// 401
	// 200
}
