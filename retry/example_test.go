package retry_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/retry"
)

func ExampleClient_Send() {
	attempts := 0
	payments := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if attempts++; attempts < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintf(w, "charged under %s", r.Header.Get("Idempotency-Key"))
	}))
	defer payments.Close()

	client, err := retry.New(retry.Config{})
	if err != nil {
		panic(err)
	}
	parent, _ := childkey.Parse("order-1042")
	key, _ := childkey.Derive(parent, "payment", "charge")
	resp, err := client.Send(context.Background(), retry.Call{
		Method: http.MethodPost, URL: payments.URL + "/charges", Body: []byte(`{"amount":5}`),
		Key: key, Service: "payment", Operation: "charge",
	})
	if err != nil {
		panic(err)
	}
	fmt.Printf("%d attempts: %s\n", resp.Attempts, resp.Body)
	// Output: 3 attempts: charged under "2452e008968797db063a2704c943368e"
}

func ExampleError() {
	payments := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusPaymentRequired)
	}))
	defer payments.Close()
	client, _ := retry.New(retry.Config{})
	key, _ := childkey.Parse("order-1042")

	_, err := client.Send(context.Background(), retry.Call{
		Method: http.MethodPost, URL: payments.URL, Key: key, Service: "payment", Operation: "charge",
	})
	var failed *retry.Error
	switch {
	case errors.As(err, &failed) && failed.Outcome == retry.Unknown:
		fmt.Println("may have been charged: send the same call with the same key again")
	case errors.Is(err, retry.ErrRejected):
		fmt.Println("not charged:", failed.Status)
	}
	// Output: not charged: 402
}

func ExampleDo() {
	client, _ := retry.New(retry.Config{})
	key, _ := childkey.Parse("order-1042")
	task := retry.Task{Service: "mail", Operation: "receipt", Key: key}

	id, err := retry.Do(context.Background(), client, task,
		func(_ context.Context, attempt retry.Attempt) (string, error) {
			if attempt.Number < 2 {
				return "", errors.New("connection lost")
			}
			return "mail-7", nil // sent with task.Key
		}, nil)
	fmt.Println(id, err)
	// Output: mail-7 <nil>
}
