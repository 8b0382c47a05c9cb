package pgstore

import (
	"time"

	"github.com/fanonce/fanonce/server/store"
)

// takable reports that r can be taken over as far as its state goes.
func takable(r store.Record, from int64) bool {
	return r.Fence == from && (r.State == store.StateReleased || dead(r))
}

func dead(r store.Record) bool {
	return r.State == store.StateInProgress && r.LeaseLeft() <= 0
}

func tooOld(r store.Record, req store.ClaimRequest) bool {
	return !r.FirstSent.IsZero() && r.FirstSent.Before(r.Now.Add(-req.Window))
}

// stored is t as a timestamptz keeps it.
func stored(t time.Time) time.Time { return t.Truncate(time.Microsecond) }
