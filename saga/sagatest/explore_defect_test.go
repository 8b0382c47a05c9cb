package sagatest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/sdk"
)

// journalDefect makes the defect that mar makes in the journal. It represents an engine that does
// not write, or does not believe, a required fact.
func journalDefect(mar func(m *mutant)) func(e *explorer) {
	return func(e *explorer) {
		e.breakJournal = func(j journal.Journal) journal.Journal {
			m := &mutant{Journal: j}
			mar(m)
			return m
		}
	}
}

// writes makes the defect that edit is done to every write; now is the saga
// before it.
func writes(edit func(now journal.Record, w *journal.Write)) func(e *explorer) {
	return journalDefect(func(m *mutant) {
		m.append = func(ctx context.Context, o journal.Owner, w journal.Write) error {
			now, err := m.Read(ctx, o.ID)
			if err != nil {
				return err
			}
			w.Entries = append([]journal.Entry(nil), w.Entries...)
			edit(now, &w)
			return m.Journal.Append(ctx, o, w)
		}
	})
}

// drop removes the entries that match.
func drop(w *journal.Write, match func(e journal.Entry) bool) {
	var rest []journal.Entry
	for _, e := range w.Entries {
		if !match(e) {
			rest = append(rest, e)
		}
	}
	w.Entries = rest
}

type tripFunc func(req *http.Request) (*http.Response, error)

func (f tripFunc) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// answers makes the defect that edit is done to every answer.
func answers(edit func(req *http.Request, resp *http.Response)) func(e *explorer) {
	return func(e *explorer) {
		e.breakNetwork = func(network roundTripper) roundTripper {
			return tripFunc(func(req *http.Request) (*http.Response, error) {
				resp, err := network.RoundTrip(req)
				if err == nil {
					edit(req, resp)
				}
				return resp, err
			})
		}
	}
}

// heirs makes a defect of the second process of a run. It applies edit to the answer to that
// process's first request for each call. The process takes over, and forgets that another process
// may have sent the call before. Use it for one scenario at a time.
func heirs(edit func(req *http.Request, resp *http.Response)) func(e *explorer) {
	return func(e *explorer) {
		processes := 0
		e.breakNetwork = func(network roundTripper) roundTripper {
			if processes++; processes%2 == 1 {
				return network
			}
			var sent sync.Map
			return tripFunc(func(req *http.Request) (*http.Response, error) {
				_, again := sent.LoadOrStore(req.Header.Get(wire.HeaderKey), true)
				resp, err := network.RoundTrip(req)
				if err == nil && !again {
					edit(req, resp)
				}
				return resp, err
			})
		}
	}
}

// believed401 takes a gateway's 401 for the callee's own answer.
func believed401(_ *http.Request, resp *http.Response) {
	if resp.StatusCode == http.StatusUnauthorized {
		proven(resp, http.StatusUnauthorized)
	}
}

// requests makes the defect that edit is done to every request of a process.
func requests(edit func(process int32, header http.Header)) func(e *explorer) {
	var processes atomic.Int32
	return func(e *explorer) {
		e.breakNetwork = func(network roundTripper) roundTripper {
			process := processes.Add(1)
			return tripFunc(func(req *http.Request) (*http.Response, error) {
				req = req.Clone(req.Context())
				edit(process, req.Header)
				return network.RoundTrip(req)
			})
		}
	}
}

// anotherPath makes the defect that each process computes other values for paths.
func anotherPath(e *explorer) {
	var processes atomic.Int32
	e.breakNetwork = func(network roundTripper) roundTripper {
		process := processes.Add(1)
		return tripFunc(func(req *http.Request) (*http.Response, error) {
			req = req.Clone(req.Context())
			req.URL.Path = strings.Replace(req.URL.Path, "/hold-", fmt.Sprintf("/hold-%d", process), 1)
			return network.RoundTrip(req)
		})
	}
}

// firstSent makes the defect that each request says to be as old as of makes it of the time when its process began.
func firstSent(of func(begun time.Time) time.Time) func(e *explorer) {
	return func(e *explorer) {
		e.breakNetwork = func(network roundTripper) roundTripper {
			begun := time.Now()
			return tripFunc(func(req *http.Request) (*http.Response, error) {
				req = req.Clone(req.Context())
				req.Header.Set(wire.HeaderFirstSent, wire.FormatFirstSent(of(begun)))
				return network.RoundTrip(req)
			})
		}
	}
}

