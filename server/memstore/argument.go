package memstore

import (
	"fmt"
	"time"

	"github.com/fanonce/fanonce/server/store"
)

func checkClaim(req store.ClaimRequest) error {
	switch {
	case req.Effect < store.Transactional || req.Effect > store.Opaque:
		return fmt.Errorf("%w: Effect %d", ErrArgument, req.Effect)
	case req.Keep < 0:
		return fmt.Errorf("%w: Keep %v is negative", ErrArgument, req.Keep)
	case req.Window < 0:
		return fmt.Errorf("%w: Window %v is negative", ErrArgument, req.Window)
	}
	return checkLease(req.Lease)
}

func checkLease(lease time.Duration) error {
	if lease <= 0 {
		return fmt.Errorf("%w: lease %v is not positive", ErrArgument, lease)
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
	case store.StateCompleted, store.StateReleased, store.StateUnknown, store.StateInProgress:
		if s.KeepAnswer < 0 {
			return fmt.Errorf("%w: KeepAnswer %v is negative", ErrArgument, s.KeepAnswer)
		}
		return nil
	default:
		return fmt.Errorf("%w: cannot settle to State %d", ErrArgument, s.State)
	}
}

func checkCancel(req store.CancelRequest) error {
	if req.Keep < 0 {
		return fmt.Errorf("%w: Keep %v is negative", ErrArgument, req.Keep)
	}
	return nil
}

func checkResolve(req store.ResolveRequest) error {
	switch req.To {
	case store.StateCompleted, store.StateReleased, store.StateCancelled:
	default:
		return fmt.Errorf("%w: cannot resolve to State %d", ErrArgument, req.To)
	}
	if req.Keep < 0 || req.ReplayFor < 0 || req.KeepAnswer < 0 || req.RecoveryAttempts < 0 {
		return fmt.Errorf("%w: Keep %v, ReplayFor %v, KeepAnswer %v or RecoveryAttempts %d is negative", ErrArgument, req.Keep, req.ReplayFor, req.KeepAnswer, req.RecoveryAttempts)
	}
	return nil
}
