package servertest

import (
	"context"
	"slices"
	"time"

	"github.com/fanonce/fanonce/server/store"
)

// browsesBy is a reader whose windows and pages are those of another request.
func browsesBy(change func(req *store.BrowseRequest)) func(m *mutant) {
	return func(m *mutant) {
		m.readWith(func(r *mutantReader) {
			r.browse = func(ctx context.Context, req store.BrowseRequest) ([]store.Record, error) {
				if err := req.Check(); err != nil {
					return nil, err
				}
				change(&req)
				return r.Reader.Browse(ctx, req)
			}
		})
	}
}

func listsBy(change func(req *store.ListRequest)) func(m *mutant) {
	return func(m *mutant) {
		m.readWith(func(r *mutantReader) {
			r.list = func(ctx context.Context, req store.ListRequest) ([]store.Record, error) {
				if err := req.Check(); err != nil {
					return nil, err
				}
				change(&req)
				return r.Reader.List(ctx, req)
			}
		})
	}
}

func estimatesBy(change func(m *mutant, e *store.Estimate)) func(m *mutant) {
	return func(m *mutant) {
		m.readWith(func(r *mutantReader) {
			r.estimate = func(ctx context.Context) (store.Estimate, error) {
				e, err := r.Reader.Estimate(ctx)
				change(m, &e)
				return e, err
			}
		})
	}
}

func auditsBy(change func(req *store.AuditRequest)) func(m *mutant) {
	return func(m *mutant) {
		m.readWith(func(r *mutantReader) {
			r.auditPage = func(ctx context.Context, req store.AuditRequest) ([]store.AuditEntry, error) {
				if err := req.Check(); err != nil {
					return nil, err
				}
				change(&req)
				return r.Reader.AuditPage(ctx, req)
			}
		})
	}
}

var readerDefects = slices.Concat(showDefects, browseDefects, readListDefects, estimateDefects, auditPageDefects)

var showDefects = []defect{
	{"shows secrets to people", func(m *mutant) {
		m.readWith(func(r *mutantReader) {
			r.show = func(ctx context.Context, id store.ID) (store.Record, error) {
				if err := ctx.Err(); err != nil {
					return store.Record{}, err
				}
				return m.Store.Read(ctx, id)
			}
			r.browse = func(ctx context.Context, req store.BrowseRequest) ([]store.Record, error) {
				found, err := r.Reader.Browse(ctx, req)
				for i := range found {
					found[i].Memo = []byte("a memo")
				}
				return found, err
			}
			r.list = func(ctx context.Context, req store.ListRequest) ([]store.Record, error) {
				found, err := r.Reader.List(ctx, req)
				for i := range found {
					found[i].Fingerprint.Version = 1
				}
				return found, err
			}
		})
	}, []string{
		"reader: one record is shown in every state, without secrets",
		"reader: a window has the records of any state, the youngest first",
		listRule, letterRule, childrenRule,
	}},
	{"shows an empty record instead of none", func(m *mutant) {
		m.readWith(func(r *mutantReader) {
			r.show = func(ctx context.Context, id store.ID) (store.Record, error) {
				found, _ := r.Reader.Show(ctx, id)
				return found, ctx.Err()
			}
		})
	}, []string{"reader: an absent key is not found"}},
	{"shows people what it read before they left", func(m *mutant) {
		m.readWith(func(r *mutantReader) {
			r.browse = func(ctx context.Context, req store.BrowseRequest) ([]store.Record, error) {
				return r.Reader.Browse(context.WithoutCancel(ctx), req)
			}
		})
	}, []string{"reader: a done context ends every method"}},
}

