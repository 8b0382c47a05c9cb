package engine

import "time"

const (
	// slowest is the least share of the full speed.
	slowest = 1.0 / 32
	// leastBatch is the least share of a batch: a smaller batch costs a round trip and a commit, and deletes very
	// little.
	leastBatch = 1.0 / 32
	// speedUp is added to the share after each stretch that did not slow claims.
	speedUp = 1.0 / 8
	// feltShare is the quantile of the claims that counts. Slow claims are the
	// first that a sweep slows. The quantile is low enough that one second has
	// enough claims above it.
	feltShare = 0.95
	// tolerance is the factor by which claims may take longer beside a sweep.
	// Requests are slowed more than that: each is more than a claim, and the
	// slowest hundredth of requests is slower than these claims.
	tolerance = 1.1
	// noticeable is the time that a claim may take longer at any ratio. Smaller
	// differences come from the scheduler, and callers do not notice them.
	noticeable = 100 * time.Microsecond
	// keepUp is the least ratio of swept records to claims, however much sweeps
	// slow claims. Each claim creates a record that expires one day, except a
	// retry's claim. A backlog has to be deleted as well.
	keepUp = 2
	// fewClaims is the least number of claims, counted without a sweep, at
	// which sweeps can slow callers.
	fewClaims = 20
)

// A sweepRate is the speed of Guard.RunSweeper. It goes up by addition and down by
// halves, as TCP's window does (AIMD, RFC 5681). By that, the sweepers of
// several processes that share a database come to equal shares. Each sweeper
// sees only its own process's requests, and needs no knowledge of the others or
// of the server's capacity. It is a value, and pure.
type sweepRate struct {
	share       float64 // of the full speed, slowest to 1
	needed      float64 // records a second that it never goes below
	batch       int     // at full speed
	least, most time.Duration
}

func newSweepRate(c *Config) sweepRate {
	return sweepRate{share: speedUp, batch: c.SweepBatch, least: c.MinSweepPause, most: c.MaxSweepPause}
}

// limit is how many records the next batch may have. It falls with the square
// of the share: a batch slows a claim if it lasts about as long as the claim.
// Many short batches slow claims less than a few long batches that delete as
// much. The limit is also large enough that batches with the shortest pauses
// delete the needed records.
func (r sweepRate) limit() int {
	records := max(float64(r.batch)*max(r.share*r.share, leastBatch), r.needed*r.least.Seconds(), 1)
	return min(int(records), r.batch)
}

// pause is the rest after a batch that took the given time. At full speed it
// equals that time, so that sweeps take at most half of the server's time, even
// if that is too slow to delete the needed records.
func (r sweepRate) pause(took time.Duration) time.Duration {
	rest := float64(took) / r.share
	if r.needed > 0 {
		due := float64(r.limit()) / r.needed * float64(time.Second)
		rest = min(rest, max(due-float64(took), float64(took)))
	}
	return min(max(time.Duration(rest), r.least), r.most)
}

// after returns the rate after a stretch of sweeping. It compares the claims'
// durations in the stretch with those without a sweep.
func (r sweepRate) after(busy *claimTimes, quiet []*claimTimes) sweepRate {
	r.needed = keepUp * float64(countClaims(quiet)) / (float64(max(len(quiet), 1)) * sweepListen.Seconds())
	if felt(busy, quiet) {
		r.share = max(r.share/2, slowest)
	} else {
		r.share = min(r.share+speedUp, 1)
	}
	return r
}

// stumbled returns the rate after a sweep that failed.
func (r sweepRate) stumbled() sweepRate {
	r.share = slowest
	return r
}

// felt reports whether claims took longer beside a sweep. If there were many
// claims before and none in the whole stretch, they also count as longer.
func felt(busy *claimTimes, quiet []*claimTimes) bool {
	if countClaims(quiet) < fewClaims {
		return false
	}
	usual, now := quantile(feltShare, quiet...), quantile(feltShare, busy)
	return now == 0 || now > max(time.Duration(tolerance*float64(usual)), usual+noticeable)
}
