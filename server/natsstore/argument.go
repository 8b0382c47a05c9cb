package natsstore

import (
	"time"

	"github.com/fanonce/fanonce/server/store"
)

func checkClaim(req store.ClaimRequest) error {
	if req.Effect < store.Transactional || req.Effect > store.Opaque {
		return argument("Effect %d", req.Effect)
	}
	if req.Keep < 0 || req.Window < 0 {
		return argument("Keep %v or Window %v is negative", req.Keep, req.Window)
	}
	return checkLength(req.Lease)
}

func checkLength(d time.Duration) error {
	if d <= 0 {
		return argument("length of time %v is not positive", d)
	}
	return nil
}

func checkLimit(limit int) error {
	if limit <= 0 {
		return argument("limit %d is not positive", limit)
	}
	return nil
}

func checkQuarantine(to store.State) error {
	if to != store.StateUnknown && to != store.StateQuarantined {
		return argument("cannot quarantine to %v", to)
	}
	return nil
}

func checkSettlement(end store.Settlement) error {
	switch end.State {
	case store.StateCompleted, store.StateReleased, store.StateUnknown, store.StateInProgress:
	default:
		return argument("cannot settle to %v", end.State)
	}
	if end.KeepAnswer < 0 {
		return argument("KeepAnswer %v is negative", end.KeepAnswer)
	}
	return nil
}

func checkCancel(req store.CancelRequest) error {
	if req.Keep < 0 {
		return argument("Keep %v is negative", req.Keep)
	}
	return nil
}

func checkResolve(req store.ResolveRequest) error {
	switch req.To {
	case store.StateCompleted, store.StateReleased, store.StateCancelled:
	default:
		return argument("cannot resolve to %v", req.To)
	}
	if req.Keep < 0 || req.ReplayFor < 0 || req.KeepAnswer < 0 || req.RecoveryAttempts < 0 {
		return argument("Keep %v, ReplayFor %v, KeepAnswer %v or RecoveryAttempts %d is negative",
			req.Keep, req.ReplayFor, req.KeepAnswer, req.RecoveryAttempts)
	}
	return nil
}
