package engine

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// window has one claim of each duration.
func window(claims ...time.Duration) *claimTimes {
	w := new(claimTimes)
	for _, d := range claims {
		w.add(d)
	}
	return w
}

// steady is a window of n claims; slow of them took ten times as long.
func steady(n, slow int, d time.Duration) *claimTimes {
	w := new(claimTimes)
	for i := range n {
		if i < slow {
			w.add(10 * d)
		} else {
			w.add(d)
		}
	}
	return w
}

const (
	batch      = 1000
	leastPause = 5 * time.Millisecond
	mostPause  = time.Second
)

func TestFelt(t *testing.T) {
	t.Parallel()
	const usual = 4 * time.Millisecond
	for _, tt := range []struct {
		name  string
		busy  *claimTimes
		quiet []*claimTimes
		want  bool
	}{
		{"nobody", window(), nil, false},
		{"nobody before", steady(100, 100, usual), []*claimTimes{window()}, false},
		{"too few before", steady(100, 100, usual), []*claimTimes{steady(19, 0, usual)}, false},
		{"as before", steady(100, 0, usual), []*claimTimes{steady(20, 0, usual)}, false},
		{"a twentieth more", steady(100, 0, usual*21/20), []*claimTimes{steady(20, 0, usual)}, false},
		{"a sixth more", steady(100, 0, usual*7/6), []*claimTimes{steady(20, 0, usual)}, true},
		{"half more of next to nothing", steady(100, 0, 150*time.Microsecond), []*claimTimes{steady(20, 0, 100*time.Microsecond)}, false},
		{"one in 25 is slow", steady(100, 4, usual), []*claimTimes{steady(100, 0, usual)}, false},
		{"one in 12 is slow", steady(100, 8, usual), []*claimTimes{steady(100, 0, usual)}, true},
		{"one in 12, as before", steady(100, 8, usual), []*claimTimes{steady(100, 9, usual)}, false},
		{"none comes through", window(), []*claimTimes{steady(100, 0, usual)}, true},
		{"windows count together", steady(100, 0, usual*2), []*claimTimes{steady(10, 0, usual), steady(10, 0, usual)}, true},
	} {
		if got := felt(tt.busy, tt.quiet); got != tt.want {
			t.Errorf("%s: felt = %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestPace(t *testing.T) {
	t.Parallel()
	cfg := Config{SweepBatch: batch, MinSweepPause: leastPause, MaxSweepPause: mostPause}
	quiet := []*claimTimes{steady(100, 0, time.Millisecond)}
	slow, same := steady(100, 0, 2*time.Millisecond), steady(100, 0, time.Millisecond)
	const took = 10 * time.Millisecond

	p := newSweepRate(&cfg)
	require.Equal(t, batch/32, p.limit(), "it begins carefully")
	for range 7 {
		require.Less(t, p.limit(), batch)
		p = p.after(same, quiet)
	}
	require.Equal(t, batch, p.limit())
	require.Equal(t, took, p.pause(took))
	require.Equal(t, p, p.after(same, quiet), "there is no more than full speed")

	half := p.after(slow, quiet)
	require.Equal(t, batch/4, half.limit(), "shorter batches first")
	require.Equal(t, 2*took, half.pause(took))
	for range 20 {
		p = p.after(slow, quiet)
	}
	require.Equal(t, p.stumbled(), p)
	require.Equal(t, batch/32, p.limit(), "it never stands still")
	p = p.after(slow, []*claimTimes{window()})
	require.Equal(t, 32*took, p.stumbled().pause(took))
	require.Equal(t, mostPause, p.stumbled().pause(time.Minute))
	require.Equal(t, leastPause, p.stumbled().pause(0))
	require.Equal(t, 1, sweepRate{share: slowest, batch: 1}.limit())
	require.Equal(t, batch/16, newSweepRate(&cfg).after(window(), nil).limit(), "nobody listened yet")
}

// Even if sweeps slow claims much, more records are deleted than come, provided
// that the batch size and pauses of the Config allow it.
func TestPace_keepsUp(t *testing.T) {
	t.Parallel()
	cfg := Config{SweepBatch: batch, MinSweepPause: leastPause, MaxSweepPause: mostPause}
	for _, tt := range []struct {
		perSecond int
		took      time.Duration // of each record
	}{
		{40, time.Millisecond},
		{500, 10 * time.Microsecond},
		{5_000, 50 * time.Microsecond},
		{20_000, 10 * time.Microsecond},
		{50_000, 4 * time.Microsecond},
	} {
		// These are the claims of two windows, and sweeps slow all of them.
		come := tt.perSecond * int(2*sweepListen/time.Millisecond) / 1000
		quiet := []*claimTimes{steady(come/2, 0, time.Millisecond), steady(come-come/2, 0, time.Millisecond)}
		p := newSweepRate(&cfg)
		for range 20 {
			p = p.after(steady(100, 0, 2*time.Millisecond), quiet)
		}
		require.InDelta(t, slowest, p.share, 0)
		perSecond := func(p sweepRate) float64 {
			took := time.Duration(p.limit()) * tt.took
			return float64(p.limit()) / (took + p.pause(took)).Seconds()
		}
		listens := sweepListen.Seconds() / (sweepListen + sweepStretch).Seconds()
		require.Greater(t, perSecond(p)*(1-listens), float64(tt.perSecond), "records swept in a second, %v", tt)
		slow := p
		slow.needed = 0
		require.LessOrEqual(t, perSecond(p), 1.01*max(perSecond(slow), keepUp*float64(tt.perSecond)), "it still gives way, %v", tt)
	}

	// The rate does not overload a server that is too slow for that.
	slow := newSweepRate(&cfg).after(window(), []*claimTimes{steady(1000, 0, time.Millisecond)})
	require.Equal(t, time.Second/2, slow.pause(time.Second/2))

	// A batch never exceeds the Config's limit.
	p := newSweepRate(&cfg).after(window(), []*claimTimes{steady(1_000_000, 0, time.Millisecond)})
	require.Equal(t, batch, p.limit())
	require.Equal(t, leastPause, p.pause(time.Millisecond))
}

// For any duration, its bucket ends above it, by a thirty-second at most.
func TestClaimBuckets(t *testing.T) {
	t.Parallel()
	all := []time.Duration{-1, 0, 1, 31, 32, 33, 63, 64, 65, time.Microsecond, time.Second, time.Minute}
	for range 1000 {
		all = append(all, time.Duration(rand.Int64N(1<<rand.IntN(40)+1)))
	}
	for _, d := range all {
		bucket := claimBucket(d)
		end := claimBucketEnd(bucket)
		require.Greater(t, end, d)
		require.LessOrEqual(t, end-1, max(d, 0)+max(d, 0)/32, d)
		require.Equal(t, bucket+1, claimBucket(end), "%v ends where the next begins", d)
		require.Equal(t, end, quantile(0.5, window(d)))
	}
	require.Equal(t, claimBuckets-1, claimBucket(24*time.Hour), "the last has all that is longer")
	require.Zero(t, quantile(0.5))
	hundred := new(claimTimes)
	for i := range 100 {
		hundred.add(time.Duration(i+1) * time.Second)
	}
	require.InDelta(t, 95, quantile(0.95, hundred).Seconds(), 95.0/32)
	require.InDelta(t, 100, quantile(1, hundred).Seconds(), 100.0/32)
	var none *claimTimes
	none.add(time.Second) // nobody watches
}
