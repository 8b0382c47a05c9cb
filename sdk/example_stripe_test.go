package sdk_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/sdk"
	"github.com/fanonce/fanonce/sdk/sdktest"
)

// Collect is a call of Stripe as an operation: its codec writes the form, and PayBack undoes it.
var (
	Collect = contract.Post[Payment, Collected]("stripe", "collect", "/v1/payment_intents").WithCodec(stripeForm{}).UndoneBy(PayBack)
	PayBack = contract.Post[contract.Undo[Payment, Collected], struct{}]("stripe", "refund", "/v1/refunds").WithCodec(stripeForm{})
)

type Collected struct {
	ID     string `json:"id"`
	Amount int    `json:"amount"`
}

type stripeForm struct{}

func (stripeForm) ContentType() string { return "application/x-www-form-urlencoded" }

func (stripeForm) Encode(v any) ([]byte, error) {
	values := url.Values{}
	switch in := v.(type) {
	case Payment:
		values.Set("amount", strconv.Itoa(in.Cents))
	case contract.Undo[Payment, Collected]:
		if in.Output == nil {
			return nil, errors.New("which payment to pay back is not known yet")
		}
		values.Set("payment_intent", in.Output.ID)
	}
	return []byte(values.Encode()), nil // sorted, and so the same bytes after a restart
}

func (stripeForm) Decode(data []byte, v any) error {
	if _, sent := v.(*Payment); sent {
		return nil // PayBack does not need it
	}
	return json.Unmarshal(data, v)
}

// stripeLike is an API as Stripe's: forms go in, and its own header says whether a failure is worth a retry.
func stripeLike() *sdktest.Downstream {
	return sdktest.Start(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.PostFormValue("amount") == "0" {
			w.Header().Set("Stripe-Should-Retry", "false")
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		fmt.Fprintf(w, `{"id":"pi_1","amount":%s}`, r.PostFormValue("amount"))
	}))
}

// The first answer is lost, the second says that the first run is still going,
// the third is the replay: one payment, under one bare key.
func Example_stripe() {
	d := stripeLike()
	defer d.Close()
	d.Script("/v1/payment_intents",
		sdktest.DropResponse(),
		sdktest.Status(http.StatusConflict, `{"error":{"type":"idempotency_error"}}`))
	client, err := sdk.New(sdk.Config{Services: map[string]sdk.Service{"stripe": {
		URL: d.URL(), Profile: retry.Stripe(), Header: http.Header{"Authorization": {"Bearer sk_test"}},
	}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := orderContext()
	paid, err := sdk.Call(ctx, client, Collect, Payment{Cents: 1999})
	fmt.Println(paid, err)
	fmt.Println("payments:", d.Effects())

	// A failure that says not to come back is not retried, though it is a 500.
	d.Script("/v1/payment_intents")
	_, err = sdk.Call(ctx, client, Collect.For("tip"), Payment{})
	var failed *retry.Error
	if errors.As(err, &failed) {
		fmt.Println(failed.Status, failed.Outcome, "attempts:", failed.Attempts)
	}
	// Output:
	// {pi_1 1999} <nil>
	// payments: map[fc5f41c01a5706f2aba9c1a6e7999e1c:1]
	// 500 Unknown attempts: 1
}

// The bank declines the second payment of an order, in Stripe's words. The first one is paid back.
func Example_stripeUndo() {
	d := stripeLike()
	defer d.Close()
	client, err := sdk.New(sdk.Config{Services: map[string]sdk.Service{"stripe": {URL: d.URL(), Profile: retry.Stripe()}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := orderContext()
	fan := client.Fanout(ctx)
	first := sdk.Add(fan, Collect, Payment{Cents: 1999})
	sdk.AddFunc(fan, "second", func(ctx context.Context) (Collected, error) {
		if _, err := first.Get(ctx); err != nil {
			return Collected{}, err
		}
		d.Script("/v1/payment_intents", sdktest.Status(402, `{"error":{"code":"card_declined","message":"No funds."}}`))
		return sdk.Call(ctx, client, Collect.For("second"), Payment{Cents: 500})
	})
	if err := fan.Wait(); err != nil && !sdk.Resumable(err) {
		fmt.Println("undone:", fan.Undo(ctx))
		refused := sdk.RefusalOf(err)
		fmt.Println(refused.Status, refused.Code, refused.Detail)
	}
	requests := d.Requests()
	last := requests[len(requests)-1]
	fmt.Println(last.Path, string(last.Body))
	// Output:
	// undone: <nil>
	// 402 card_declined No funds.
	// /v1/refunds payment_intent=pi_1
}
