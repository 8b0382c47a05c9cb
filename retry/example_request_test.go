package retry_test

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/sdk/sdktest"
)

// Code that has an *http.Request keeps it: the client's Do is that of an
// http.Client. An answer that no retry can better is a response, not an error.
func ExampleClient_Do() {
	payments := sdktest.Start(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusPaymentRequired)
	}))
	defer payments.Close()
	payments.Script("/charges", sdktest.Status(http.StatusServiceUnavailable, ""))
	client, err := retry.New(retry.Config{})
	if err != nil {
		panic(err)
	}
	req, err := http.NewRequest(http.MethodPost, payments.URL()+"/charges", strings.NewReader(`{"amount":5}`))
	if err != nil {
		panic(err)
	}
	req.Header.Set("Idempotency-Key", `"order-1042"`) // makes it safe to repeat

	resp, err := client.Do(req)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	fmt.Println(resp.Status, "deliveries:", len(payments.Requests()))
	// Output: 402 Payment Required deliveries: 2
}
