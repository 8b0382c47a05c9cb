package pgjournal_test

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/sdk"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/memstore"
)

// A journey is what the tests' sagas are about. Its Trip is told apart by callees.
type (
	journey struct {
		Trip   string `json:"trip"`
		Refuse bool   `json:"refuse"` // the last step is refused
	}
	ticket  struct{ Of string }
	nothing = struct{}
	retract = contract.Undo[journey, ticket]
)

var (
	bookTrain = contract.Post[journey, ticket]("train", "book", "/train")
	dropTrain = contract.Post[retract, nothing]("train", "drop", "/train/drop")
	bookHotel = contract.Post[journey, ticket]("hotel", "book", "/hotel")
	dropHotel = contract.Post[retract, nothing]("hotel", "drop", "/hotel/drop")
	bookTour  = contract.Post[journey, ticket]("tour", "book", "/tour")
	dropTour  = contract.Post[retract, nothing]("tour", "drop", "/tour/drop")
)

// steps declares three steps, one after the other.
func steps(b *saga.Builder[journey, ticket]) []*saga.StepRef[journey, ticket] {
	input := func(j journey, _ ticket) journey { return j }
	train := saga.Step(b, bookTrain, b.Input()).Undo(dropTrain)
	hotel := saga.Step(b, bookHotel, saga.Map2(b.Input(), train.Output(), input)).Undo(dropHotel)
	tour := saga.Step(b, bookTour, saga.Map2(b.Input(), hotel.Output(), input)).Undo(dropTour)
	saga.Return(b, tour.Output())
	return []*saga.StepRef[journey, ticket]{train, hotel, tour}
}

var (
	trip = saga.MustDefine("trip", 1, func(b *saga.Builder[journey, ticket]) { steps(b) })
	idle = saga.MustDefine("idle", 1, func(b *saga.Builder[journey, ticket]) {
		none := func(context.Context, saga.Call[ticket]) (ticket, error) { return ticket{}, nil }
		first := saga.StepFunc(b, "a.a", saga.Map(b.Input(), func(j journey) ticket { return ticket{j.Trip} }), none).ReadOnly()
		second := saga.StepFunc(b, "b.b", first.Output(), none).ReadOnly()
		third := saga.StepFunc(b, "c.c", second.Output(), none).ReadOnly()
		saga.Return(b, third.Output())
	})
)

// callees serve the calls of the tests' sagas, behind real sockets, each call guarded.
// It counts effects, which outlive every process that has them done.
type callees struct {
	url string

	mu     sync.Mutex
	done   map[place]int
	undone map[place]int
	sent   map[string]int // by Idempotency-Key
	// arrives is told of each request before it is served, by its path; nil: nobody.
	arrives func(path string)
	gate    chan struct{} // requests wait until it is closed; nil: they do not
}

// A place is where an effect is: a trip's, at a service.
type place struct{ trip, service string }

func newCallees(tb testing.TB) *callees {
	tb.Helper()
	c := &callees{done: make(map[place]int), undone: make(map[place]int), sent: make(map[string]int)}
	guard, err := server.NewGuard(memstore.New(), server.Unscoped, server.Config{})
	require.NoError(tb, err)
	mux := http.NewServeMux()
	for _, s := range []struct {
		book contract.Operation[journey, ticket]
		drop contract.Operation[retract, nothing]
	}{{bookTrain, dropTrain}, {bookHotel, dropHotel}, {bookTour, dropTour}} {
		require.NoError(tb, server.Handle(mux, guard, s.book, server.Keyed, c.book(s.book.Service())))
		require.NoError(tb, server.Handle(mux, guard, s.drop, server.Keyed, c.drop(s.book.Service())))
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		c.sent[r.Header.Get(wire.HeaderKey)]++
		arrives, gate := c.arrives, c.gate
		c.mu.Unlock()
		if gate != nil {
			<-gate
		}
		if arrives != nil {
			arrives(r.URL.Path)
		}
		mux.ServeHTTP(w, r)
	}))
	tb.Cleanup(srv.Close)
	c.url = srv.URL
	return c
}

// onArrival has fn called with the path of each request, before that is served.
func (c *callees) onArrival(fn func(path string)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.arrives = fn
}

