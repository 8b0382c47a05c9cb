package saga_test

import (
	"context"
	"fmt"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/memjournal"
	"github.com/fanonce/fanonce/saga/sagatest"
)

// What a shop sells may be paid with a gift card in part, and earns points.
type (
	Purchase struct {
		Cents    int
		GiftCard string
	}
	Redeemed struct{ Cents int }
	Payment  struct{ Cents int }
)

var (
	Redeem  = contract.Post[Purchase, Redeemed]("giftcards", "redeem", "/redemptions").UndoneBy(Restore)
	Restore = contract.Post[contract.Undo[Purchase, Redeemed], struct{}]("giftcards", "restore", "/redemptions/restore")
	Earn    = contract.Post[Purchase, struct{}]("loyalty", "earn", "/points").UndoneBy(Revoke)
	Revoke  = contract.Post[contract.Undo[Purchase, struct{}], struct{}]("loyalty", "revoke", "/points/revoke")
	Capture = contract.Post[Payment, struct{}]("payment", "capture", "/captures")
)

func hasGiftCard(p Purchase) bool { return p.GiftCard != "" }

func rest(p Purchase, by Redeemed) Payment { return Payment{p.Cents - by.Cents} }

// Buy redeems a gift card only if there is one, and goes on without points if the shop's programme refuses them.
var Buy = saga.MustDefine("buy", 1, func(b *saga.Builder[Purchase, struct{}]) {
	card := saga.Step(b, Redeem, b.Input()).When(saga.Map(b.Input(), hasGiftCard))
	points := saga.Step(b, Earn, b.Input()).Optional()
	left := saga.Map2(b.Input(), card.Or(saga.Const(b, Redeemed{})), rest)
	saga.Step(b, Capture, left).After(points).Pivot()
})

func ExampleStepRef_When() {
	services := sagatest.NewServices()
	services.Answer("giftcards.redeem", `{"Cents": 300}`)
	services.Script("loyalty.earn", sagatest.Pass(), sagatest.Reject(409)) // the second customer is no member
	client, err := services.Client("giftcards", "loyalty", "payment")
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	engine, err := saga.Open(ctx, memjournal.New(), saga.Config{Client: client, Definitions: []saga.AnyDefinition{Buy}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer engine.Close(ctx)

	_, err = Buy.Run(ctx, engine, childkey.MustParse("order-1"), Purchase{1000, "card-7"})
	fmt.Println(err)
	_, err = Buy.Run(ctx, engine, childkey.MustParse("order-2"), Purchase{1000, ""})
	fmt.Println(err)
	for _, d := range services.Deliveries() {
		if d.Step == "payment.capture" {
			fmt.Println(string(d.Body))
		}
	}
	// Output:
	// <nil>
	// <nil>
	// {"Cents":700}
	// {"Cents":1000}
}