func proven(resp *http.Response, status int) {
	resp.StatusCode = status
	resp.Header.Set("Content-Type", "application/json")
	resp.Header.Set(wire.HeaderReplayed, "true")
	resp.Header.Del(wire.HeaderShouldRetry)
	resp.Header.Del(wire.HeaderCode)
	resp.Body = io.NopCloser(bytes.NewReader([]byte(`{}`)))
	resp.ContentLength = 2
}

// A planted is one mistake of a saga engine.
type planted struct {
	name  string
	only  string // the scenario that shows it
	plant func(e *explorer)
}

// plantedDefects are mistakes that saga engines have made. Each one changes a record or message
// that is written, believed, sent or read.
var plantedDefects = []planted{
	{"registers an undo once its call succeeded", "inventory.reserve takes long, and payment.charge is refused beside it", writes(func(_ journal.Record, w *journal.Write) {
		if w.Status == journal.Compensating {
			drop(w, func(e journal.Entry) bool { return e.Pending })
		}
	})},
	{"undoes what was refused", "inventory.reserve is refused", writes(func(_ journal.Record, w *journal.Write) {
		for i, e := range w.Entries {
			if !e.Undo && e.Outcome == retry.Rejected && !e.Pending {
				w.Entries[i].Outcome = retry.Completed
			}
		}
	})},
	{"uses the forward key for the undo", "inventory.reserve is refused", requests(func(_ int32, header http.Header) {
		if forward := header.Get(wire.HeaderCancels); forward != "" {
			header.Set(wire.HeaderKey, forward)
		}
	})},
	{"does not name the forward key", "inventory.reserve is refused", requests(func(_ int32, header http.Header) { header.Del(wire.HeaderCancels) })},
	{"does not write the failure", "inventory.reserve is refused", writes(func(_ journal.Record, w *journal.Write) {
		if w.Status == journal.Compensating {
			w.Status, w.Cause = 0, nil
		}
	})},
	{"loses siblings that complete late", "inventory.reserve takes long, and payment.charge is refused beside it", writes(func(now journal.Record, w *journal.Write) {
		if now.Status == journal.Compensating {
			for i, e := range w.Entries {
				if !e.Undo && e.Outcome == retry.Completed {
					w.Entries[i].Outcome = retry.Rejected
				}
			}
		}
	})},
	{"measures leases by a clock that is ahead", "all goes well", journalDefect(func(m *mutant) {
		m.beat = func(ctx context.Context, engine journal.EngineID, lease time.Duration) error {
			return m.Journal.Heartbeat(ctx, engine, lease/4)
		}
	})},
	{"takes response-gone for a refusal", "inventory.reserve finds its answer gone", answers(func(_ *http.Request, resp *http.Response) {
		if resp.StatusCode == http.StatusGone {
			proven(resp, http.StatusNotFound)
		}
	})},
	{"takes a gateway's 401 for proof", "inventory.reserve is turned away by a gateway after it ran", answers(believed401)},
	{"takes a gateway's 401 for proof once it has taken over", "inventory.reserve is turned away by a gateway after it ran", heirs(believed401)},
	{
		"takes a gateway's 401 to an undo for proof once it has taken over",
		"shipping.book is refused, and the undo of inventory.reserve is turned away by a gateway after it ran", heirs(believed401),
	},
	{"takes an undo that was refused for done", "shipping.book is refused, and the undo of inventory.reserve is refused", answers(func(req *http.Request, resp *http.Response) {
		if req.Header.Get(wire.HeaderCancels) != "" && resp.StatusCode == http.StatusUnprocessableEntity {
			proven(resp, http.StatusOK)
		}
	})},
	{"takes outcome-unknown for a refusal", "inventory.reserve is forgotten after it ran", answers(func(_ *http.Request, resp *http.Response) {
		if code := resp.Header.Get("Content-Type"); code == wire.ProblemContentType && resp.StatusCode == http.StatusLocked {
			proven(resp, http.StatusConflict)
		}
	})},
	{"does not compare fences", "inventory.reserve is refused", journalDefect(func(m *mutant) {
		m.append = func(ctx context.Context, o journal.Owner, w journal.Write) error {
			if now, err := m.Read(ctx, o.ID); err == nil {
				o.Fence, o.Engine, w.Revision = now.Fence, now.Engine, now.Revision+1
			}
			return m.Journal.Append(ctx, o, w)
		}
	})},
	{"takes over without a new fence", "all goes well", journalDefect(func(m *mutant) {
		m.claim = func(ctx context.Context, req journal.ClaimRequest) ([]journal.Record, error) {
			claimed, err := m.Journal.Claim(ctx, req)
			for i := range claimed {
				claimed[i].Fence--
			}
			return claimed, err
		}
	})},
	{"stores the plan with the first outcome", "all goes well", journalDefect(func(m *mutant) {
		var mu sync.Mutex
		var late *journal.StartRequest
		m.start = func(_ context.Context, req journal.StartRequest) (journal.Record, bool, error) {
			mu.Lock()
			defer mu.Unlock()
			late = &req
			now := time.Now()
			return journal.Record{
				ID: req.ID, Key: req.Key, Name: req.Name, Version: req.Version, Plan: req.Plan, InputHash: req.InputHash, Input: req.Input,
				Status: journal.Running, Engine: req.Engine, Fence: 1, Revision: 1,
				Times: journal.Times{Now: now, CreatedAt: now, FirstClaimedAt: now},
			}, true, nil
		}
		m.append = func(ctx context.Context, o journal.Owner, w journal.Write) error {
			mu.Lock()
			defer mu.Unlock()
			if _, _, err := m.Journal.Start(ctx, *late); err != nil {
				return err
			}
			return m.Journal.Append(ctx, o, w)
		}
	})},
	{"undoes before it knows what happened", "inventory.reserve takes long, and payment.charge is refused beside it", journalDefect(func(m *mutant) {
		m.claim = func(ctx context.Context, req journal.ClaimRequest) ([]journal.Record, error) {
			claimed, err := m.Journal.Claim(ctx, req)
			for i := range claimed {
				for k := range claimed[i].Entries {
					if e := &claimed[i].Entries[k]; e.Pending && !e.Undo {
						e.Pending = false
					}
				}
			}
			return claimed, err
		}
	})},
	{"says compensated when it fails", "inventory.reserve is refused", writes(func(_ journal.Record, w *journal.Write) {
		if w.Status == journal.Compensating {
			w.Status, w.Keep = journal.Compensated, time.Hour
		}
	})},
	{"makes its keys anew in each process", "all goes well", requests(func(process int32, header http.Header) {
		if text := header.Get(wire.HeaderKey); text != "" {
			header.Set(wire.HeaderKey, childkey.MustParse(text[1:len(text)-3]+string('a'+process%16)).Quoted())
		}
	})},
	{"does not hear that a person cancelled its saga", "all goes well", journalDefect(func(m *mutant) {
		m.append = func(ctx context.Context, o journal.Owner, w journal.Write) error {
			err := m.Journal.Append(ctx, o, w)
			if now, readErr := m.Read(ctx, o.ID); readErr == nil && now.Cancel && errors.Is(err, journal.ErrLeaseLost) {
				return nil
			}
			return err
		}
	})},
	{"says that it cancels a saga whose pivot has begun", "all goes well", func(e *explorer) {
		e.disturb = []disturbance{cancel}
		journalDefect(func(m *mutant) {
			m.read = func(ctx context.Context, id journal.ID) (journal.Record, error) {
				r, err := m.Journal.Read(ctx, id)
				r.Entries = slices.DeleteFunc(r.Entries, func(e journal.Entry) bool { return e.Step == "shipping.book" })
				return r, err
			}
		})(e)
	}},
	{"books an attempt that its process cut off as refused", "all goes well", journalDefect(func(m *mutant) {
		m.claim = func(ctx context.Context, req journal.ClaimRequest) ([]journal.Record, error) {
			claimed, err := m.Journal.Claim(ctx, req)
			for i := range claimed {
				for k := range claimed[i].Entries {
					if e := &claimed[i].Entries[k]; e.Pending && !e.Undo && !claimed[i].Clean {
						e.Pending, e.Outcome = false, retry.Rejected
					}
				}
			}
			return claimed, err
		}
	})},
	{"never takes anything over", "all goes well", journalDefect(func(m *mutant) {
		m.claim = func(context.Context, journal.ClaimRequest) ([]journal.Record, error) { return nil, nil }
	})},
	{"begins the pivot without writing so", "all goes well", writes(func(_ journal.Record, w *journal.Write) {
		if w.Status == 0 {
			drop(w, func(e journal.Entry) bool { return e.Step == "shipping.book" && e.Pending && e.Attempts == 0 })
		}
	})},
	{"forgets that the pivot completed", "all goes well", journalDefect(func(m *mutant) {
		m.claim = func(ctx context.Context, req journal.ClaimRequest) ([]journal.Record, error) {
			claimed, err := m.Journal.Claim(ctx, req)
			for i := range claimed {
				for k := range claimed[i].Entries {
					if e := &claimed[i].Entries[k]; e.Step == "shipping.book" && e.Outcome == retry.Completed {
						e.Outcome = retry.Rejected
					}
				}
			}
			return claimed, err
		}
	})},
	{"does not end the execution in its own process whose saga a person cancelled", "all goes well", func(e *explorer) {
		e.disturb = []disturbance{cancelHere}
		journalDefect(func(m *mutant) {
			m.change = func(ctx context.Context, c journal.Change) (journal.Record, bool, error) {
				r, won, err := m.Journal.Change(ctx, c)
				r.Fence-- // the fence of this execution, which is then taken for the next owner
				return r, won, err
			}
		})(e)
	}},
	{"takes the age of its saga for that of a call", "mail.receipt finds no connection for a day", firstSent(func(begun time.Time) time.Time { return begun })},
	{"takes the age of its saga for that of an undo", "shipping.book is refused, and the undo of inventory.reserve finds no connection for a day", firstSent(func(begun time.Time) time.Time { return begun })},
	{"takes a call that may be old for a new one", "mail.receipt loses its answer, and then finds no connection for a day", firstSent(func(time.Time) time.Time { return time.Now() })},
	{
		"leaves it to the callee to remember what is to be undone", "shipping.book is refused, and the undo of inventory.reserve finds no connection for a day",
		requests(func(_ int32, header http.Header) { header.Del(wire.HeaderForward) }),
	},
	{"says completed for what is still to do", "all goes well", writes(func(_ journal.Record, w *journal.Write) {
		for _, e := range w.Entries {
			if e.Step == "shipping.book" && e.Outcome == retry.Completed {
				w.Status, w.Keep = journal.Completed, time.Hour
			}
		}
	})},
}

