package sdk_test

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/sdk"
	"github.com/fanonce/fanonce/sdk/sdktest"
)

// A Booking is the input of both operations, and a Confirmation is their output.
type (
	Booking      struct{ Trip string }
	Confirmation struct{ ID string }
)

// The operations are in packages that their services and their callers import.
var (
	Flight = contract.Post[Booking, Confirmation]("airline", "book", "/flights")
	Hotel  = contract.Post[Booking, Confirmation]("hotels", "book", "/rooms")
)

// One request books a flight and a room at the same time. The answer of the airline is lost.
// The client sends the same call again, and each service books once.
func Example() {
	confirm := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, `{"ID":"confirmed`+r.URL.Path+`"}`)
	})
	airline, hotels := sdktest.Start(confirm), sdktest.Start(confirm) // services for tests
	defer airline.Close()
	defer hotels.Close()
	airline.Script("/flights", sdktest.DropResponse())

	client, err := sdk.New(sdk.Config{Services: map[string]sdk.Service{
		"airline": {URL: airline.URL()}, "hotels": {URL: hotels.URL()},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	// A guarded handler's ctx has a parent key already.
	ctx := childkey.NewContext(context.Background(), childkey.MustParse("trip-1042"))
	fan := client.Fanout(ctx)
	flight := sdk.Add(fan, Flight, Booking{Trip: "Oslo"})
	room := sdk.Add(fan, Hotel, Booking{Trip: "Oslo"})
	if err := fan.Wait(); err != nil {
		fmt.Println(err) // names each call and its outcome; sdk.Resumable(err): run this again
		return
	}
	f, _ := flight.Get(ctx) // Wait returned nil: both are there
	r, _ := room.Get(ctx)
	fmt.Println(f.ID, r.ID)
	fmt.Println("deliveries:", len(airline.Requests()), len(hotels.Requests()))
	fmt.Println("bookings:", len(airline.Effects()), len(hotels.Effects()))
	// Output:
	// confirmed/flights confirmed/rooms
	// deliveries: 2 1
	// bookings: 1 1
}
