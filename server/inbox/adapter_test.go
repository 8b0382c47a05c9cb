package inbox_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/adaptertest"
	"github.com/fanonce/fanonce/server/inbox"
)

// A message has no answer: the caller of the suite remembers what the handler made of it.
type remembered struct {
	mu      sync.Mutex
	answers map[string]adaptertest.Answer // by the message's ID
}

func (r *remembered) set(id string, a adaptertest.Answer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answers[id] = a
}

func (r *remembered) get(id string) adaptertest.Answer {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.answers[id]
}

// deliver delivers a message until it is no longer handled at the same time by another delivery, as a broker does.
func deliver(ctx context.Context, in *inbox.Inbox, m inbox.Message, fn func(context.Context, []byte) error) (d inbox.Delivery, err error) {
	defer func() {
		if recover() != nil {
			err = errors.New("the handler panicked")
		}
	}()
	for {
		if d, err = in.Handle(ctx, m, fn); d.Result != inbox.Busy {
			return d, err
		}
	}
}

// Each run of a message gets the payload as it came, and a message whose run was rolled back runs again at once.
func TestAdapter(t *testing.T) {
	t.Parallel()
	adaptertest.Test(t, func(tb testing.TB, op adaptertest.Operation) adaptertest.Caller {
		in := newInbox(tb, op.Guard, inbox.Config{Consumer: "mails", Effect: server.Transactional})
		handled := &remembered{answers: make(map[string]adaptertest.Answer)}
		return func(ctx context.Context, id, input string) (adaptertest.Answer, error) {
			m := inbox.Message{Source: "orders", ID: id, Payload: []byte(input)}
			d, err := deliver(ctx, in, m, func(ctx context.Context, payload []byte) error {
				text := string(payload)
				clear(payload) // as a handler that decrypts in place
				reply, err := op.Handle(ctx, text)
				switch {
				case errors.Is(err, adaptertest.ErrRefused): // what no attempt can use is a dead letter at once
					handled.set(id, adaptertest.Answer{Outcome: adaptertest.Refused})
					return errors.Join(err, server.Settle(ctx, server.Final()))
				case err != nil:
					return err
				}
				handled.set(id, adaptertest.Answer{Outcome: adaptertest.OK, Text: reply.Text})
				return nil
			})
			var refused *server.RefusedError
			switch {
			case d.Result == inbox.Ran:
				return handled.get(id), nil
			case d.Result == inbox.Duplicate:
				a := handled.get(id)
				a.Replayed = true
				return a, nil
			case errors.As(err, &refused):
				return adaptertest.Answer{Outcome: string(refused.Code), Retry: refused.Retryable()}, nil
			case d.Result == inbox.Dead:
				a := handled.get(id)
				a.Replayed = err == nil
				return a, nil
			case d.Result == inbox.Failed && err != nil:
				return adaptertest.Answer{Outcome: adaptertest.Failed, Retry: true}, nil
			default:
				return adaptertest.Answer{}, err
			}
		}
	})
}
