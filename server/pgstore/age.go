package pgstore

import (
	"time"

	"github.com/fanonce/fanonce/server"
)

// takable reports that r can be taken over as far as its state goes.
func takable(r server.Record, from int64) bool {
	return r.Fence == from && (r.State == server.StateReleased || dead(r))
}

func dead(r server.Record) bool {
	return r.State == server.StateInProgress && r.LeaseLeft() <= 0
}

func tooOld(r server.Record, req server.ClaimRequest) bool {
	return !r.FirstSent.IsZero() && r.FirstSent.Before(r.Now.Add(-req.Window))
}

// stored is t as a timestamptz keeps it.
func stored(t time.Time) time.Time { return t.Truncate(time.Microsecond) }
