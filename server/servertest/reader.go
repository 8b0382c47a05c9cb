package servertest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/fanonce/fanonce/server/store"
)

// A ReaderSetup is a reader, and an empty store whose records it shows.
type ReaderSetup struct {
	Store  store.Store
	Reader store.Reader
	// SameTime calls claim, which claims keys, and gives the records of these keys one CreatedAt. nil leaves
	// records of the same time to chance.
	SameTime func(claim func() []store.ID)
	// Generic means that lists need not have the status of an answer, and that the estimate need not have a SweepLag.
	Generic bool
}

// TestReader runs every rule of readers as a parallel subtest, each on a store and a reader of its own. open returns
// them, and closes them in tb.Cleanup.
func TestReader(t *testing.T, open func(tb testing.TB) ReaderSetup) {
	t.Helper()
	for _, l := range readerRules {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			l.holds(newReaderCheck(t, open(t)))
		})
	}
}

func newReaderCheck(tb testing.TB, s ReaderSetup) *check {
	return &check{TB: tb, store: s.Store, reader: s.Reader, sameTime: s.SameTime, generic: s.Generic}
}

var readerRules = []rule{
	{"reader: one record is shown in every state, without secrets", showEveryState},
	{"reader: an absent key is not found", showAbsent},
	{"reader: a window has the records of any state, the youngest first", browseEverything},
	{"reader: a window has the records of some states, of a class and of a route", browseSome},
	{"reader: a window ends before To, and begins at From", browseWindows},
	{"reader: without From the window is the hour before To", browseDefaultWindow},
	{"reader: the pages of a window have each record once", browseByPages},
	{"reader: the list has the keys that need a decision and match the request, without secrets", listWhatNeedsSomebody},
	{"reader: the list has dead letters, without secrets", listDeadLetters},
	{"reader: the list has the children of a record, in any state, without secrets", listChildren},
	{"reader: the pages of a list have each record once", readListByPages},
	{"reader: attention counts the keys that need a person", readAttention},
	{"reader: the estimate counts the young by state", estimateCounts},
	{"reader: the estimate has the time that a record waits for the sweep", estimateLag},
	{"reader: the pages of the audit log have each entry once", auditByPages},
	{"reader: the audit log is filtered by key and by actor", auditSome},
	{"reader: a request that cannot be answered returns ErrArgument", readBadArguments},
	{"reader: a done context ends every method", readWithDoneContext},
}

// secret fails the rule if r has bytes that no reader may return.
func (c *check) secret(what string, r store.Record) {
	c.Helper()
	if r.Answer.Envelope != nil || r.Memo != nil || r.Token != (store.Token{}) || r.Fingerprint != (store.Fingerprint{}) {
		c.Errorf("%s: the record of state %d has an envelope, a memo, a token or a fingerprint", what, r.State)
	}
}

// wantListed is wantShown for a record of a list.
func (c *check) wantListed(what string, got, full store.Record) {
	c.Helper()
	if c.generic {
		got.Answer.Status = full.Answer.Status
	}
	c.wantShown(what, got, full)
}

// wantShown compares a record that a reader returned.
func (c *check) wantShown(what string, got, full store.Record) {
	c.Helper()
	c.secret(what, got)
	expect := full.Public()
	if got.Now.Before(got.CreatedAt) {
		c.Errorf("%s: Now is %v, before CreatedAt %v", what, got.Now, got.CreatedAt)
	}
	if diff := difference(got, expect); diff != "" {
		c.Errorf("%s: %s", what, diff)
	}
}

// secretive claims an opaque key with a memo, and returns the request.
func (c *check) secretive() store.Record {
	c.Helper()
	req := request(newID())
	req.Effect, req.Route, req.Memo = store.Opaque, "POST /charges", []byte("a memo")
	return c.claim(req)
}