// holdUntilShared holds back the calls of unowned sagas until the given number of living engines have
// some of them. So no engine can finish all of them before another engine has looked. leave makes
// the sagas unowned.
func (c *callees) holdUntilShared(t *testing.T, look *pgxpool.Pool, dead journal.EngineID, engines int, leave func()) {
	t.Helper()
	gate := make(chan struct{})
	release := sync.OnceFunc(func() { close(gate) })
	t.Cleanup(release) // however the test ends
	c.mu.Lock()
	c.gate = gate
	c.mu.Unlock()
	leave()
	until(t, "each engine has a saga", func() bool {
		return queryRow[int](t, look, "select count(distinct engine) from saga where engine <> $1", [16]byte(dead)) == engines
	})
	release()
}

func (c *callees) book(service string) func(context.Context, journey) (ticket, error) {
	return func(_ context.Context, j journey) (ticket, error) {
		if j.Refuse && service == "tour" {
			return ticket{}, server.Refuse(http.StatusPaymentRequired, "sold-out", "No seats.")
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.done[place{j.Trip, service}]++
		return ticket{service}, nil
	}
}

func (c *callees) drop(service string) func(context.Context, retract) (nothing, error) {
	return func(ctx context.Context, u retract) (nothing, error) {
		fate, err := server.Barrier(ctx)
		if err != nil || fate == server.NeverRan {
			return nothing{}, err
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.undone[place{u.Input.Trip, service}]++
		return nothing{}, nil
	}
}

// check fails tb unless the trip's effects are those of a saga that ended like that:
// each done once, or each done at most once and undone as often.
func (c *callees) check(tb testing.TB, trip string, ended journal.Status, at string) {
	tb.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, service := range []string{"train", "hotel", "tour"} {
		done, undone := c.done[place{trip, service}], c.undone[place{trip, service}]
		switch {
		case ended == journal.Completed && done == 1 && undone == 0:
		case ended == journal.Compensated && done <= 1 && undone == done:
		default:
			tb.Errorf("%s: %s of a saga that is %v was done %d times and undone %d times", at, service, ended, done, undone)
		}
	}
}

// deliveries returns how often each key was sent.
func (c *callees) deliveries() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.sent)
}

// client returns a client of the callees.
func client(tb testing.TB, url string, transport http.RoundTripper) *sdk.Client {
	tb.Helper()
	c, err := newClient(url, transport)
	require.NoError(tb, err)
	return c
}

func newClient(url string, transport http.RoundTripper) (*sdk.Client, error) {
	cfg := sdk.Config{Services: make(map[string]sdk.Service)}
	for _, name := range []string{"train", "hotel", "tour"} {
		cfg.Services[name] = sdk.Service{URL: url}
	}
	cfg.Retry.Transport = transport
	return sdk.New(cfg)
}

// A quick engine finds unowned sagas soon.
const quickPoll = 50 * time.Millisecond

func engineOn(tb testing.TB, j journal.Journal, c *callees) *saga.Engine {
	tb.Helper()
	return engineWith(tb, j, c, saga.Config{Poll: quickPoll, MaxRecoveryAttempts: 1000})
}

func engineWith(tb testing.TB, j journal.Journal, c *callees, cfg saga.Config) *saga.Engine {
	tb.Helper()
	cfg.Client, cfg.Definitions = client(tb, c.url, nil), []saga.AnyDefinition{trip, idle}
	e, err := saga.Open(tb.Context(), j, cfg)
	require.NoError(tb, err)
	tb.Cleanup(func() { closeEngine(tb, e) })
	return e
}

// ended waits until the saga is over.
func ended(tb testing.TB, j journal.Journal, id journal.ID) journal.Record {
	tb.Helper()
	var r journal.Record
	until(tb, "the saga is over", func() bool {
		var err error
		r, err = j.Read(tb.Context(), id)
		return err == nil && !r.Status.Active() || errors.Is(err, journal.ErrNotFound)
	})
	return r
}

// startTrip stores a saga of an engine that nobody has to be.
func startTrip(tb testing.TB, j journal.Journal, engine journal.EngineID, in journey) journal.Record {
	tb.Helper()
	key, err := childkey.FromParts("trip", in.Trip)
	require.NoError(tb, err)
	req, err := trip.Request(key, in)
	require.NoError(tb, err)
	req.Engine = engine
	r, created, err := j.Start(tb.Context(), req)
	require.NoError(tb, err)
	require.True(tb, created)
	return r
}
