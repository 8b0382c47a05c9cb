package sdk_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/fanonce/fanonce/sdk"
	"github.com/fanonce/fanonce/sdk/sdktest"
)

// From here to newBookingsClient the code is what oapi-codegen makes of an API's
// description, but for its length. It does not know keys and retries.
type (
	HTTPRequestDoer interface {
		Do(req *http.Request) (*http.Response, error)
	}
	BookingsClient struct {
		Server string
		Client HTTPRequestDoer
	}
	BookingsOption func(*BookingsClient)

	CreateBookingBody     struct{ Parcel int }
	CreateBookingResponse struct {
		Body         []byte
		HTTPResponse *http.Response
		JSON201      *struct{ ID string }
	}
)

func WithHTTPClient(doer HTTPRequestDoer) BookingsOption {
	return func(c *BookingsClient) { c.Client = doer }
}

func (c *BookingsClient) CreateBookingWithResponse(ctx context.Context, body CreateBookingBody) (*CreateBookingResponse, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.Server+"/bookings", strings.NewReader(string(text)))
	if err != nil {
		return nil, err
	}
	req.Header.Add("Content-Type", "application/json")
	rsp, err := c.Client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rsp.Body.Close() }()
	response := &CreateBookingResponse{HTTPResponse: rsp}
	if response.Body, err = io.ReadAll(rsp.Body); err != nil {
		return nil, err
	}
	if rsp.StatusCode == http.StatusCreated {
		err = json.Unmarshal(response.Body, &response.JSON201)
	}
	return response, err
}

func newBookingsClient(server string, options ...BookingsOption) *BookingsClient {
	c := &BookingsClient{Server: server}
	for _, option := range options {
		option(c)
	}
	return c
}

// A generated client joins with one line: the transport of its http.Client. Its requests
// then have the child keys of the request that they are made for, and are repeated.
func ExampleClient_RoundTripper() {
	shipping := sdktest.Start(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, `{"ID":"booking-1"}`)
	}))
	defer shipping.Close()
	shipping.Script("/bookings", sdktest.DropResponse(), sdktest.Status(http.StatusBadGateway, ""))
	client, err := sdk.New(sdk.Config{Services: map[string]sdk.Service{"shipping": {
		URL: shipping.URL(), Templates: []string{"POST /bookings", "POST /bookings/{id}/cancel"},
	}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	bookings := newBookingsClient(shipping.URL(), WithHTTPClient(&http.Client{Transport: client.RoundTripper("shipping")}))

	booking, err := bookings.CreateBookingWithResponse(orderContext(), CreateBookingBody{Parcel: 7})
	if err != nil {
		fmt.Println(err) // there is no answer; the *retry.Error in it says what is known
		return
	}
	fmt.Println(booking.JSON201.ID, "deliveries:", len(shipping.Requests()))
	fmt.Println("bookings:", shipping.Effects())
	// Output:
	// booking-1 deliveries: 3
	// bookings: map[efae28f5e6e787af993542538fe8752e:1]
}