// everyRecord puts a record of every situation, and an opaque one with a memo. They are the youngest first.
func (c *check) everyRecord() []store.Record {
	c.Helper()
	all := []store.Record{c.read(c.secretive().ID)}
	for _, s := range everyState {
		all = append(all, s.put(c))
	}
	slices.SortFunc(all, youngestFirst)
	return all
}

func youngestFirst(a, b store.Record) int { return oldestFirst(b, a) }

func showEveryState(c *check) {
	for _, r := range c.everyRecord() {
		got, err := c.reader.Show(c.Context(), r.ID)
		c.must("Show", err)
		c.wantShown("Show of state "+r.State.String(), got, r)
	}
}

func showAbsent(c *check) {
	c.claimNew()
	_, err := c.reader.Show(c.Context(), newID())
	c.wantErr("Show of an absent key", err, store.ErrNotFound)
}

func (c *check) browse(req store.BrowseRequest) []store.Record {
	c.Helper()
	got, err := c.reader.Browse(c.Context(), req)
	c.must("Browse", err)
	return got
}

// wantBrowsed fails the rule if the page is not these records in this order.
func (c *check) wantBrowsed(what string, req store.BrowseRequest, wanted []store.Record) {
	c.Helper()
	if req.Limit == 0 {
		req.Limit = 100
	}
	got := c.browse(req)
	want(c, "records browsed, "+what, len(got), len(wanted))
	for i, r := range got {
		c.wantListed("browsed, "+what, r, wanted[i])
	}
}

func browseEverything(c *check) {
	c.wantBrowsed("of an empty store", store.BrowseRequest{}, nil)
	all := c.everyRecord()
	c.wantBrowsed("all", store.BrowseRequest{}, all)
	c.wantBrowsed("at most three", store.BrowseRequest{Limit: 3}, all[:3])
}

func browseSome(c *check) {
	all := c.everyRecord()
	of := func(keep func(store.Record) bool) []store.Record {
		return slices.DeleteFunc(slices.Clone(all), func(r store.Record) bool { return !keep(r) })
	}
	for state := store.StateInProgress; state <= store.StateCancelled; state++ {
		wanted := inState(all, state)
		if len(wanted) == 0 {
			c.Fatalf("no record of state %d to look for", state)
		}
		c.wantBrowsed("state "+state.String(), store.BrowseRequest{States: []store.State{state}}, wanted)
	}
	two := []store.State{store.StateCancelled, store.StateCompleted}
	c.wantBrowsed("of two states", store.BrowseRequest{States: two}, inState(all, two...))
	opaque := of(func(r store.Record) bool { return r.Effect == store.Opaque })
	c.wantBrowsed("opaque", store.BrowseRequest{Effect: store.Opaque}, opaque)
	c.wantBrowsed("opaque and in progress", store.BrowseRequest{Effect: store.Opaque, States: []store.State{store.StateInProgress}}, opaque)
	charges := of(func(r store.Record) bool { return r.Route == "POST /charges" })
	want(c, "records of the route", len(charges), 1)
	c.wantBrowsed("of a route", store.BrowseRequest{Route: "POST /charges"}, charges)
	c.wantBrowsed("of another route", store.BrowseRequest{Route: "POST /refunds"}, nil)
}

// claimAtDifferentTimes claims n keys at different times, and returns them youngest first.
func (c *check) claimAtDifferentTimes(n int) []store.Record {
	c.Helper()
	var all []store.Record
	for len(all) < n {
		r := c.claimNew()
		if len(all) > 0 && !r.CreatedAt.After(all[0].CreatedAt) {
			_, _, err := c.store.Cancel(c.Context(), store.CancelRequest{ID: r.ID, Token: newToken(), Keep: keep})
			c.must("Cancel", err)
			continue
		}
		all = append([]store.Record{r}, all...)
		c.eventually("the store's clock moves", func() bool { return c.read(r.ID).Now.Sub(r.CreatedAt) >= 2*time.Microsecond })
	}
	return all
}

