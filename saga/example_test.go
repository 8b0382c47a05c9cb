package saga_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/saga/memjournal"
	"github.com/fanonce/fanonce/saga/sagatest"
)

// The services declare these operations in packages that they and their callers import.
type (
	Order   struct{ SKU, Card string }
	Hold    struct{ ID string }
	Charge  struct{ ID string }
	Booking struct{ Hold, Charge string }
	Parcel  struct{ Track string }
)

var (
	Reserve  = contract.Post[Order, Hold]("inventory", "reserve", "/reservations").UndoneBy(Release)
	Release  = contract.Post[contract.Undo[Order, Hold], struct{}]("inventory", "release", "/reservations/release")
	Pay      = contract.Post[Order, Charge]("payment", "charge", "/charges").UndoneBy(Refund)
	Refund   = contract.Post[contract.Undo[Order, Charge], struct{}]("payment", "refund", "/charges/refund")
	Book     = contract.Post[Booking, Parcel]("shipping", "book", "/parcels")
	SendMail = contract.Post[Parcel, struct{}]("mail", "receipt", "/receipts")
)

// Checkout reserves and charges in parallel. The booking needs both steps, and is the pivot. If
// the booking is refused, both steps are undone. After it only the mail is left, which is retried
// until it succeeds.
var Checkout = saga.MustDefine("checkout", 1, func(b *saga.Builder[Order, string]) {
	hold := saga.Step(b, Reserve, b.Input())
	charge := saga.Step(b, Pay, b.Input())
	parcel := saga.Step(b, Book, saga.Map2(hold.Output(), charge.Output(), toBooking)).Pivot()
	saga.Step(b, SendMail, parcel.Output()).Retriable()
	saga.Return(b, saga.Map(parcel.Output(), func(p Parcel) string { return p.Track }))
})

func toBooking(h Hold, c Charge) Booking { return Booking{Hold: h.ID, Charge: c.ID} }

// openExample opens an engine on services in memory. In a program the journal is
// pgjournal's, and the client has the services' URLs.
func openExample(services *sagatest.Services) (*saga.Engine, error) {
	client, err := services.Client("inventory", "payment", "shipping", "mail")
	if err != nil {
		return nil, err
	}
	return saga.Open(context.Background(), memjournal.New(), saga.Config{
		Client:      client,
		Definitions: []saga.AnyDefinition{Checkout},
	})
}

func ExampleDefinition_Run() {
	services := sagatest.NewServices()
	services.Answer("shipping.book", `{"Track":"T-1"}`)
	engine, err := openExample(services)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	defer engine.Close(ctx)

	key := childkey.MustParse("order-1042") // of the request; the same when it is repeated
	track, err := Checkout.Run(ctx, engine, key, Order{SKU: "a-1", Card: "visa"})
	fmt.Println(track, err)
	again, err := Checkout.Run(ctx, engine, key, Order{SKU: "a-1", Card: "visa"})
	fmt.Println(again, err, len(services.Deliveries()))
	// Output:
	// T-1 <nil>
	// T-1 <nil> 4
}

func ExampleError() {
	services := sagatest.NewServices()
	services.Script("shipping.book", sagatest.Reject(409))
	engine, err := openExample(services)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	defer engine.Close(ctx)

	_, err = Checkout.Run(ctx, engine, childkey.MustParse("order-1043"), Order{})
	var failed *saga.Error
	if errors.As(err, &failed) {
		fmt.Println(failed.Status, failed.FailedStep, failed.Outcome, len(failed.Undone))
	}
	fmt.Println(errors.Is(err, saga.ErrCompensated), errors.Is(err, retry.ErrRejected))
	fmt.Println(services.Effects("payment.charge"))
	// Output:
	// compensated shipping.book Rejected 2
	// true true
	// {1 1 false false}
}

// The customer is to read why the card was declined, whichever process made the call.
func ExampleError_Decode() {
	services := sagatest.NewServices()
	services.Script("payment.charge", sagatest.RejectWith(402, `{"code":"card-declined","detail":"No funds.","retry_on":"2031-02-01"}`))
	engine, err := openExample(services)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	defer engine.Close(ctx)

	_, err = Checkout.Run(ctx, engine, childkey.MustParse("order-1048"), Order{})
	var failed *saga.Error
	if errors.As(err, &failed) && failed.Code == "card-declined" {
		var declined struct {
			RetryOn string `json:"retry_on"`
		}
		err = failed.Decode(&declined)
		fmt.Println(failed.FailedStep, failed.HTTPStatus, failed.Detail, declined.RetryOn, err)
	}
	// Output: payment.charge 402 No funds. 2031-02-01 <nil>
}

// Reserve and Pay name their undos; the operation that takes goods for good does not.
func ExampleDefine() {
	_, err := saga.Define("transfer", 1, func(b *saga.Builder[Order, struct{}]) {
		hold := saga.Step(b, contract.Post[Order, Hold]("inventory", "take", "/takes"), b.Input())
		saga.Step(b, Pay, saga.Map2(b.Input(), hold.Output(), func(o Order, _ Hold) Order { return o }))
	})
	fmt.Println(err)
	// Output:
	// saga: plan transfer version 1:
	// 	missing undo: step inventory.take has no undo, and payment.charge can fail after it; give it Undo, ReadOnly, Irreversible, Pivot or Retriable
}