var browseDefects = []defect{
	{"browses the oldest first", func(m *mutant) {
		m.readWith(func(r *mutantReader) {
			r.browse = func(ctx context.Context, req store.BrowseRequest) ([]store.Record, error) {
				found, err := r.Reader.Browse(ctx, req)
				slices.Reverse(found)
				return found, err
			}
		})
	}, []string{"reader: a window has the records of any state, the youngest first", "reader: the pages of a window have each record once"}},
	{"browses every state", browsesBy(func(req *store.BrowseRequest) { req.States = nil }),
		[]string{"reader: a window has the records of some states, of a class and of a route"}},
	{"browses every class", browsesBy(func(req *store.BrowseRequest) { req.Effect = 0 }),
		[]string{"reader: a window has the records of some states, of a class and of a route"}},
	{"browses every route", browsesBy(func(req *store.BrowseRequest) { req.Route = "" }),
		[]string{"reader: a window has the records of some states, of a class and of a route"}},
	{"browses up to To and at To", browsesBy(func(req *store.BrowseRequest) {
		if !req.To.IsZero() {
			req.To = req.To.Add(time.Nanosecond)
		}
	}), []string{"reader: a window ends before To, and begins at From"}},
	{"browses what is younger than From", browsesBy(func(req *store.BrowseRequest) {
		if !req.From.IsZero() && (req.To.IsZero() || req.From.Before(req.To)) {
			req.From = req.From.Add(time.Nanosecond)
		}
	}), []string{"reader: a window ends before To, and begins at From"}},
	{"begins every window at the beginning of time", browsesBy(func(req *store.BrowseRequest) {
		if req.From.IsZero() {
			req.From = time.Unix(0, 0)
		}
	}), []string{"reader: without From the window is the hour before To"}},
	{"pages by time alone", browsesBy(func(req *store.BrowseRequest) { req.Before.ID = store.ID{} }),
		[]string{"reader: the pages of a window have each record once"}},
	{"shows the records of one time on two pages", browsesBy(func(req *store.BrowseRequest) {
		if !req.Before.CreatedAt.IsZero() {
			req.Before.CreatedAt = req.Before.CreatedAt.Add(time.Nanosecond)
		}
	}), []string{"reader: the pages of a window have each record once"}},
	{"browses a record where none was asked for", func(m *mutant) {
		m.readWith(func(r *mutantReader) {
			r.browse = func(ctx context.Context, req store.BrowseRequest) ([]store.Record, error) {
				req.Limit = max(1, req.Limit)
				return r.Reader.Browse(ctx, req)
			}
		})
	}, []string{"reader: a request that cannot be answered returns ErrArgument"}},
}

// listsAlso is a reader that lists more than was asked for: what browses finds, in place of the list.
func listsAlso(instead func(req store.ListRequest) bool, browses func(req store.ListRequest) store.BrowseRequest) func(m *mutant) {
	return func(m *mutant) {
		m.readWith(func(r *mutantReader) {
			r.list = func(ctx context.Context, req store.ListRequest) ([]store.Record, error) {
				if req.Check() != nil || !instead(req) {
					return r.Reader.List(ctx, req)
				}
				listed, err := r.Reader.List(ctx, req)
				if err != nil {
					return nil, err
				}
				more, err := r.browseOldestFirst(ctx, browses(req))
				all := slices.SortedFunc(slices.Values(slices.Concat(listed, more)), oldestFirst)
				return slices.CompactFunc(all, func(a, b store.Record) bool { return a.ID == b.ID }), err
			}
		})
	}
}

func isOfChildren(req store.ListRequest) bool { return req.Parent != store.ID{} }

const (
	listRule     = "reader: the list has the keys that need a decision and match the request, without secrets"
	letterRule   = "reader: the list has dead letters, without secrets"
	childrenRule = "reader: the list has the children of a record, in any state, without secrets"
)