func browseWindows(c *check) {
	all := c.claimAtDifferentTimes(5) // all[0] is the youngest
	at := func(i int) time.Time { return all[i].CreatedAt }
	moment := time.Microsecond // the precision of stores
	for _, tt := range []struct {
		what     string
		from, to time.Time
		want     []store.Record
	}{
		{"From is in the window", at(3), time.Time{}, all[:4]},
		{"just after From", at(3).Add(moment), time.Time{}, all[:3]},
		{"To is not in the window", time.Time{}, at(1), all[2:]},
		{"just before To", time.Time{}, at(1).Add(moment), all[1:]},
		{"both", at(3), at(1), all[2:4]},
		{"empty", at(2), at(2), nil},
		{"before all", at(4).Add(-time.Hour), at(4), nil},
		{"in the future", at(0).Add(time.Hour), at(0).Add(2 * time.Hour), nil},
	} {
		c.wantBrowsed(tt.what, store.BrowseRequest{From: tt.from, To: tt.to}, tt.want)
	}
	first := store.Cursor{CreatedAt: all[1].CreatedAt, ID: all[1].ID}
	c.wantBrowsed("a page in a window", store.BrowseRequest{From: at(3), To: at(0), Before: first}, all[2:4])
	c.wantBrowsed("a page that begins after To", store.BrowseRequest{To: at(3), Before: first}, all[4:])
}

func browseDefaultWindow(c *check) {
	r := c.read(c.claimNew().ID)
	hour := r.CreatedAt.Add(store.DefaultWindow)
	c.wantBrowsed("From is an hour before To", store.BrowseRequest{To: hour}, []store.Record{r})
	c.wantBrowsed("the record is older than an hour before To", store.BrowseRequest{To: hour.Add(time.Microsecond)}, nil)
}

func browseByPages(c *check) {
	all := c.claimAtOneTime(12)
	for _, limit := range []int{1, 2, 5, len(all), len(all) + 1} {
		var got []store.Record
		var before store.Cursor
		for len(got) <= len(all) {
			page := c.browse(store.BrowseRequest{Limit: limit, Before: before})
			if len(page) > limit {
				c.Fatalf("%d records on a page of %d", len(page), limit)
			}
			if len(page) == 0 {
				break
			}
			got = append(got, page...)
			before = store.Cursor{CreatedAt: page[len(page)-1].CreatedAt, ID: page[len(page)-1].ID}
		}
		want(c, "records on all pages", len(got), len(all))
		for i := range got {
			want(c, "the order of the pages", got[i].ID, all[i].ID)
		}
	}
}

// claimAtOneTime claims n keys, at the same time by the store's clock if the setup can do that. It returns the youngest first.
func (c *check) claimAtOneTime(n int) []store.Record {
	c.Helper()
	ids := make([]store.ID, n)
	claim := func() []store.ID {
		runAtOnce(n, func(i int) { ids[i] = c.claimNew().ID })
		return ids
	}
	if c.sameTime == nil {
		claim()
	} else {
		c.sameTime(claim)
	}
	all := make([]store.Record, n)
	for i, id := range ids {
		all[i] = c.read(id)
		if c.sameTime != nil {
			want(c, "CreatedAt of records of the same time", all[i].CreatedAt, all[0].CreatedAt)
		}
	}
	slices.SortFunc(all, youngestFirst)
	return all
}

func (c *check) readList(req store.ListRequest) []store.Record {
	c.Helper()
	got, err := c.reader.List(c.Context(), req)
	c.must("List", err)
	return got
}

// wantList fails the rule if the list is not these records.
func (c *check) wantList(what string, req store.ListRequest, wanted []store.Record) {
	c.Helper()
	req.Limit = 100
	slices.SortFunc(wanted, oldestFirst)
	got := c.readList(req)
	want(c, "records listed, "+what, len(got), len(wanted))
	for i := range got {
		c.wantListed("listed, "+what, got[i], wanted[i])
	}
}

