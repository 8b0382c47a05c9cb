package servertest

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/fanonce/fanonce/server/store"
)

var recordDefects = []defect{
	{"says of an own claim that it may be lost", func(m *mutant) {
		m.claim = func(ctx context.Context, req store.ClaimRequest) (store.Record, bool, error) {
			r, won, err := m.Store.Claim(ctx, req)
			r.Asynchronous = won
			return r, won, err
		}
	}, []string{
		"claim: the record has fence 1 and the values of the request",
		"claim: a claim repeated with the same token wins again",
		"claim: an asynchronous claim acts like any other",
	}},
	{"ends an answer at the first NUL", func(m *mutant) {
		m.show = func(r store.Record) store.Record {
			if i := bytes.IndexByte(r.Answer.Envelope, 0); i >= 0 {
				r.Answer.Envelope = r.Answer.Envelope[:i]
			}
			return r
		}
	}, []string{"record: answers are kept byte by byte"}},
	{"takes an empty answer for none", func(m *mutant) {
		m.show = func(r store.Record) store.Record {
			if len(r.Answer.Envelope) == 0 {
				r.Answer.Envelope = nil
			}
			return r
		}
	}, []string{"record: answers are kept byte by byte"}},
	{"shares its bytes", func(m *mutant) {
		var shared sync.Map
		m.show = func(r store.Record) store.Record {
			if r.State == store.StateCompleted {
				b, _ := shared.LoadOrStore(r.ID, r.Answer.Envelope)
				r.Answer.Envelope, _ = b.([]byte)
			}
			return r
		}
	}, []string{"record: records share no memory with callers"}},
	{"keeps half a fingerprint", func(m *mutant) {
		m.show = func(r store.Record) store.Record { clear(r.Fingerprint.Sum[16:]); return r }
	}, []string{
		"record: identities are kept bit by bit",
		"context: a context that ends during a claim leaves all of it or nothing",
		"claim: the record has fence 1 and the values of the request",
	}},
	{"forgets the parent", func(m *mutant) {
		m.show = func(r store.Record) store.Record { r.Parent = store.ID{}; return r }
	}, []string{"claim: the record has fence 1 and the values of the request"}},
	{"takes the parent of the latest claim", func(m *mutant) {
		var latest sync.Map
		m.takeOver = func(ctx context.Context, req store.ClaimRequest, from int64) (store.Record, bool, error) {
			r, won, err := m.Store.TakeOver(ctx, req, from)
			if won {
				latest.Store(r.ID, req.Parent)
			}
			return m.show(r), won, err
		}
		m.show = func(r store.Record) store.Record {
			if parent, ok := latest.Load(r.ID); ok {
				r.Parent, _ = parent.(store.ID)
			}
			return r
		}
	}, []string{"take-over: the owner changes, and the values of the key stay"}},
	{"has a clock that stands", func(m *mutant) {
		start := time.Now()
		m.show = func(r store.Record) store.Record { r.Now = start; return r }
	}, []string{"record: the store's clock moves and never goes back"}},
	{"has a clock that goes back", func(m *mutant) {
		var reads int
		var mu sync.Mutex
		m.show = func(r store.Record) store.Record {
			mu.Lock()
			defer mu.Unlock()
			reads++
			r.Now = r.Now.Add(-time.Duration(reads) * time.Second)
			return r
		}
	}, []string{"record: the store's clock moves and never goes back"}},
	{"counts the completed only", func(m *mutant) {
		m.stats = func(ctx context.Context) (store.Stats, error) {
			st, err := m.Store.Stats(ctx)
			return store.Stats{ByState: map[store.State]int64{store.StateCompleted: st.ByState[store.StateCompleted]}}, err
		}
	}, []string{
		"stats: the records are counted by state",
		"sweep: a call deletes at most limit records, and repeated calls delete all",
	}},
	{"does not look at its context", func(m *mutant) {
		m.claim = func(ctx context.Context, req store.ClaimRequest) (store.Record, bool, error) {
			return m.Store.Claim(context.WithoutCancel(ctx), req)
		}
		m.cancel = func(ctx context.Context, req store.CancelRequest) (store.Record, bool, error) {
			return m.Store.Cancel(context.WithoutCancel(ctx), req)
		}
		m.settle = func(ctx context.Context, o store.Owner, s store.Settlement) error {
			return m.Store.Settle(context.WithoutCancel(ctx), o, s)
		}
		m.beginWith(func(tx *mutantTx) {
			tx.settle = func(ctx context.Context, o store.Owner, s store.Settlement) error {
				return tx.Tx.Settle(context.WithoutCancel(ctx), o, s)
			}
		})
	}, []string{
		"tx: a done context begins and commits nothing",
		"context: a call whose context is done changes nothing",
	}},
	{"writes, and then reports that the context has ended", func(m *mutant) {
		late := func(err error) error { return errors.Join(err, context.Canceled) }
		m.claim = func(ctx context.Context, req store.ClaimRequest) (store.Record, bool, error) {
			r, won, err := m.Store.Claim(context.WithoutCancel(ctx), req)
			if ctx.Err() != nil {
				err = late(err)
			}
			return r, won, err
		}
		m.cancel = func(ctx context.Context, req store.CancelRequest) (store.Record, bool, error) {
			r, ok, err := m.Store.Cancel(context.WithoutCancel(ctx), req)
			if ctx.Err() != nil {
				err = late(err)
			}
			return r, ok, err
		}
		m.settle = func(ctx context.Context, o store.Owner, s store.Settlement) error {
			err := m.Store.Settle(context.WithoutCancel(ctx), o, s)
			if ctx.Err() != nil {
				err = late(err)
			}
			return err
		}
	}, []string{"context: a call whose context is done changes nothing"}},
}
