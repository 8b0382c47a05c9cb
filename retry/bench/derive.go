package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/internal/benchkit"
)

func deriveConditions(e effort) string {
	return fmt.Sprintf("One child key of a parent of 36 bytes, as 32 hex digits. The formula cuts the hex text of SHA-256(parent + \":\" + service),"+
		" which two pairs of names can share. Medians of %d rounds in which each derives for %v, and their range.", e.rounds, e.turn)
}

const (
	nameFormula = "formula by hand"
	nameDerive  = "childkey.Derive"
)

var deriveParent = childkey.MustParse("018f3c1e-7b7a-4d2c-9a51-0c6d5e4f3a2b")

// formula is what a hand-written caller does: the price to compare with.
func formula(parent, service string) string {
	sum := sha256.Sum256([]byte(parent + ":" + service))
	return hex.EncodeToString(sum[:])[:32]
}

func deriveOperations() []operation {
	return []operation{
		{nameFormula, func() error {
			if len(formula(deriveParent.String(), "payment")) != 32 { // read, so that it is not optimized away
				return childkey.ErrBadKey
			}
			return nil
		}},
		{nameDerive, func() error {
			_, err := childkey.Derive(deriveParent, "payment", "charge")
			return err
		}},
	}
}

func measureDerive(_ context.Context, e effort) ([]figure, error) {
	var figures []figure
	for _, goroutines := range []int{1, 4} {
		operations := deriveOperations()
		all, err := contest(e.rounds, e.turn, goroutines, operations)
		if err != nil {
			return nil, err
		}
		for _, op := range operations {
			s := all[op.name]
			f := figure{Name: fmt.Sprintf("%s, goroutines: %d", op.name, goroutines), Measures: []measure{
				s.time().Measure("time", "ns", nil),
				{Name: "allocations", Value: s.allocs()},
			}}
			if op.name != nameFormula {
				f.Measures[1].Goal = benchkit.AtMost(1)
				f.Measures = append(f.Measures, s.times("the formula's", all[nameFormula], benchkit.AtMost(1.3))...)
			}
			figures = append(figures, f)
		}
	}
	return figures, nil
}
