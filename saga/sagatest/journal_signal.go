package sagatest

import (
	"bytes"
	"cmp"
	"errors"
	"slices"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga/journal"
)

var signalRules = []rule{
	{"signal: the first value of a name stays", firstSignalStays},
	{"signal: one of 16 values wins, 20 times", oneSignalWins},
	{"signal: of a value and the end of the wait one counts, 20 times", signalOrEnd},
	{"signal: only the owner of a running saga ends a wait", ownerEndsWait},
	{"signal: it can come before its saga, and not when that is over", signalInTime},
	{"signal: it wakes what sleeps, and takes it from nobody", signalWakes},
	{"signal: beside the write that gives a saga up it makes it due, 20 times", signalBesideGivingUp},
	{"signal: in somebody's name it is in the audit log, once", signalIsAudited},
	{"signal: it is swept with its saga", signalIsSwept},
}

var value, otherValue = []byte(`{"by":"ann"}`), []byte(`{"by":"bob"}`)

const name = "order.approved"

func (c *check) send(id journal.ID, value []byte) error {
	return c.journal.Send(c.Context(), journal.Signal{ID: id, Name: name, Value: value}, journal.Audit{})
}

// signals returns the signals of sagas, in order.
func (c *check) signals(ids ...journal.ID) []journal.Signal {
	c.Helper()
	found, err := c.journal.Signals(c.Context(), ids)
	c.must("Signals", err)
	slices.SortFunc(found, func(a, b journal.Signal) int {
		return cmp.Or(bytes.Compare(a.ID[:], b.ID[:]), cmp.Compare(a.Name, b.Name))
	})
	return found
}

// wantSignal fails the rule if the saga has another signal than that, or more.
func (c *check) wantSignal(id journal.ID, value []byte) {
	c.Helper()
	found := c.signals(id)
	want(c, "signals of the saga", len(found), 1)
	want(c, "Name of the signal", found[0].Name, name)
	want(c, "ID of the signal", found[0].ID, id)
	want(c, "Value of the signal", string(found[0].Value), string(value))
	want(c, "the signal has a value", found[0].Value == nil, value == nil)
	want(c, "Corrupt of the signal", found[0].Corrupt, nil)
}

func firstSignalStays(c *check) {
	r, other := c.startOwned(), c.startOwned()
	for range 2 {
		c.must("Send", c.send(r.ID, value))
	}
	c.wantErr("Send of another value", c.send(r.ID, otherValue), journal.ErrSignalReused)
	c.wantSignal(r.ID, value)
	c.must("Send to another saga", c.send(other.ID, otherValue))
	c.must("Send of another name", c.journal.Send(c.Context(), journal.Signal{ID: r.ID, Name: "order.paid", Value: otherValue}, journal.Audit{}))
	found := c.signals(r.ID, other.ID, journal.ID{1})
	want(c, "signals of both", len(found), 3)
	c.wantSignal(other.ID, otherValue)
	want(c, "signals of none", len(c.signals()), 0)
	c.append(r, journal.Write{Status: journal.Completed, Keep: keep})
	c.must("Send of the same value to what is over", c.send(r.ID, value))
	c.wantErr("Send of another value to what is over", c.send(r.ID, otherValue), journal.ErrSignalReused)
	large := bytes.Repeat([]byte("x"), journal.MaxResultBytes)
	c.must("Send of a large value", c.journal.Send(c.Context(), journal.Signal{ID: other.ID, Name: "order.large", Value: large}, journal.Audit{}))
	i := slices.IndexFunc(c.signals(other.ID), func(s journal.Signal) bool { return bytes.Equal(s.Value, large) })
	want(c, "a large value is there", i >= 0, true)
}

func oneSignalWins(c *check) {
	for range 20 {
		r := c.startOwned()
		errs := make([]error, 16)
		runTogether(len(errs), func(i int) { errs[i] = c.send(r.ID, []byte{'0' + byte(i%8)}) })
		found := c.signals(r.ID)
		want(c, "signals", len(found), 1)
		for i, err := range errs {
			if '0'+byte(i%8) == found[0].Value[0] {
				c.must("Send of the value that is there", err)
			} else {
				c.wantErr("Send of another value", err, journal.ErrSignalReused)
			}
		}
	}
}

