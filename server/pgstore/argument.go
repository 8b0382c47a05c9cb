package pgstore

import (
	"fmt"
	"math"
	"time"

	"github.com/fanonce/fanonce/server/store"
)

// Lengths of time are added to the server's clock, whose years end in 294276.
const longest = 200 * 365 * 24 * time.Hour

func checkClaim(req store.ClaimRequest) error {
	if req.Effect < store.Transactional || req.Effect > store.Opaque {
		return fmt.Errorf("%w: Effect %d", ErrArgument, req.Effect)
	}
	if err := checkLength("Keep", req.Keep); err != nil {
		return err
	}
	if err := checkLength("Window", req.Window); err != nil {
		return err
	}
	if y := req.FirstSent.Year(); !req.FirstSent.IsZero() && (y < 1 || y > 9999) {
		return fmt.Errorf("%w: FirstSent in the year %d", ErrArgument, y)
	}
	return checkLease(req.Lease)
}

func checkLength(name string, d time.Duration) error {
	if d < 0 || d > longest {
		return fmt.Errorf("%w: %s %v", ErrArgument, name, d)
	}
	return nil
}

func checkLease(lease time.Duration) error {
	if lease < time.Microsecond || lease > longest {
		return fmt.Errorf("%w: lease %v", ErrArgument, lease)
	}
	return nil
}

func checkQuarantine(to store.State) error {
	if to != store.StateUnknown && to != store.StateQuarantined {
		return fmt.Errorf("%w: cannot quarantine to State %d", ErrArgument, to)
	}
	return nil
}

func checkSettlement(s store.Settlement) error {
	switch s.State {
	case store.StateReleased, store.StateUnknown, store.StateInProgress:
		return nil
	case store.StateCompleted:
		if s.Answer.Status < math.MinInt32 || s.Answer.Status > math.MaxInt32 {
			return fmt.Errorf("%w: Status %d", ErrArgument, s.Answer.Status)
		}
		if err := checkLength("KeepAnswer", s.KeepAnswer); err != nil {
			return err
		}
		return checkLength("ReplayFor", s.ReplayFor)
	default:
		return fmt.Errorf("%w: cannot settle to State %d", ErrArgument, s.State)
	}
}
