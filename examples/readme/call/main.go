// Call makes one call.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/examples/readme/shopapi"
	"github.com/fanonce/fanonce/sdk"
)

func main() {
	client, err := sdk.New(sdk.Config{Services: map[string]sdk.Service{"inventory": {URL: "http://localhost:8080"}}})
	if err != nil {
		log.Fatal(err)
	}
	ctx := childkey.NewContext(context.Background(), childkey.MustParse("order-2")) // the parent key
	hold, err := sdk.Call(ctx, client, shopapi.Reserve, shopapi.Line{SKU: "tea"})
	fmt.Println(hold, err)
}
