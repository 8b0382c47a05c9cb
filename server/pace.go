package server

import "time"

const (
	// slowest is the least share of the full speed.
	slowest = 1.0 / 32
	// leastBatch is the least share of a batch: smaller ones cost a round trip and a
	// commit for next to nothing.
	leastBatch = 1.0 / 32
	// speedUp is added to the share for each stretch that nobody felt.
	speedUp = 1.0 / 8
	// feltShare is which claims count: the slow ones, as they are the first to
	// feel a sweep, yet enough of them to tell from a second's.
	feltShare = 0.95
	// tolerance is how much longer claims may take beside a sweep.
	// Requests feel more than that: each is more than a claim, and the slowest
	// hundredth of them is slower than these.
	tolerance = 1.1
	// noticeable is what a claim may take longer whatever the ratio: less is
	// the scheduler's, and nobody's latency.
	noticeable = 100 * time.Microsecond
	// keepUp is how many times as many records are swept as claims come, at the
	// least and whatever is felt: each claim is a record that expires one day, of
	// which a claim that is a retry's needs none, and a backlog has to go as well.
	keepUp = 2
	// fewClaims is how many claims must have been seen while nothing was swept
	// for there to be somebody who could feel it.
	fewClaims = 20
)

// A pace is how fast [Guard.RunSweeper] goes. It goes up by addition and down by
// halves, as TCP's window does (AIMD, RFC 5681): sweepers of several processes that
// share a database, and each see their own requests alone, come to equal shares by
// that, and need to know nothing of each other or of what the server can do.
// It is a value, and pure.
type pace struct {
	share       float64 // of the full speed, slowest to 1
	needed      float64 // records a second that it never goes below
	batch       int     // at full speed
	least, most time.Duration
}

func newPace(c *Config) pace {
	return pace{share: speedUp, batch: c.SweepBatch, least: c.MinSweepPause, most: c.MaxSweepPause}
}

// limit is how many records the next batch may have. It goes by the square: what a
// claim feels is a batch that lasts about as long as itself, and many short ones
// are felt less than a few long ones that delete as much. With the shortest pauses
// batches of that size have to be enough.
func (p pace) limit() int {
	records := max(float64(p.batch)*max(p.share*p.share, leastBatch), p.needed*p.least.Seconds(), 1)
	return min(int(records), p.batch)
}

// pause is the rest after a batch that took so long: at full speed as long again,
// so that nobody waits for more than every second moment of the server's, also
// where that is too slow to delete what is needed.
func (p pace) pause(took time.Duration) time.Duration {
	rest := float64(took) / p.share
	if p.needed > 0 {
		due := float64(p.limit()) / p.needed * float64(time.Second)
		rest = min(rest, max(due-float64(took), float64(took)))
	}
	return min(max(time.Duration(rest), p.least), p.most)
}

// after returns the pace after a stretch of sweeping, from what claims took in it
// and while nothing was swept.
func (p pace) after(busy *claimTimes, quiet []*claimTimes) pace {
	p.needed = keepUp * float64(countClaims(quiet)) / (float64(max(len(quiet), 1)) * sweepListen.Seconds())
	if felt(busy, quiet) {
		p.share = max(p.share/2, slowest)
	} else {
		p.share = min(p.share+speedUp, 1)
	}
	return p
}

// stumbled returns the pace after a sweep that failed.
func (p pace) stumbled() pace {
	p.share = slowest
	return p
}

// felt reports whether claims took longer beside a sweep. No claim in all the
// stretch, where there were many before, is also longer.
func felt(busy *claimTimes, quiet []*claimTimes) bool {
	if countClaims(quiet) < fewClaims {
		return false
	}
	usual, now := quantile(feltShare, quiet...), quantile(feltShare, busy)
	return now == 0 || now > max(time.Duration(tolerance*float64(usual)), usual+noticeable)
}