var readListDefects = []defect{
	{"lists the children of all", listsAlso(isOfChildren, func(req store.ListRequest) store.BrowseRequest {
		return store.BrowseRequest{States: req.States, Effect: req.Effect, Limit: 100}
	}), []string{childrenRule}},
	{"lists only the children that need somebody", listsBy(func(req *store.ListRequest) {
		if isOfChildren(*req) && len(req.States) == 0 {
			req.States = []store.State{store.StateUnknown, store.StateQuarantined}
		}
	}), []string{childrenRule}},
	{"lists the living too", listsAlso(func(req store.ListRequest) bool {
		return len(req.States) == 0 && !req.DeadLetters && !isOfChildren(req)
	},
		func(req store.ListRequest) store.BrowseRequest {
			return store.BrowseRequest{States: []store.State{store.StateInProgress}, Effect: store.Opaque, Route: req.Route, Limit: 100}
		}), []string{listRule}},
	{"lists the dead that need nobody", listsAlso(func(req store.ListRequest) bool { return slices.Contains(req.States, store.StateInProgress) },
		func(req store.ListRequest) store.BrowseRequest {
			return store.BrowseRequest{States: []store.State{store.StateInProgress}, Effect: store.Keyed, Route: req.Route, Limit: 100}
		}), []string{listRule}},
	{"does not list the dead", listsBy(func(req *store.ListRequest) {
		if len(req.States) == 0 && !req.DeadLetters && !isOfChildren(*req) {
			req.States = []store.State{store.StateUnknown, store.StateQuarantined}
		}
	}), []string{listRule}},
	{"lists every route", listsBy(func(req *store.ListRequest) { req.Route = "" }), []string{listRule}},
	{"lists every class", listsBy(func(req *store.ListRequest) { req.Effect = 0 }), []string{listRule, letterRule, childrenRule}},
	{"lists unknown keys instead of dead letters", listsBy(func(req *store.ListRequest) {
		if req.DeadLetters {
			*req = store.ListRequest{States: []store.State{store.StateUnknown}, Limit: req.Limit}
		}
	}), []string{letterRule}},
	{"lists the last of a page twice to people", listsBy(func(req *store.ListRequest) {
		if !req.After.CreatedAt.IsZero() {
			req.After.CreatedAt = req.After.CreatedAt.Add(-time.Nanosecond)
		}
	}), []string{"reader: the pages of a list have each record once"}},
	{"forgets dead letters", func(m *mutant) {
		m.readWith(func(r *mutantReader) {
			r.attention = func(ctx context.Context) (store.Attention, error) {
				a, err := r.Reader.Attention(ctx)
				a.DeadLetters = 0
				return a, err
			}
		})
	}, []string{"reader: attention counts the keys that need a person"}},
}

var estimateDefects = []defect{
	{"leaves released keys out of the estimate", estimatesBy(func(_ *mutant, e *store.Estimate) {
		e.Young -= e.ByState[store.StateReleased]
		delete(e.ByState, store.StateReleased)
	}), []string{"reader: the estimate counts the young by state"}},
	{"has no age of a run in the estimate", estimatesBy(func(_ *mutant, e *store.Estimate) { e.OldestInProgress = 0 }),
		[]string{"reader: the estimate counts the young by state"}},
	{"does not see that the sweep is late", estimatesBy(func(_ *mutant, e *store.Estimate) { e.SweepLag = 0 }),
		[]string{"reader: the estimate has the time that a record waits for the sweep"}},
	{"waits for the sweep of unknown keys", estimatesBy(func(m *mutant, e *store.Estimate) {
		if st, err := m.Store.Stats(context.Background()); err == nil && st.ByState[store.StateUnknown] > 0 {
			e.SweepLag = max(e.SweepLag, time.Nanosecond)
		}
	}), []string{"reader: the estimate has the time that a record waits for the sweep"}},
}

var auditPageDefects = []defect{
	{"shows the last entry of a page twice", auditsBy(func(req *store.AuditRequest) {
		if req.Before > 0 {
			req.Before++
		}
	}), []string{"reader: the pages of the audit log have each entry once"}},
	{"shows the entries of every actor", auditsBy(func(req *store.AuditRequest) { req.Actor = "" }),
		[]string{"reader: the audit log is filtered by key and by actor"}},
	{"shows the entries of every key", auditsBy(func(req *store.AuditRequest) { req.ID = store.ID{} }),
		[]string{"reader: the audit log is filtered by key and by actor"}},
}