func listWhatNeedsSomebody(c *check) {
	var needy []store.Record
	for _, s := range everyState {
		if r := s.put(c); stuck(r, s) && (r.State != store.StateInProgress || r.Effect == store.Opaque) {
			needy = append(needy, r)
		}
	}
	c.secretive() // alive
	grave := grave(c.claimDead(store.Keyed), store.StateQuarantined)
	grave.Route = "POST /charges"
	charge := c.quarantine(grave)
	gaveUp := c.secretive()
	c.settle(owner(gaveUp), giveUp)
	needy = append(needy, charge, c.read(gaveUp.ID))
	dead := inState(needy, store.StateInProgress)
	want(c, "dead opaque runs to look for", len(dead), 1)
	unknown, quarantined := inState(needy, store.StateUnknown), inState(needy, store.StateQuarantined)
	both := slices.Concat(unknown, quarantined)
	of := func(effect store.Effect) []store.Record {
		return slices.DeleteFunc(slices.Clone(needy), func(r store.Record) bool { return r.Effect != effect })
	}
	states := func(all ...store.State) store.ListRequest { return store.ListRequest{States: all} }
	onRoute := states(store.StateUnknown)
	onRoute.Route = "POST /charges"
	c.wantList("by default", store.ListRequest{}, needy)
	c.wantList("opaque", store.ListRequest{Effect: store.Opaque}, of(store.Opaque))
	c.wantList("keyed", store.ListRequest{Effect: store.Keyed}, of(store.Keyed))
	c.wantList("of a route", store.ListRequest{Route: "POST /charges"}, []store.Record{charge, c.read(gaveUp.ID)})
	c.wantList("of a route, keyed", store.ListRequest{Route: "POST /charges", Effect: store.Keyed}, []store.Record{charge})
	c.wantList("of another route", store.ListRequest{Route: "POST /refunds"}, nil)
	c.wantList("dead", states(store.StateInProgress), dead)
	c.wantList("dead and keyed", store.ListRequest{States: []store.State{store.StateInProgress}, Effect: store.Keyed}, nil)
	c.wantList("unknown", states(store.StateUnknown), unknown)
	c.wantList("quarantined", states(store.StateQuarantined), quarantined)
	c.wantList("both", states(store.StateQuarantined, store.StateUnknown), both)
	c.wantList("unknown, of a route", onRoute, []store.Record{c.read(gaveUp.ID)})
}

func listDeadLetters(c *check) {
	c.everyRecord()
	letter := putSettled(deadLetter)(c)
	c.wantList("dead letters", store.ListRequest{DeadLetters: true}, []store.Record{letter})
	c.wantList("dead letters of another class", store.ListRequest{DeadLetters: true, Effect: store.Opaque}, nil)
}

func listChildren(c *check) {
	parent := newID()
	var children []store.Record
	for _, end := range []*store.Settlement{nil, &release, &giveUp, &deadLetter} {
		req := request(newID())
		req.Parent = parent
		if end == &giveUp {
			req.Effect, req.Memo = store.Opaque, []byte("a memo")
		}
		r := c.claim(req)
		if end != nil {
			c.settle(owner(r), *end)
		}
		children = append(children, c.read(r.ID))
	}
	c.claimNew() // with another parent
	slices.SortFunc(children, oldestFirst)
	unknown := inState(children, store.StateUnknown)
	c.wantList("children", store.ListRequest{Parent: parent}, children)
	c.wantList("children after the first", store.ListRequest{Parent: parent, After: children[0].Cursor()}, children[1:])
	c.wantList("children in a state", store.ListRequest{Parent: parent, States: []store.State{store.StateUnknown}}, unknown)
	c.wantList("children in another state", store.ListRequest{Parent: parent, States: []store.State{store.StateCancelled}}, nil)
	c.wantList("children of a class", store.ListRequest{Parent: parent, Effect: store.Opaque}, unknown)
	c.wantList("children of nobody", store.ListRequest{Parent: newID()}, nil)
}

