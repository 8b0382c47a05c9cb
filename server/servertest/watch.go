package servertest

import (
	"time"

	"github.com/fanonce/fanonce/server/store"
)

// watchRules are for a store that is a [store.WatchStore].
var watchRules = []rule{
	{"watch: every end of a run closes the channel", watchTellsEachEnd},
	{"watch: a channel stays open while the run goes on", watchIsSilent},
	{"watch: a watch on a run that has ended closes the channel", watchOfThePast},
	{"watch: every channel is closed unless its watcher stopped", watchManyTimes},
	{"watch: an end between Read and Watch closes the channel", watchRacesSettle},
}

// wantTold fails the rule if the channel is not closed in time.
func (c *check) wantTold(what string, ended <-chan struct{}) {
	c.Helper()
	timer := time.NewTimer(time.Until(c.deadline()))
	defer timer.Stop()
	select {
	case <-ended:
	case <-timer.C:
		c.Fatalf("%s: nobody was told", what)
	}
}

// wantSilence gives a store that tells too much some time to do so. If the time is not enough, the rule shows less, but
// does not fail.
func (c *check) wantSilence(what string, ended <-chan struct{}) {
	c.Helper()
	select {
	case <-ended:
		c.Fatalf("%s: told that the run has ended, and it goes on", what)
	case <-time.After(brief):
	}
}

func watchTellsEachEnd(c *check) {
	live, dead := c.claimNew, func() store.Record { return c.claimDead(store.Keyed) }
	settle := func(s store.Settlement) func(store.Record) {
		return func(r store.Record) { c.settle(owner(r), s) }
	}
	for _, end := range []struct {
		name string
		put  func() store.Record
		meet func(r store.Record)
	}{
		{"completed", live, settle(completion(200, "ok"))},
		{"released", live, settle(release)},
		{"unknown", live, settle(giveUp)},
		{"taken over", dead, func(r store.Record) { c.takeOver(request(r.ID), r.Fence) }},
		{"quarantined", dead, func(r store.Record) { c.quarantine(grave(r, store.StateQuarantined)) }},
		{"cancelled", dead, func(r store.Record) { c.cancel(r.ID) }},
		{"resolved", dead, func(r store.Record) { c.resolve(resolution(r, store.StateReleased)) }},
		{"forgotten", dead, func(r store.Record) {
			_, _, err := c.store.Forget(c.Context(), r.ID, r.Fence, someone)
			c.must("Forget", err)
		}},
	} {
		r := end.put()
		ended, stop := c.watches.Watch(r.ID, r.Fence)
		defer stop()
		end.meet(r)
		c.wantTold("a run that is "+end.name, ended)
	}
}

func watchIsSilent(c *check) {
	r, other := c.claimNew(), c.claimNew()
	ended, stop := c.watches.Watch(r.ID, r.Fence)
	defer stop()
	c.renew([]store.Owner{owner(r)}, long)
	_, _, err := c.store.Claim(c.Context(), request(r.ID))
	c.must("Claim", err)
	_, _, err = c.store.TakeOver(c.Context(), request(r.ID), r.Fence)
	c.must("TakeOver", err)
	c.cancel(r.ID)
	otherEnded, stopOther := c.watches.Watch(other.ID, other.Fence)
	defer stopOther()
	c.settle(owner(other), completion(200, "another key"))
	c.wantTold("another run", otherEnded)
	c.wantSilence("a run that was renewed, and that others asked for", ended)
}

func watchOfThePast(c *check) {
	completed, running := putSettled(completion(200, "ok"))(c), c.claimDead(store.Keyed)
	next := c.takeOver(request(running.ID), running.Fence)
	for _, past := range []struct {
		name  string
		id    store.ID
		fence int64
	}{
		{"a completed run", completed.ID, completed.Fence},
		{"the run before this one", next.ID, running.Fence},
		{"a run of an absent key", newID(), 1},
	} {
		ended, stop := c.watches.Watch(past.id, past.fence)
		c.wantTold(past.name, ended)
		stop()
	}
	ended, stop := c.watches.Watch(next.ID, next.Fence)
	defer stop()
	c.wantSilence("the run that took over", ended)
}

func watchManyTimes(c *check) {
	r := c.claimNew()
	var channels []<-chan struct{}
	for i := range 8 {
		ended, stop := c.watches.Watch(r.ID, r.Fence)
		defer stop()
		if i%2 == 0 {
			channels = append(channels, ended)
			continue
		}
		stop() // twice, with the deferred one
	}
	c.settle(owner(r), completion(200, "ok"))
	for _, ended := range channels {
		c.wantTold("a run that eight watched", ended)
	}
}

// watchRacesSettle lets the run end at the moment at which a caller begins to
// watch it.
func watchRacesSettle(c *check) {
	for round := range rounds {
		r := c.claimNew()
		told := make([]<-chan struct{}, 4)
		stops := make([]func(), len(told))
		var err error
		runAtOnce(len(told)+1, func(i int) {
			after := i * 5 // in microseconds: the callers come before the end of the run, or after it
			if i == len(told) {
				after = 10
			}
			time.Sleep(time.Duration(round*after) * time.Microsecond)
			if i == len(told) {
				err = c.store.Settle(c.Context(), owner(r), completion(200, "ok"))
				return
			}
			told[i], stops[i] = c.watches.Watch(r.ID, r.Fence)
		})
		c.must("Settle", err)
		for i, ended := range told {
			c.wantTold("a run that ended as it came to be watched", ended)
			stops[i]()
		}
	}
}