func ExampleStepFunc() {
	transfer := saga.MustDefine("transfer", 1, func(b *saga.Builder[int, struct{}]) {
		saga.StepFunc(b, "bank.transfer", b.Input(), func(_ context.Context, call saga.Call[int]) (string, error) {
			// A bank of no HTTP: it takes the key, and books it once.
			return fmt.Sprintf("booked %d under a key of %d bytes", call.Input, len(call.Key.String())), nil
		}).UndoFunc("bank.recall", func(_ context.Context, undo saga.UndoCall[int, string]) error {
			return nil // by undo.Forward, also where undo.Output is nil
		})
	})
	fmt.Println(transfer.Steps()[0].Name, transfer.Steps()[0].Undo)
	// Output: bank.transfer bank.recall
}

func ExampleEngine_ForceUndone() {
	services := sagatest.NewServices()
	services.Script("shipping.book", sagatest.Reject(409))
	services.ScriptUndo("payment.charge", sagatest.Reject(422)) // which an undo must not do
	engine, err := openExample(services)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	defer engine.Close(ctx)

	key := childkey.MustParse("order-1044")
	_, err = Checkout.Run(ctx, engine, key, Order{})
	fmt.Println(errors.Is(err, saga.ErrStuck))
	stuck, err := engine.Reader().Browse(ctx, journal.BrowseRequest{Statuses: []journal.Status{journal.Stuck}, Limit: 10})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, r := range stuck {
		fmt.Println(r.Name, "is stuck on the undo of", r.StuckOn.Step, r.StuckOn.Status)
	}

	// Somebody paid it back by hand.
	by := journal.Audit{Actor: "ann@example.com", Reason: "refunded by bank transfer, ticket 77"}
	_, err = engine.ForceUndone(ctx, stuck[0].ID, "payment.charge", by)
	fmt.Println(err)
	_, err = Checkout.Run(ctx, engine, key, Order{})
	fmt.Println(errors.Is(err, saga.ErrCompensated))
	// Output:
	// true
	// checkout is stuck on the undo of payment.charge 422
	// <nil>
	// true
}

// An operator needs no client and no engine: a command line shows what is stuck, and moves it on.
func ExampleNewOperator() {
	ctx := context.Background()
	j, service := stuckRefund(ctx) // the service is another process, on the same database
	defer service.Close(ctx)

	operator, err := saga.NewOperator(j, Checkout)
	if err != nil {
		fmt.Println(err)
		return
	}
	stuck, err := operator.Reader().Browse(ctx, journal.BrowseRequest{Statuses: []journal.Status{journal.Stuck}, Limit: 10})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, r := range stuck {
		fmt.Println(r.Name, "is stuck on the undo of", r.StuckOn.Step)
		by := journal.Audit{Actor: "ann@example.com", Reason: "refunded by hand, ticket 78", Revision: r.Revision}
		r, err = operator.ForceUndone(ctx, r.ID, "payment.charge", by)
		fmt.Println(r.Status, err)
		log, err := operator.Reader().AuditPage(ctx, journal.AuditRequest{ID: r.ID, Limit: 1})
		fmt.Println(log[0].Verb, log[0].Step, "by", log[0].Actor, err)
	}
	// The service's engine goes on with it.
	_, err = Checkout.Run(ctx, service, childkey.MustParse("order-1047"), Order{})
	fmt.Println(errors.Is(err, saga.ErrCompensated))
	// Output:
	// checkout is stuck on the undo of payment.charge
	// compensating <nil>
	// force-undone payment.charge by ann@example.com <nil>
	// true
}

// stuckRefund returns the journal and the engine of a service that has a stuck saga.
func stuckRefund(ctx context.Context) (journal.Journal, *saga.Engine) {
	services, j := sagatest.NewServices(), memjournal.New()
	services.Script("shipping.book", sagatest.Reject(409))
	services.ScriptUndo("payment.charge", sagatest.Reject(422))
	client, err := services.Client("inventory", "payment", "shipping", "mail")
	if err != nil {
		panic(err)
	}
	engine, err := saga.Open(ctx, j, saga.Config{Client: client, Definitions: []saga.AnyDefinition{Checkout}})
	if err != nil {
		panic(err)
	}
	if _, err = Checkout.Run(ctx, engine, childkey.MustParse("order-1047"), Order{}); !errors.Is(err, saga.ErrStuck) {
		panic(err)
	}
	return j, engine
}

func ExampleEngine_RunSweeper() {
	engine, err := openExample(sagatest.NewServices())
	if err != nil {
		fmt.Println(err)
		return
	}
	go engine.RunSweeper(context.Background())
	// … until the service is shut down
	fmt.Println(engine.Close(context.Background())) // ends the sweeper, too
	// Output: <nil>
}

func ExampleMetrics() {
	metrics := saga.NewMetrics() // or, for /debug/vars: expvar.Publish("fanonce_saga", metrics)
	services := sagatest.NewServices()
	services.Script("shipping.book", sagatest.Pass(), sagatest.Reject(409))
	client, err := services.Client("inventory", "payment", "shipping", "mail")
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	engine, err := saga.Open(ctx, memjournal.New(), saga.Config{
		Client:      client,
		Definitions: []saga.AnyDefinition{Checkout}, Observer: metrics,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer engine.Close(ctx)

	_, err = Checkout.Run(ctx, engine, childkey.MustParse("order-1045"), Order{})
	fmt.Println(err)
	_, err = Checkout.Run(ctx, engine, childkey.MustParse("order-1046"), Order{})
	fmt.Println(errors.Is(err, saga.ErrCompensated))
	counts := metrics.Snapshot().Sagas["checkout"]
	fmt.Println(counts.Started, "started,", counts.Completed, "completed,", counts.Compensated, "compensated")
	// Output:
	// <nil>
	// true
	// 2 started, 1 completed, 1 compensated
}