func signalOrEnd(c *check) {
	for range 20 {
		r := c.startOwned()
		var sent, endErr error
		var end journal.Signal
		runTogether(2, func(i int) {
			if i == 0 {
				sent = c.send(r.ID, value)
			} else {
				end, endErr = c.journal.EndWait(c.Context(), owner(r), name)
			}
		})
		c.must("EndWait", endErr)
		if sent != nil {
			c.wantErr("Send", sent, journal.ErrTooLate)
		}
		want(c, "Send returned nil, and the wait ended with the value", sent == nil, string(end.Value) == string(value))
		want(c, "the wait ended without a value", sent != nil, end.Value == nil)
		for range 2 {
			again, err := c.journal.EndWait(c.Context(), owner(r), name)
			c.must("EndWait again", err)
			want(c, "its value", string(again.Value), string(end.Value))
		}
		c.wantSignal(r.ID, end.Value)
		if sent != nil {
			c.wantErr("Send after the end of the wait", c.send(r.ID, value), journal.ErrTooLate)
		}
	}
}

func ownerEndsWait(c *check) {
	r := c.startOwned()
	for _, zombie := range []journal.Owner{
		{ID: r.ID, Engine: newEngine(), Fence: r.Fence},
		{ID: r.ID, Engine: r.Engine, Fence: r.Fence + 1},
		{ID: journal.ID{1}, Engine: r.Engine, Fence: 1},
	} {
		_, err := c.journal.EndWait(c.Context(), zombie, name)
		c.wantErr("EndWait by another owner", err, journal.ErrLeaseLost)
	}
	for _, s := range situations[1:] {
		was := s.put(c)
		_, err := c.journal.EndWait(c.Context(), owner(was), name)
		c.wantErr("EndWait of a saga that is "+s.name, err, journal.ErrLeaseLost)
		c.wantUnchanged(was)
	}
	want(c, "signals", len(c.signals(r.ID)), 0)
	c.must("Send", c.send(r.ID, value))
	_, err := c.journal.EndWait(c.Context(), journal.Owner{ID: r.ID, Engine: newEngine(), Fence: r.Fence}, name)
	c.wantErr("EndWait by another owner, with a value", err, journal.ErrLeaseLost)
}

func signalInTime(c *check) {
	req := request(journal.EngineID{})
	c.must("Send before the saga", c.send(req.ID, value))
	c.must("Send before the saga again", c.send(req.ID, value))
	c.wantErr("Send of another value before the saga", c.send(req.ID, otherValue), journal.ErrSignalReused)
	c.wantSignal(req.ID, value)
	r, created, err := c.journal.Start(c.Context(), req)
	c.must("Start", err)
	want(c, "created", created, true)
	c.wantSignal(r.ID, value)
	want(c, "claimed", len(c.claim(c.heartbeat(long), 10)), 1)

	for _, s := range situations {
		r := s.put(c)
		err := c.send(r.ID, value)
		if s.name == "running" {
			c.must("Send to a running saga", err)
			continue
		}
		c.wantErr("Send to a saga that is "+s.name, err, journal.ErrTooLate)
		want(c, "signals", len(c.signals(r.ID)), 0)
		c.wantUnchanged(r)
	}
	forward := c.append(c.startOwned(), journal.Write{Status: journal.Stuck, StuckOn: &blocked})
	c.must("Send to a saga that is stuck on its way forward", c.send(forward.ID, value))
	c.wantSignal(forward.ID, value)
	c.wantUnchanged(forward)
}

