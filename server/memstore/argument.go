package memstore

import (
	"fmt"
	"time"

	"github.com/fanonce/fanonce/server"
)

func checkClaim(req server.ClaimRequest) error {
	switch {
	case req.Effect < server.Transactional || req.Effect > server.Opaque:
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

func checkBury(to server.State) error {
	if to != server.StateUnknown && to != server.StatePoisoned {
		return fmt.Errorf("%w: cannot bury to State %d", ErrArgument, to)
	}
	return nil
}

func checkSettlement(s server.Settlement) error {
	switch s.State {
	case server.StateCompleted, server.StateReleased, server.StateUnknown, server.StateInProgress:
		if s.KeepAnswer < 0 {
			return fmt.Errorf("%w: KeepAnswer %v is negative", ErrArgument, s.KeepAnswer)
		}
		return nil
	default:
		return fmt.Errorf("%w: cannot settle to State %d", ErrArgument, s.State)
	}
}

func checkCancel(req server.CancelRequest) error {
	if req.Keep < 0 {
		return fmt.Errorf("%w: Keep %v is negative", ErrArgument, req.Keep)
	}
	return nil
}

func checkResolve(req server.ResolveRequest) error {
	switch req.To {
	case server.StateCompleted, server.StateReleased, server.StateCancelled:
	default:
		return fmt.Errorf("%w: cannot resolve to State %d", ErrArgument, req.To)
	}
	if req.Keep < 0 || req.ReplayFor < 0 || req.KeepAnswer < 0 || req.Deaths < 0 {
		return fmt.Errorf("%w: Keep %v, ReplayFor %v, KeepAnswer %v or Deaths %d is negative", ErrArgument, req.Keep, req.ReplayFor, req.KeepAnswer, req.Deaths)
	}
	return nil
}
