package servertest

import (
	"context"

	"github.com/fanonce/fanonce/server/store"
)

var answerDefects = []defect{
	{"keeps answers for ever", func(m *mutant) {
		m.settle = func(ctx context.Context, o store.Owner, s store.Settlement) error {
			s.KeepAnswer = 0
			return m.Store.Settle(ctx, o, s)
		}
	}, []string{"answer: KeepAnswer ends the answer before the record"}},
	{"drops the record with the answer", func(m *mutant) {
		m.settle = func(ctx context.Context, o store.Owner, s store.Settlement) error {
			if s.KeepAnswer > 0 {
				s.ReplayFor = s.KeepAnswer
			}
			return m.Store.Settle(ctx, o, s)
		}
		m.sweep = func(ctx context.Context, limit int) (n int, err error) {
			m.ahead(func() { n, err = m.Store.Sweep(ctx, limit) })
			return n, err
		}
	}, []string{"answer: KeepAnswer ends the answer before the record"}},
	{"drops every answer with the first", func(m *mutant) {
		m.show = func(r store.Record) store.Record {
			if r.Now.Sub(r.CreatedAt) >= brief {
				r.Answer.Envelope = nil
			}
			return r
		}
	}, []string{"answer: without KeepAnswer the answer is kept as long as the record"}},
}