func signalWakes(c *check) {
	r := c.startOwned()
	c.must("Send to what has an owner", c.send(r.ID, value))
	c.wantUnchanged(r)
	n, err := c.journal.WakeSignalled(c.Context())
	c.must("WakeSignalled", err)
	want(c, "woken of what is woken", n, 0)
	want(c, "claimed of what has an owner", len(c.claim(c.heartbeat(long), 10)), 0)
	entry := journal.Entry{Step: name, Outcome: retry.NotSent, Pending: true, RetryAt: r.Now.Add(keep)}
	r = c.append(r, journal.Write{Entries: []journal.Entry{entry}, WakeAt: r.Now.Add(keep)})
	want(c, "WakeAt of what was sent a signal is past", r.WakeAt.After(r.Now), false)
	claimed := c.claim(c.heartbeat(long), 10)
	want(c, "claimed of what was given up", len(claimed), 1)
	want(c, "Clean", claimed[0].Clean, true)
	r = c.append(claimed[0], journal.Write{WakeAt: r.Now.Add(keep)})
	want(c, "WakeAt of what was sent nothing since is past", r.WakeAt.After(r.Now), true)
}

func signalBesideGivingUp(c *check) {
	for range 20 {
		r := c.startOwned()
		var sent, written error
		runTogether(2, func(i int) {
			if i == 0 {
				sent = c.send(r.ID, value)
			} else {
				written = c.journal.Append(c.Context(), owner(r), journal.Write{Revision: 2, WakeAt: r.Now.Add(keep)})
			}
		})
		c.must("Send", sent)
		c.must("Append", written)
		r = c.read(r.ID)
		want(c, "WakeAt is past", r.WakeAt.After(r.Now), false)
	}
	want(c, "claimed", len(c.claim(c.heartbeat(long), 100)), 20)
}

func signalIsAudited(c *check) {
	by := journal.Audit{Verb: journal.VerbSignal, Step: name, Actor: "ann", Reason: "because"}
	send := func(id journal.ID, value []byte) error {
		return c.journal.Send(c.Context(), journal.Signal{ID: id, Name: name, Value: value}, by)
	}
	c.wantErr("Send in a name to what is not there", send(journal.IDOf("", "none", childkey.MustNew()), value), journal.ErrNotFound)
	r := c.startOwned()
	for range 2 {
		c.must("Send in a name", send(r.ID, value))
	}
	if err := send(r.ID, otherValue); !errors.Is(err, journal.ErrSignalReused) {
		c.Fatalf("Send of another value: %v", err)
	}
	log, err := c.journal.Reader().AuditPage(c.Context(), journal.AuditRequest{Limit: 10})
	c.must("AuditPage", err)
	want(c, "lines in the audit log", len(log), 1)
	want(c, "its audit", log[0].Audit, by)
	want(c, "its saga", log[0].ID, r.ID)
	want(c, "From", log[0].From, journal.Running)
	want(c, "To", log[0].To, journal.Running)
	want(c, "Fence", log[0].Fence, r.Fence)
	c.wantDuring("At", log[0].At, r, c.read(r.ID))
	over := c.append(c.startOwned(), journal.Write{Status: journal.Completed, Keep: keep})
	c.wantErr("Send in a name to what is over", send(over.ID, value), journal.ErrTooLate)
}

func signalIsSwept(c *check) {
	r, kept, early := c.startOwned(), c.startOwned(), request(journal.EngineID{}).ID
	for _, id := range []journal.ID{r.ID, kept.ID, early} {
		c.must("Send", c.send(id, value))
	}
	_, err := c.journal.EndWait(c.Context(), owner(r), "order.paid")
	c.must("EndWait", err)
	c.append(r, journal.Write{Status: journal.Completed, Keep: gone})
	c.eventually("the end of its time", func() bool {
		n, err := c.journal.Sweep(c.Context(), 100)
		c.must("Sweep", err)
		return n == 1
	})
	want(c, "signals of a swept saga", len(c.signals(r.ID)), 0)
	c.wantSignal(kept.ID, value)
	c.wantSignal(early, value)
	c.must("Send to the next saga with the key", c.send(r.ID, otherValue))
}
