// Checkout is the demo: four services, each with a database of its own, behind a network that
// loses, repeats, cuts and delays messages. The payment service is killed now and then. It
// places orders, and then counts in the ledgers whether each took effect exactly once.
//
//	go run ./examples/checkout
//	go run ./examples/checkout -faults=brutal -seed=7
//	go run ./examples/checkout -unsafe     # the same without keys: double charges
//	go run ./examples/checkout -serve      # goes on until Ctrl-C: watch and steer it in a browser
//
// It uses the Postgres of DATABASE_URL, else a private one from the binaries of
// this machine, else memory. With -install-postgres it installs Debian's package first, where there is none.
//
// STORE is the address of another store, for the keys of the Keyed and Opaque routes. This command opens
// memory:// and postgres://. The one in examples/integrations/stores also opens Redis:
//
//	STORE=redis://localhost:6379 go run -C examples/integrations ./stores/checkout
//
// Start reading at internal/checkout: that is the service that fans out. The
// services that it calls are internal/inventory, payment and notification;
// what they promise each other is in the folders that end in api. The stage
// around them is demo.
//
// It exits with 0 if every accepted checkout took effect once, with 1 if one
// did not, or did twice, and with 2 if it could not tell.
package main

import (
	"os"

	"github.com/fanonce/fanonce/examples/checkout/demo"
)

func main() { os.Exit(demo.Main(nil)) }
