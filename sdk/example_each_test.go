package sdk_test

import (
	"fmt"

	"github.com/fanonce/fanonce/sdk"
)

// An OrderLine has an id that it keeps. Two lines may have one SKU, and the
// place of a line in the list may change.
type OrderLine struct{ ID, SKU string }

// One call for each line of an order, told apart by the lines' ids. When the
// order comes again with its lines in another order, every line has its key still.
func ExampleAddEach() {
	client, d := startServices()
	defer d.Close()
	reserve := func(lines ...OrderLine) {
		fan := client.Fanout(orderContext())
		holds := sdk.AddEach(fan, Reserve, lines,
			func(line OrderLine) string { return line.ID },
			func(line OrderLine) Lines { return Lines{SKUs: []string{line.SKU}} })
		if err := fan.Wait(); err != nil {
			fmt.Println(err)
		}
		for _, hold := range holds {
			fmt.Println(hold.Name())
		}
	}
	lamp, another, desk := OrderLine{"line-1", "lamp"}, OrderLine{"line-2", "lamp"}, OrderLine{"line-3", "desk"}
	reserve(lamp, another, desk)
	reserve(desk, another, lamp)

	fmt.Println("deliveries:", len(d.Requests()))
	for _, n := range d.Effects() {
		fmt.Println("holds:", n)
	}
	// Output:
	// inventory.reserve[line-1]
	// inventory.reserve[line-2]
	// inventory.reserve[line-3]
	// inventory.reserve[line-3]
	// inventory.reserve[line-2]
	// inventory.reserve[line-1]
	// deliveries: 6
	// holds: 1
	// holds: 1
	// holds: 1
}