func readListByPages(c *check) {
	parent := newID()
	var unknown, dead []store.Record
	for i := range 7 {
		req := request(newID())
		req.Parent = parent
		r := c.claim(req)
		c.settle(owner(r), giveUp)
		unknown = append(unknown, c.read(r.ID))
		if i%2 == 0 {
			dead = append(dead, c.claimDead(store.Opaque))
		}
	}
	for _, tt := range []struct {
		req  store.ListRequest
		want []store.Record
	}{
		{store.ListRequest{}, slices.Concat(unknown, dead)},
		{store.ListRequest{States: []store.State{store.StateUnknown}}, unknown},
		{store.ListRequest{States: []store.State{store.StateInProgress}}, dead},
		{store.ListRequest{Parent: parent}, unknown},
	} {
		slices.SortFunc(tt.want, oldestFirst)
		tt.req.Limit = 3
		var got []store.Record
		for len(got) <= len(tt.want) {
			page := c.readList(tt.req)
			if len(page) > tt.req.Limit {
				c.Fatalf("%d records on a page of %d", len(page), tt.req.Limit)
			}
			if len(page) == 0 {
				break
			}
			got = append(got, page...)
			tt.req.After = page[len(page)-1].Cursor()
		}
		want(c, "records on all pages", len(got), len(tt.want))
		for i := range got {
			want(c, "the order of the pages", got[i].ID, tt.want[i].ID)
		}
	}
}

func readAttention(c *check) {
	all := c.everyRecord()
	letter := putSettled(deadLetter)(c)
	unknown, quarantined := inState(all, store.StateUnknown), inState(all, store.StateQuarantined)
	got, err := c.reader.Attention(c.Context())
	c.must("Attention", err)
	want(c, "Attention, unknown", got.Unknown, int64(len(unknown)))
	want(c, "Attention, quarantined", got.Quarantined, int64(len(quarantined)))
	want(c, "Attention, dead letters", got.DeadLetters, 1)
	oldest := slices.MinFunc(slices.Concat(unknown, quarantined, []store.Record{letter}), oldestFirst)
	want(c, "the oldest has waited", got.Oldest > 0 && got.Oldest <= c.storeNow().Sub(oldest.CreatedAt), true)
}

func (c *check) estimate() store.Estimate {
	c.Helper()
	e, err := c.reader.Estimate(c.Context())
	c.must("Estimate", err)
	return e
}

func estimateCounts(c *check) {
	e := c.estimate()
	want(c, "Young of an empty store", e.Young, 0)
	want(c, "states of an empty store", len(e.ByState), 0)
	want(c, "OldestInProgress of an empty store", e.OldestInProgress, time.Duration(0))
	want(c, "SweepLag of an empty store", e.SweepLag, time.Duration(0))
	first := c.claimNew()
	all := append(c.everyRecord(), first)
	e = c.estimate()
	want(c, "Young", e.Young, len(all))
	counts := make(map[store.State]int)
	for _, r := range all {
		counts[r.State]++
	}
	want(c, "number of states", len(e.ByState), len(counts))
	for state, n := range counts {
		want(c, "records "+state.String(), e.ByState[state], n)
	}
	if e.Records > int64(len(all)) {
		c.Errorf("Records = %d, there are %d", e.Records, len(all))
	}
	now := c.read(first.ID).Now
	if age := e.OldestInProgress; age <= 0 || age > now.Sub(first.CreatedAt) {
		c.Errorf("OldestInProgress = %v, want at most %v", age, now.Sub(first.CreatedAt))
	}
}

