package retry_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/sdk/sdktest"
)

// The answer to the first attempt is lost. The second attempt has the same key, so it gets the
// answer of the one effect. Another call is refused, and its error says so.
func Example() {
	payment := sdktest.Start(nil) // a service for tests, which runs each key once
	defer payment.Close()
	payment.Script("/charges", sdktest.DropResponse())
	payment.Script("/refunds", sdktest.Status(http.StatusUnprocessableEntity, ""))

	client, err := retry.New(retry.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	charge, err := client.Send(context.Background(), retry.Call{
		Method: http.MethodPost, URL: payment.URL() + "/charges", Key: childkey.MustParse("order-1042.charge"),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("charged after", charge.Attempts, "attempts; effects:", len(payment.Effects()))

	_, err = client.Send(context.Background(), retry.Call{
		Method: http.MethodPost, URL: payment.URL() + "/refunds", Key: childkey.MustParse("order-1042.refund"),
	})
	var failed *retry.Error
	if errors.As(err, &failed) {
		fmt.Println(failed.Status, failed.Outcome)
	}
	// Output:
	// charged after 2 attempts; effects: 1
	// 422 Rejected
}
