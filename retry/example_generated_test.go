package retry_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/sdk/sdktest"
)

// A shippingClient is like a client that a generator such as oapi-codegen makes from an API's
// description. It does not know retries, and sends with the given client.
type shippingClient struct {
	server string
	http   *http.Client
}

type requestEditor func(ctx context.Context, req *http.Request) error

func (c *shippingClient) CreateBooking(ctx context.Context, body string, editors ...requestEditor) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.server+"/bookings", strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	for _, edit := range editors {
		if err := edit(ctx, req); err != nil {
			return nil, err
		}
	}
	return c.http.Do(req)
}

// keyed gives a generated call its child key of the parent key that ctx carries.
func keyed(service, operation string) requestEditor {
	return func(ctx context.Context, req *http.Request) error {
		parent, ok := childkey.FromContext(ctx)
		if !ok {
			return errors.New("no parent key in ctx")
		}
		key, err := childkey.Derive(parent, service, operation)
		if err != nil {
			return err
		}
		req.Header.Set(wire.HeaderKey, key.Quoted())
		return nil
	}
}

// A generated client gets its attempts from the transport, and its keys from an
// editor. Give every callee a retry client of its own: its budget is the callee's.
func ExampleClient_RoundTripper() {
	d := sdktest.Start(nil)
	defer d.Close()
	d.Script("/bookings", sdktest.DropResponse(), sdktest.Status(http.StatusBadGateway, ""))
	client, err := retry.New(retry.Config{})
	if err != nil {
		panic(err)
	}
	shipping := &shippingClient{server: d.URL(), http: &http.Client{Transport: client.RoundTripper()}}

	ctx := childkey.NewContext(context.Background(), childkey.MustParse("order-1042"))
	resp, err := shipping.CreateBooking(ctx, `{"parcel":7}`, keyed("shipping", "book"))
	if err != nil {
		fmt.Println(err) // there is no answer; the *retry.Error in it says what is known
		return
	}
	defer resp.Body.Close()
	fmt.Println(resp.StatusCode, "deliveries:", len(d.Requests()))
	fmt.Println("bookings:", d.Effects())
	// Output:
	// 200 deliveries: 3
	// bookings: map[0cc83ab71c33cb3d2ed371a694ce9228:1]
}
