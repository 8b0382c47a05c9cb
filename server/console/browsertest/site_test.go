package browsertest_test

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/console"
	"github.com/fanonce/fanonce/server/store"
)

const prefix = "/ops"

// A site is a console on a running system, behind a real server.
type site struct {
	*httptest.Server
	backend
	tb       testing.TB
	guard    *server.Guard
	engine   *saga.Engine
	checkout *saga.Definition[string, nothing]
}

type nothing struct{}

// checkout is a saga whose errors have planted text.
var checkout = defineCheckout(" " + planted)

// defineCheckout defines a saga that its input makes fail: each way but "well" needs a person. Its errors end with a text.
func defineCheckout(end string) *saga.Definition[string, nothing] {
	return saga.MustDefine("checkout", 1, func(b *saga.Builder[string, nothing]) { buildCheckout(b, end) })
}

func buildCheckout(b *saga.Builder[string, nothing], end string) {
	fails := func(err error, on ...string) func(context.Context, saga.Call[string]) (nothing, error) {
		return func(_ context.Context, call saga.Call[string]) (nothing, error) {
			if slices.Contains(on, call.Input) {
				return nothing{}, err
			}
			return nothing{}, nil
		}
	}
	undo := func(_ context.Context, call saga.UndoCall[string, nothing]) error {
		switch call.Input {
		case undoRefused:
			return saga.Rejected(errors.New("already shipped" + end))
		case undoWaiting:
			return errors.New("busy" + end)
		}
		return nil
	}
	reserve := saga.StepFunc(b, "stock.reserve", b.Input(), fails(nil)).UndoFunc("stock.release", undo)
	coupon := saga.StepFunc(b, "coupons.redeem", b.Input(), fails(saga.Rejected(errors.New("used"+end)), undoRefused, undoWaiting)).
		UndoFunc("coupons.restore", undo).After(reserve)
	charge := saga.StepFunc(b, "payments.charge", b.Input(), fails(errors.New("no answer"+end), pivotUnknown)).After(coupon).Pivot().
		Retry(saga.RetryPolicy{Attempts: 1})
	patient := saga.RetryPolicy{Backoff: retry.Backoff{Base: time.Hour, Cap: time.Hour, Jitter: 0.1}} // no test sees its end
	parcel := saga.StepFunc(b, "shipping.book", b.Input(), func(ctx context.Context, call saga.Call[string]) (nothing, error) {
		if call.Input == waiting {
			return nothing{}, errors.New("busy" + end)
		}
		return fails(saga.Rejected(errors.New("no parcel"+end)), refused)(ctx, call)
	}).After(charge).Retriable().Retry(patient)
	saga.StepFunc(b, "mail.confirm", b.Input(), fails(nil)).After(charge).Retriable()
	saga.Return(b, parcel.Output())
}

// The inputs of checkout.
const (
	well         = "well"
	refused      = "refused"       // stuck: the step after the pivot is refused
	undoRefused  = "undo refused"  // stuck: the saga goes back, and an undo is refused
	pivotUnknown = "pivot unknown" // stuck: the outcome of the pivot is unknown
	waiting      = "waiting"       // running: a step is tried again and again
	undoWaiting  = "undo waiting"  // compensating: an undo is tried again and again
)

// newSite starts a site in Postgres. It has no keys and sagas yet. change may change its config; nil changes nothing.
func newSite(tb testing.TB, change func(*console.Config)) *site {
	tb.Helper()
	return newSiteOn(tb, inPostgres(tb), change)
}

// newSiteOn starts a site on a backend.
func newSiteOn(tb testing.TB, be backend, change func(*console.Config)) *site {
	tb.Helper()
	return newSiteOf(tb, be, checkout, change)
}

// newSiteOf starts a site on a backend, with a definition of its sagas.
func newSiteOf(tb testing.TB, be backend, of *saga.Definition[string, nothing], change func(*console.Config)) *site {
	tb.Helper()
	s := &site{tb: tb, backend: be, checkout: of}
	var err error
	s.guard, err = server.NewGuard(s.keys, server.Unscoped, server.Config{})
	require.NoError(tb, err)
	s.engine, err = saga.Open(tb.Context(), s.sagas, saga.Config{Definitions: []saga.AnyDefinition{of}})
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, s.engine.Close(context.Background())) })
	cfg := configOf(be)
	cfg.Stores[0].Guard, cfg.Sagas[0].Operator = s.guard, s.engine
	if change != nil {
		change(&cfg)
	}
	c, err := console.New(cfg)
	require.NoError(tb, err)
	mux := http.NewServeMux()
	mux.Handle(prefix+"/", c)
	s.Server = httptest.NewServer(mux)
	tb.Cleanup(s.Close)
	return s
}

// configOf is the config of a console that can only read.
func configOf(be backend) console.Config {
	return console.Config{
		Title: "Shop", Prefix: prefix, Authenticate: authenticate,
		Stores: []console.Store{{Name: "orders", Reader: be.keyReader}},
		Sagas:  []console.Sagas{{Name: "checkouts", Reader: be.reader}},
	}
}

// authenticate knows two users by their cookie.
func authenticate(r *http.Request) (console.User, error) {
	cookie, err := r.Cookie("user")
	if err != nil {
		return console.User{}, err
	}
	switch cookie.Value {
	case "ada":
		return console.User{Name: "ada", Role: console.Operator}, nil
	case "olaf":
		return console.User{Name: "olaf", Role: console.Observer}, nil
	}
	return console.User{}, errors.New("unknown user")
}