// acrossDefects are mistakes about the order of undos.
var acrossDefects = []planted{
	{"undoes a step beside one that ran after it, since the step between them has no undo", "shipping.book is refused", func(e *explorer) {
		d := across(false)
		e.build = func(*sdk.Client) (saga.AnyDefinition, runFunc) { return d, runOf(d, order{"a-1"}) }
	}},
}

// across is a saga of two steps with a step without an undo between them. If whole is false, the
// middle step does not wait for the first one.
func across(whole bool) *saga.Definition[order, nothing] {
	return saga.MustDefine("across", 1, func(b *saga.Builder[order, nothing]) {
		const keep = 2 * saga.DefaultUndoBudget
		held := saga.Step(b, reserve, b.Input()).Undo(unhold).Retention(keep)
		look := saga.StepFunc(b, "local.look", b.Input(), func(context.Context, saga.Call[order]) (nothing, error) { return nothing{}, nil }).
			ReadOnly().Retention(keep)
		if whole {
			look.After(held)
		}
		paid := saga.Step(b, charge, b.Input()).Undo(refund).Retention(keep).After(look)
		saga.Step(b, book, saga.Map2(held.Output(), paid.Output(), both)).Pivot().Retention(keep)
	})
}

// markDefects are mistakes about the marked step of the saga that they are planted in, by mark.
var markDefects = map[string][]planted{
	"irreversible": {
		{"wants the undo of an Irreversible step", "payment.charge is refused", writes(sticksWith(retry.Completed))},
		{"makes the key of an Irreversible step anew in each process", "all goes well", ofLook(func(process int32, req *http.Request) {
			text := req.Header.Get(wire.HeaderKey)
			req.Header.Set(wire.HeaderKey, childkey.MustParse(text[1:len(text)-3]+string('a'+process%16)).Quoted())
		})},
	},
	"read-only": {
		{"wants the undo of a ReadOnly step", "payment.charge is refused", writes(sticksWith(retry.Completed))},
		{"wants to know what a ReadOnly step did", "catalog.look is forgotten after it ran", writes(sticksWith(retry.Unknown))},
	},
	"retriable": {
		{"gives a Retriable step up", "catalog.look " + lasting.name, writes(func(_ journal.Record, w *journal.Write) {
			for i, e := range w.Entries {
				if e.Step == "catalog.look" && e.Pending && e.Attempts >= saga.DefaultAttempts {
					w.Entries[i].Pending, w.Entries[i].Outcome = false, retry.Rejected
				}
			}
		})},
	},
}

