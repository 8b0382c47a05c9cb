package childkey_test

import (
	"fmt"

	"github.com/fanonce/fanonce/childkey"
)

// A request with one parent key makes two calls. Each call has a key of its own, which is the
// same after a restart and on another replica.
func Example() {
	parent, err := childkey.Parse("order-1042") // from the request's Idempotency-Key
	if err != nil {
		fmt.Println(err)
		return
	}
	reserve, err := childkey.Derive(parent, "inventory", "reserve")
	if err != nil {
		fmt.Println(err)
		return
	}
	charge, err := childkey.Derive(parent, "payment", "charge")
	if err != nil {
		fmt.Println(err)
		return
	}
	again, err := childkey.Derive(parent, "payment", "charge")
	fmt.Println(charge, err)
	fmt.Println(charge == again, charge == reserve)
	// Output:
	// 2452e008968797db063a2704c943368e <nil>
	// true false
}
