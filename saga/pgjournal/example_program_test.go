package pgjournal_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/saga/pgjournal"
	"github.com/fanonce/fanonce/server/pgtest"
)

// Trip is the input of the saga, and its steps return the numbers of their bookings.
type Trip struct{ Hotel, Flight string }

// BookTrip books a room and then a flight. If there is no flight, the room is given back. A step
// can also be an operation of another service: see package saga.
var BookTrip = saga.MustDefine("trip", 1, func(b *saga.Builder[Trip, string]) {
	room := saga.StepFunc(b, "hotel.book", b.Input(), bookRoom).UndoFunc("hotel.cancel", cancelRoom)
	flight := saga.StepFunc(b, "flight.book", saga.Map2(b.Input(), room.Output(), func(t Trip, _ string) Trip { return t }), bookFlight).Pivot()
	saga.Return(b, flight.Output())
})

func bookRoom(_ context.Context, call saga.Call[Trip]) (string, error) {
	return "room at " + call.Input.Hotel, nil
}

// The hotel's system does not take cancellations: a person has to call the hotel.
func cancelRoom(_ context.Context, undo saga.UndoCall[Trip, string]) error {
	return saga.Permanent(errors.New("the hotel wants a phone call"))
}

func bookFlight(_ context.Context, call saga.Call[Trip]) (string, error) {
	if call.Input.Flight == "" {
		return "", saga.Rejected(errors.New("no such flight"))
	}
	return "seat on " + call.Input.Flight, nil
}

// A whole service: the tables, the journal, the engine, a saga that completes, and a saga that
// needs a person.
func Example() {
	ctx := context.Background()
	cluster, err := pgtest.Start(ctx, pgtest.Config{Private: true}) // a service takes DATABASE_URL
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = cluster.Stop() }()
	cfg, err := pgxpool.ParseConfig(cluster.URL("postgres"))
	if err != nil {
		log.Fatal(err)
	}
	if err := migrate(ctx, cfg); err != nil {
		log.Fatal(err)
	}
	j, err := pgjournal.Open(ctx, cfg, pgjournal.Config{AllowNonDurable: true}) // a service leaves that out; pgtest has no fsync
	if err != nil {
		log.Fatal(err)
	}
	defer j.Close()
	engine, err := saga.Open(ctx, j, saga.Config{Definitions: []saga.AnyDefinition{BookTrip}})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = engine.Close(ctx) }() // before the journal

	fmt.Println(BookTrip.Run(ctx, engine, childkey.MustParse("trip-1"), Trip{"Ritz", "LH 454"}))
	_, err = BookTrip.Run(ctx, engine, childkey.MustParse("trip-2"), Trip{"Ritz", ""})
	fmt.Println("stuck:", errors.Is(err, saga.ErrStuck))

	if err := callTheHotel(ctx, j); err != nil {
		log.Fatal(err)
	}
	_, err = BookTrip.Run(ctx, engine, childkey.MustParse("trip-2"), Trip{"Ritz", ""})
	fmt.Println("compensated:", errors.Is(err, saga.ErrCompensated))
	// Output:
	// seat on LH 454 <nil>
	// stuck: true
	// trip is stuck on the undo of hotel.book
	// compensated: true
}

// migrate creates the tables, or brings them up to date. A deployment runs it first.
func migrate(ctx context.Context, cfg *pgxpool.Config) error {
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return err
	}
	defer pool.Close()
	return pgjournal.Migrate(ctx, pool, "")
}

// callTheHotel is what a person does, by a command line on the same tables.
func callTheHotel(ctx context.Context, j *pgjournal.Journal) error {
	operator, err := saga.NewOperator(j, BookTrip)
	if err != nil {
		return err
	}
	stuck, err := operator.Reader().Browse(ctx, journal.BrowseRequest{Statuses: []journal.Status{journal.Stuck}, Limit: 10})
	if err != nil {
		return err
	}
	for _, r := range stuck {
		fmt.Println(r.Name, "is stuck on the undo of", r.StuckOn.Step)
		by := journal.Audit{Actor: "ann@example.com", Reason: "cancelled by phone", Revision: r.Revision}
		if _, err := operator.ForceUndone(ctx, r.ID, r.StuckOn.Step, by); err != nil {
			return err
		}
	}
	return nil
}
