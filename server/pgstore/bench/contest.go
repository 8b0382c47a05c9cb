package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// A variant is one way to do what others do as well, on a server that runs.
type variant struct {
	name        string
	server      *postgres // nil: none
	connections int       // that were its best; 0: nobody tried
	// turn works for about so long.
	turn func(ctx context.Context, length time.Duration) (work, error)
	// tally returns the operations of the last turn, for a turn that cannot count them itself. nil
	// means that it can. Neither the time nor the cost of tally is charged to the variant.
	tally func(ctx context.Context) (operations int, err error)
	// check compares the rows in the database with the operations of all turns.
	check func(ctx context.Context, operations int) error
	close func() error
}

// A work is the work of a turn.
type work struct {
	operations int
	took       time.Duration
	waits      []time.Duration // of each operation; nil where they are not known
}

// contest lets the variants take turns, so that other load on the machine hits all of them alike. A
// ratio within a round is worth more than a ratio of two long runs. It closes the variants.
func contest(ctx context.Context, e effort, variants ...*variant) (_ results, err error) {
	defer func() { err = errors.Join(err, closeAll(variants)) }()
	all, operations := make(results), make(map[string]int)
	for round := -1; round < e.rounds; round++ { // the first warms up
		cells := make(map[string]*cell)
		for _, v := range variants {
			cells[v.name] = &cell{connections: v.connections}
		}
		for slice := range e.slices {
			for i := range variants {
				v := variants[(i+slice+round+1)%len(variants)] // nobody always comes first
				n, err := takeTurn(ctx, v, e.slice, cells[v.name])
				if err != nil {
					return nil, fmt.Errorf("%s: %w", v.name, err)
				}
				operations[v.name] += n
			}
			if round < 0 {
				break
			}
		}
		for name, c := range cells {
			if round >= 0 {
				all[name] = append(all[name], c)
			}
		}
	}
	for _, v := range variants {
		if err := v.check(ctx, operations[v.name]); err != nil {
			return nil, fmt.Errorf("%s: %w", v.name, err)
		}
	}
	return all, nil
}

// takeTurn lets the variant work for one slice, and adds what it did to the cell. One that
// is tallied works for another until it has done something: on a slow machine it may not
// have known that it has to.
func takeTurn(ctx context.Context, v *variant, length time.Duration, to *cell) (operations int, err error) {
	for operations == 0 {
		w, used, wal, err := measureTurn(ctx, v, length)
		if err == nil && v.tally != nil {
			w.operations, err = v.tally(ctx)
		}
		if err != nil {
			return 0, err
		}
		if w.operations == 0 && v.tally == nil {
			return 0, errors.New("it did nothing in its turn")
		}
		to.add(w, used, wal)
		operations = w.operations
	}
	return operations, nil
}

// measureTurn takes a turn with its cost: processor time, and bytes of its server's log.
func measureTurn(ctx context.Context, v *variant, length time.Duration) (w work, used usage, wal float64, err error) {
	before, err := v.position(ctx)
	if err != nil {
		return w, used, 0, err
	}
	start, err := readUsage()
	if err != nil {
		return w, used, 0, err
	}
	if w, err = v.turn(ctx, length); err != nil {
		return w, used, 0, err
	}
	end, err := readUsage()
	if err != nil {
		return w, used, 0, err
	}
	after, err := v.position(ctx)
	return w, end.since(start), after.wal - before.wal, err
}

// position is that of the variant's server, if it has one.
func (v *variant) position(ctx context.Context) (at position, err error) {
	if v.server != nil {
		at, err = v.server.position(ctx)
	}
	return at, err
}

func closeAll(variants []*variant) (err error) {
	for _, v := range variants {
		err = errors.Join(err, v.close())
	}
	return err
}

// warm opens a variant that has connected when it is returned, by a turn of its own.
func warm(ctx context.Context, e effort, open func() (*variant, error)) (*variant, error) {
	v, err := open()
	if err != nil {
		return nil, err
	}
	if _, err := v.turn(ctx, e.slice); err != nil {
		return nil, errors.Join(err, v.close())
	}
	return v, nil
}

// match opens the variants, and has them contest.
func match(ctx context.Context, e effort, open ...func() (*variant, error)) (results, error) {
	var variants []*variant
	for _, o := range open {
		v, err := o()
		if err != nil {
			return nil, errors.Join(err, closeAll(variants))
		}
		variants = append(variants, v)
	}
	return contest(ctx, e, variants...)
}