// number makes the ID of a key in these tests. It is a hash, as the IDs of real keys are.
func number(n int) store.ID {
	sum := sha256.Sum256(binary.BigEndian.AppendUint32([]byte("key"), uint32(n)))
	id := store.ID(sum[:len(store.ID{})])
	id[6], id[8] = id[6]&0x0f|0x80, id[8]&0x3f|0x80 // a UUID of version 8
	return id
}

// plant makes a record with that state and route. Its parent is number(parent), or none for 0.
func (s *site) plant(n, parent int, state store.State, route string) store.ID {
	s.tb.Helper()
	id, of := number(n), store.ID{}
	if parent > 0 {
		of = number(parent)
	}
	require.NoError(s.tb, s.makeChild(id, of, state, route))
	return id
}

// make makes a record without a parent.
func (s *site) make(id store.ID, state store.State, route string) error {
	return s.makeChild(id, store.ID{}, state, route)
}

func (s *site) makeChild(id, parent store.ID, state store.State, route string) error {
	ctx, lease := context.Background(), time.Hour
	if state == store.StateQuarantined {
		lease = time.Microsecond
	}
	req := store.ClaimRequest{
		ID: id, Parent: parent, Token: store.Token(id), Fingerprint: store.Fingerprint{Version: 1, Sum: [32]byte{1}}, Effect: store.Opaque,
		Lease: lease, Keep: time.Hour, Window: time.Hour, Route: route,
	}
	rec, _, err := s.keys.Claim(ctx, req)
	if err != nil {
		return err
	}
	owner := store.Owner{ID: id, Token: req.Token, Fence: rec.Fence}
	switch state {
	case store.StateInProgress:
		return nil
	case store.StateQuarantined:
		_, _, err := s.keys.Quarantine(ctx, store.QuarantineRequest{ID: id, From: rec.Fence, To: store.StateQuarantined, Route: route})
		return err
	case store.StateCompleted:
		return s.keys.Settle(ctx, owner, store.Settlement{State: state, Answer: store.Answer{Status: 201}, ReplayFor: time.Hour})
	default:
		return s.keys.Settle(ctx, owner, store.Settlement{State: state})
	}
}

// letter makes the completed key of a dead letter.
func (s *site) letter(n int, route string) store.ID {
	s.tb.Helper()
	id := s.plant(n, 0, store.StateInProgress, route)
	require.NoError(s.tb, s.keys.Settle(context.Background(), store.Owner{ID: id, Token: store.Token(id), Fence: 1}, store.Settlement{
		State: store.StateCompleted, Answer: store.Answer{Status: 500}, ReplayFor: time.Hour, DeadLetter: true,
	}))
	return id
}

// state returns the state of a key; 0 if it is gone.
func (s *site) state(id store.ID) store.State {
	s.tb.Helper()
	rec, err := s.keys.Read(context.Background(), id)
	if errors.Is(err, store.ErrNotFound) {
		return 0
	}
	require.NoError(s.tb, err)
	return rec.State
}

// run starts a saga with that input, and waits until it has the status.
func (s *site) run(key, scope, input string, until journal.Status) journal.ID {
	s.tb.Helper()
	ctx := context.Background()
	rec, err := s.checkout.Start(ctx, s.engine, childkey.MustParse(key), input, saga.Scope(scope))
	require.NoError(s.tb, err)
	s.until(rec.ID, until)
	return rec.ID
}

func (s *site) until(id journal.ID, status journal.Status) {
	s.tb.Helper()
	require.Eventually(s.tb, func() bool {
		rec, err := s.engine.Lookup(context.Background(), id)
		return err == nil && rec.Status == status
	}, patience, time.Millisecond, "saga %v does not become %v", id, status)
}

// untilItWaits waits until the record of the saga has a wait. A saga runs before its first attempt, and then has none.
func (s *site) untilItWaits(id journal.ID) {
	s.tb.Helper()
	require.Eventually(s.tb, func() bool {
		rec, err := s.engine.Reader().Show(context.Background(), id)
		return err == nil && slices.ContainsFunc(rec.Entries, func(e journal.Entry) bool { return e.Pending && e.RetryAt.After(rec.Now) })
	}, patience, time.Millisecond, "no call of saga %v waits", id)
}

// full is a site with something on each page.
func full(tb testing.TB) *site {
	tb.Helper()
	s := newSite(tb, nil)
	s.fill()
	return s
}

// fill puts something on each page.
func (s *site) fill() {
	s.tb.Helper()
	s.plant(1, 0, store.StateUnknown, "POST /charges")
	s.plant(2, 0, store.StateQuarantined, "POST /refunds")
	s.plant(3, 1, store.StateCompleted, "POST /orders")
	s.plant(4, 1, store.StateInProgress, "POST /orders")
	s.plant(5, 3, store.StateReleased, "POST /mails")
	s.letter(6, "inbox orders")
	s.run("order-1", "", refused, journal.Stuck)
	s.run("order-2", "", well, journal.Completed)
	s.run("order-3", "", waiting, journal.Running)
	rec, err := s.keys.Read(context.Background(), s.plant(7, 0, store.StateUnknown, "POST /charges"))
	require.NoError(s.tb, err)
	require.NoError(s.tb, s.guard.Resolve(context.Background(), rec.ID, rec.Fence, server.Abandoned(), store.Audit{Actor: "ada", Reason: "asked the bank"}))
}
