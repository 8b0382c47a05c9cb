package main

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/pgjournal"
)

// An orderInput is what a customer orders.
type orderInput struct {
	Tenant   string      `json:"tenant"`
	Saga     string      `json:"saga"` // its key
	Lines    []orderLine `json:"lines"`
	GiftCard string      `json:"gift_card,omitempty"`
	Total    int         `json:"total"` // in dollars
	CoolOff  int         `json:"cool_off_ms"`
	Reject   string      `json:"reject,omitempty"` // the step that is to be refused; "": none
}

type orderLine struct {
	SKU string `json:"sku"`
}

// A decision is what a person says about a large order.
type decision struct {
	Approved bool   `json:"approved"`
	By       string `json:"by"`
}

// decided is what a large order waits for.
var decided = saga.NewSignal[decision]("orders.approval")

// newOrderSaga returns the saga of an order. Its lines are held, one by one, and a gift card is redeemed if there is one. The
// payment is authorized. Over $1,000 a person decides within two days. When the customer has had time to change their mind the
// order is marked as paid, the payment is captured, and the receipt is sent. What fails before the capture is undone as a whole.
func newOrderSaga(j *pgjournal.Journal) *saga.Definition[orderInput, struct{}] {
	return saga.MustDefine("order", 1, func(b *saga.Builder[orderInput, struct{}]) {
		order := b.Input()
		held := saga.Each(b, holdLine, saga.Map(order, linesOf), nameOfLine)
		gift := saga.Step(b, redeem, saga.Map(order, inputFor("payment.redeem"))).When(saga.Map(order, hasGiftCard))
		authorized := saga.Step(b, auth, saga.Map(order, inputFor("payment.authorize"))).After(held, gift)

		approval := saga.Await(b, decided).Timeout(48 * time.Hour).When(saga.Map(order, isLarge)).After(authorized)
		verdict := approval.Or(saga.Const(b, decision{Approved: true, By: "the limit"}))
		cooled := saga.Sleep(b, "orders.cool", saga.Map(order, coolOff)).After(approval)

		paid := saga.StepFunc(b, "orders.paid", saga.Map2(order, verdict, toPaid), pgjournal.Local(j, markPaid)).
			UndoFunc("orders.unpaid", pgjournal.UndoLocal(j, unmarkPaid)).After(cooled)
		captured := saga.Step(b, capture, saga.Map(order, inputFor("payment.capture"))).
			At("id", saga.Map(authorized.Output(), effectID)).Pivot().After(paid)
		saga.Step(b, receipt, saga.Map(order, inputFor("notification.receipt"))).Retriable().After(captured)
	})
}

// inputFor returns what the hop of that step is asked for.
func inputFor(step string) func(orderInput) effectInput {
	return func(o orderInput) effectInput {
		return effectInput{FP: step, Saga: o.Saga, Kind: "do", Reject: o.Reject == step}
	}
}

func linesOf(o orderInput) []effectInput {
	lines := make([]effectInput, len(o.Lines))
	for i, line := range o.Lines {
		lines[i] = effectInput{FP: line.SKU, Saga: o.Saga, Kind: "do", Reject: o.Reject == "inventory.hold["+line.SKU+"]"}
	}
	return lines
}

func nameOfLine(line effectInput) string { return line.FP }
func hasGiftCard(o orderInput) bool      { return o.GiftCard != "" }
func isLarge(o orderInput) bool          { return o.Total > 1000 }
func coolOff(o orderInput) time.Duration { return time.Duration(o.CoolOff) * time.Millisecond }
func effectID(e effect) string           { return e.EffectID }

// A payment is the input of the step that marks the order as paid.
type payment struct {
	Tenant   string   `json:"tenant"`
	Saga     string   `json:"saga"`
	Decision decision `json:"decision"`
	Reject   bool     `json:"reject,omitempty"`
}

func toPaid(o orderInput, d decision) payment {
	return payment{o.Tenant, o.Saga, d, o.Reject == "orders.paid"}
}

// markPaid and its undo write the service's own table, in the transaction in which the journal notes the step.
func markPaid(ctx context.Context, tx pgx.Tx, p payment) (struct{}, error) {
	if p.Reject || !p.Decision.Approved {
		return struct{}{}, saga.Rejected(errors.New("declined by " + p.Decision.By))
	}
	_, err := tx.Exec(ctx, "insert into paid_orders (tenant, saga, approved_by) values ($1, $2, $3)", p.Tenant, p.Saga, p.Decision.By)
	return struct{}{}, err
}

func unmarkPaid(ctx context.Context, tx pgx.Tx, p payment, paid *struct{}) error {
	if paid == nil {
		return saga.ErrNothingToUndo
	}
	_, err := tx.Exec(ctx, "delete from paid_orders where tenant = $1 and saga = $2", p.Tenant, p.Saga)
	return err
}