func estimateLag(c *check) {
	c.expiring = true
	unknown := putSettled(giveUp)(c) // it stays, and so it does not wait
	c.untilExpired(unknown)
	want(c, "SweepLag of a store with an unknown key", c.estimate().SweepLag, time.Duration(0))
	cancelled := newID()
	c.cancel(cancelled)
	c.untilExpired(c.read(cancelled))
	e := c.estimate()
	now := c.storeNow()
	if waited := now.Sub(c.read(cancelled).ExpiresAt); e.SweepLag < 0 || e.SweepLag > waited || e.SweepLag == 0 && !c.generic {
		c.Errorf("SweepLag = %v, want more than 0 and at most %v", e.SweepLag, waited)
	}
	_, err := c.store.Sweep(c.Context(), 100)
	c.must("Sweep", err)
	want(c, "SweepLag after a sweep", c.estimate().SweepLag, time.Duration(0))
}

// entries makes entries of the audit log, by two actors, of n keys, two of each key. They are returned as the log has
// them, the youngest first.
func (c *check) entries(n int) []store.AuditEntry {
	c.Helper()
	for i := range n {
		r := putSettled(giveUp)(c)
		after := c.resolve(resolution(r, store.StateReleased))
		forget := store.Audit{Verb: store.VerbForget, Actor: []string{"bob", "ann"}[i%2], Reason: "a test key"}
		_, _, err := c.store.Forget(c.Context(), r.ID, after.Fence, forget)
		c.must("Forget", err)
	}
	log, err := c.store.Reader().AuditPage(c.Context(), store.AuditRequest{Limit: 2*n + 1})
	c.must("AuditPage", err)
	want(c, "entries of the log", len(log), 2*n)
	return log
}

func (c *check) auditPage(req store.AuditRequest) []store.AuditEntry {
	c.Helper()
	page, err := c.reader.AuditPage(c.Context(), req)
	c.must("AuditPage", err)
	return page
}

// wantEntries compares all but the numbers, which must fall from entry to entry.
func (c *check) wantEntries(what string, got, wanted []store.AuditEntry) {
	c.Helper()
	want(c, "entries, "+what, len(got), len(wanted))
	for i := range got {
		if got[i].Number <= 0 || i > 0 && got[i].Number >= got[i-1].Number {
			c.Errorf("%s: the number of entry %d is %d after %d", what, i, got[i].Number, got[max(0, i-1)].Number)
		}
		same := got[i]
		same.Number = wanted[i].Number
		want(c, "an entry, "+what, same, wanted[i])
	}
}

func auditByPages(c *check) {
	c.wantEntries("of an empty log", c.auditPage(store.AuditRequest{Limit: 1}), nil)
	log := c.entries(4)
	for _, limit := range []int{1, 3, len(log), len(log) + 1} {
		var got []store.AuditEntry
		var before int64
		for len(got) <= len(log) {
			page := c.auditPage(store.AuditRequest{Limit: limit, Before: before})
			if len(page) > limit {
				c.Fatalf("%d entries on a page of %d", len(page), limit)
			}
			if len(page) == 0 {
				break
			}
			got, before = append(got, page...), page[len(page)-1].Number
		}
		c.wantEntries("by pages", got, log)
	}
}

func auditSome(c *check) {
	log := c.entries(4)
	of := func(keep func(store.AuditEntry) bool) []store.AuditEntry {
		return slices.DeleteFunc(slices.Clone(log), func(e store.AuditEntry) bool { return !keep(e) })
	}
	id := log[2].ID
	ofKey := of(func(e store.AuditEntry) bool { return e.ID == id })
	c.wantEntries("of a key", c.auditPage(store.AuditRequest{ID: id, Limit: 100}), ofKey)
	bobs := of(func(e store.AuditEntry) bool { return e.Actor == "bob" })
	got := c.auditPage(store.AuditRequest{Actor: "bob", Limit: 100})
	c.wantEntries("of an actor", got, bobs)
	c.wantEntries("of an actor, the second page", c.auditPage(store.AuditRequest{Actor: "bob", Limit: 100, Before: got[0].Number}), bobs[1:])
	both := of(func(e store.AuditEntry) bool { return e.ID == bobs[0].ID && e.Actor == "bob" })
	c.wantEntries("of a key and an actor", c.auditPage(store.AuditRequest{ID: bobs[0].ID, Actor: "bob", Limit: 100}), both)
	c.wantEntries("of nobody", c.auditPage(store.AuditRequest{Actor: "eve", Limit: 100}), nil)
}

