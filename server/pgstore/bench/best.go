package main

import (
	"context"
	"errors"
)

// triesOfConnections is how often each number of connections has its turn.
const triesOfConnections = 3

// bestOf tries each number in turn, so many times, and returns the number with the most operations
// in all its turns together. In a single turn the machine, not the number, may make the difference.
func bestOf(numbers []int, tries int, try func(n int) (work, error)) (best int, err error) {
	if len(numbers) == 1 {
		return numbers[0], nil
	}
	all := make(map[int]*cell)
	for _, n := range numbers {
		all[n] = new(cell)
	}
	for range tries {
		for _, n := range numbers {
			w, err := try(n)
			if err != nil {
				return 0, err
			}
			all[n].add(w, usage{}, 0)
		}
	}
	var most float64
	for _, n := range numbers {
		if rate := all[n].rate(); rate > most {
			most, best = rate, n
		}
	}
	return best, nil
}

// tryOut is what a variant does in one turn of its own. It closes the variant.
func tryOut(ctx context.Context, e effort, v *variant) (work, error) {
	tried := new(cell)
	_, err := takeTurn(ctx, v, e.slice/2, new(cell)) // warm
	if err == nil {
		_, err = takeTurn(ctx, v, e.slice, tried)
	}
	return tried.work, errors.Join(err, v.close())
}

// atItsBest opens a variant of n callers with the number of connections that it does most
// with: as many as the others have, or one for each caller. A competitor that is short of
// connections would be measured by our limit and not by its own.
func atItsBest(ctx context.Context, e effort, n int, open func(connections int) (*variant, error)) (*variant, error) {
	best, err := bestOf(connectionsFor(e, n), triesOfConnections, func(connections int) (w work, err error) {
		v, err := open(connections)
		if err != nil {
			return w, err
		}
		return tryOut(ctx, e, v)
	})
	if err != nil {
		return nil, err
	}
	return open(best)
}

// connectionsFor returns the numbers of connections that a variant of n callers is tried with.
func connectionsFor(e effort, n int) []int {
	if len(e.connections) == 1 { // no search for the best number
		return []int{n}
	}
	return []int{connections, n}
}