// sticksWith makes a saga stuck instead of compensated if the marked step has this outcome.
func sticksWith(o retry.Outcome) func(now journal.Record, w *journal.Write) {
	return func(now journal.Record, w *journal.Write) {
		for _, e := range append(now.Entries, w.Entries...) {
			if w.Status == journal.Compensated && e.Step == "catalog.look" && e.Outcome == o {
				w.Status, w.Keep = journal.Stuck, 0
				w.StuckOn = &journal.Failure{Reason: journal.ReasonStep, Step: e.Step, Outcome: o}
			}
		}
	}
}

// ofLook makes the defect that edit is done to every request of the marked step.
func ofLook(edit func(process int32, req *http.Request)) func(e *explorer) {
	var processes atomic.Int32
	return func(e *explorer) {
		e.breakNetwork = func(network roundTripper) roundTripper {
			process := processes.Add(1)
			return tripFunc(func(req *http.Request) (*http.Response, error) {
				if info, _ := saga.FromContext(req.Context()); info.Step == "catalog.look" {
					req = req.Clone(req.Context())
					edit(process, req)
				}
				return network.RoundTrip(req)
			})
		}
	}
}

// tripDefects are mistakes about functions that make calls.
var tripDefects = []planted{
	{"takes the refusal of a function's second call for that of all its calls", "trip.both has its second call refused", writes(func(_ journal.Record, w *journal.Write) {
		for i, e := range w.Entries {
			if e.Step == "trip.both" && !e.Undo && e.Outcome == retry.Unknown && !e.Pending {
				w.Entries[i].Outcome = retry.Rejected
			}
		}
	})},
}