func readBadArguments(c *check) {
	r := c.claimNew()
	now, unknown := r.Now, []store.State{store.StateUnknown}
	browse := func(req store.BrowseRequest) func(context.Context) error {
		return func(ctx context.Context) error { _, err := c.reader.Browse(ctx, req); return err }
	}
	list := func(req store.ListRequest) func(context.Context) error {
		return func(ctx context.Context) error { _, err := c.reader.List(ctx, req); return err }
	}
	audit := func(req store.AuditRequest) func(context.Context) error {
		return func(ctx context.Context) error { _, err := c.reader.AuditPage(ctx, req); return err }
	}
	for _, tt := range []struct {
		name string
		do   func(ctx context.Context) error
	}{
		{"browse no records", browse(store.BrowseRequest{})},
		{"browse fewer than no records", browse(store.BrowseRequest{Limit: -1})},
		{"browse from after to", browse(store.BrowseRequest{Limit: 1, From: now, To: now.Add(-time.Second)})},
		{"browse state 0", browse(store.BrowseRequest{Limit: 1, States: []store.State{0}})},
		{"browse an unknown state", browse(store.BrowseRequest{Limit: 1, States: []store.State{store.StateUnknown, store.StateCancelled + 1}})},
		{"browse an unknown class", browse(store.BrowseRequest{Limit: 1, Effect: store.Opaque + 1})},
		{"list no records", list(store.ListRequest{States: unknown})},
		{"list completed keys", list(store.ListRequest{Limit: 1, States: []store.State{store.StateUnknown, store.StateCompleted}})},
		{"list released keys", list(store.ListRequest{Limit: 1, States: []store.State{store.StateReleased}})},
		{"list keys in state 0", list(store.ListRequest{Limit: 1, States: []store.State{0}})},
		{"list children in state 0", list(store.ListRequest{Limit: 1, Parent: r.ID, States: []store.State{0}})},
		{"list children that are dead letters", list(store.ListRequest{Limit: 1, Parent: r.ID, DeadLetters: true})},
		{"list unknown keys of an unknown class", list(store.ListRequest{Limit: 1, States: unknown, Effect: store.Opaque + 1})},
		{"no entries of the log", audit(store.AuditRequest{})},
		{"a page of the log before a negative number", audit(store.AuditRequest{Limit: 1, Before: -1})},
		{"the log of an actor with a long name", audit(store.AuditRequest{Limit: 1, Actor: string(make([]byte, store.MaxActorBytes+1))})},
	} {
		c.wantErr(tt.name, tt.do(c.Context()), store.ErrArgument)
	}
}

func readWithDoneContext(c *check) {
	r := c.claimNew()
	ctx := c.cancelledContext()
	for _, call := range []struct {
		name string
		do   func() error
	}{
		{"Show", func() error { _, err := c.reader.Show(ctx, r.ID); return err }},
		{"List", func() error { _, err := c.reader.List(ctx, store.ListRequest{Parent: r.ID, Limit: 1}); return err }},
		{"Browse", func() error { _, err := c.reader.Browse(ctx, store.BrowseRequest{Limit: 1}); return err }},
		{"Attention", func() error { _, err := c.reader.Attention(ctx); return err }},
		{"Estimate", func() error { _, err := c.reader.Estimate(ctx); return err }},
		{"AuditPage", func() error { _, err := c.reader.AuditPage(ctx, store.AuditRequest{Limit: 1}); return err }},
	} {
		c.wantErr(call.name+" with a done context", call.do(), context.Canceled)
	}
}
