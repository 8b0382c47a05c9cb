package server

import "time"

const (
	// slowest is the least share of the full speed: with both the batch and the
	// pause going by it, about a thousandth of the rate.
	slowest = 1.0 / 32
	// speedUp is added to the share for each stretch that nobody felt.
	speedUp = 1.0 / 8
	// feltShare is which claims count: the slow ones, as they are the first to
	// feel a sweep, yet enough of them to tell from a second's.
	feltShare = 0.95
	// tolerance is how much longer claims may take beside a sweep.
	tolerance = 1.25
	// noticeable is what a claim may take longer whatever the ratio: less is
	// the scheduler's, and nobody's latency.
	noticeable = 250 * time.Microsecond
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
	batch       int     // at full speed
	least, most time.Duration
}

func newPace(c *Config) pace {
	return pace{share: speedUp, batch: c.SweepBatch, least: c.MinSweepPause, most: c.MaxSweepPause}
}

// limit is how many records the next batch may have.
func (p pace) limit() int { return max(int(float64(p.batch)*p.share), 1) }

// pause is the rest after a batch that took so long: at full speed as long again,
// so that nobody waits for more than every second moment of the server's.
func (p pace) pause(took time.Duration) time.Duration {
	return min(max(time.Duration(float64(took)/p.share), p.least), p.most)
}

// after returns the pace after a stretch of sweeping, from what claims took in it
// and while nothing was swept.
func (p pace) after(busy *claimTimes, quiet []*claimTimes) pace {
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