// hangDefects are mistakes about functions that do not return.
var hangDefects = []planted{
	{"waits for a function that does not return", "all goes well", func(e *explorer) {
		d := hanging(2 * patience)
		e.build = func(*sdk.Client) (saga.AnyDefinition, runFunc) { return d, runOf(d, order{"a-1"}) }
	}},
}

// detourDefects are mistakes about functions that take another path in a later run.
var detourDefects = []planted{
	{"takes a refusal in a later run of a function for that of the run before", "trip.both has its second call refused", func(e *explorer) {
		e.build = func(client *sdk.Client) (saga.AnyDefinition, runFunc) {
			d := tripBy(client, true, saga.Rejected)
			return d, runOf(d, order{"a-1"})
		}
	}},
}

func TestExplore_catchesDefects(t *testing.T) {
	t.Parallel()
	for _, d := range plantedDefects {
		t.Run(d.name, func(t *testing.T) {
			catch(t, d, func() *explorer {
				return newExplorer(checkout, order{"a-1"}, []Option{Answer("shipping.book", made{"p-1"})})
			})
		})
	}
	for _, d := range acrossDefects {
		t.Run(d.name, func(t *testing.T) {
			catch(t, d, func() *explorer { return newExplorer(across(true), order{"a-1"}, nil) })
		})
	}
	t.Run("computes another path in another process", func(t *testing.T) {
		catch(t, planted{name: "computes another path in another process", plant: anotherPath}, func() *explorer {
			return newExplorer(line(), order{"a-1"}, nil)
		})
	})
	for mark, defects := range markDefects {
		for _, d := range defects {
			t.Run(d.name, func(t *testing.T) {
				catch(t, d, func() *explorer { return newExplorer(marked(mark), order{"a-1"}, nil) })
			})
		}
	}
	for _, d := range hangDefects {
		t.Run(d.name, func(t *testing.T) {
			catch(t, d, func() *explorer { return newExplorer(hanging(time.Minute), order{"a-1"}, nil) })
		})
	}
	for _, d := range detourDefects {
		t.Run(d.name, func(t *testing.T) {
			catch(t, d, func() *explorer {
				e, err := newCallsExplorer([]string{"inventory", "payment"}, detour, order{"a-1"}, nil)
				require.NoError(t, err)
				return e
			})
		})
	}
	for _, d := range tripDefects {
		t.Run(d.name, func(t *testing.T) {
			catch(t, d, func() *explorer {
				e, err := newCallsExplorer([]string{"inventory", "payment"}, trip, order{"a-1"}, nil)
				require.NoError(t, err)
				return e
			})
		})
	}
}

// catch fails t if an explorer misses the defect. Parallel calls end in either order, and some
// defects show in only one order. This plays one scenario of many, so it repeats that scenario.
func catch(t *testing.T, d planted, explorer func() *explorer) {
	t.Helper()
	runs := 0
	for range 20 {
		e := explorer()
		e.quick, e.only = true, d.only
		d.plant(e)
		found := e.explore(t)
		runs += e.runs
		if len(found) > 0 {
			t.Logf("%d runs: %s", runs, found[0])
			return
		}
	}
	t.Fatalf("a saga that %s passed %d runs", d.name, runs)
}
