package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server/internal/engine"
	"github.com/fanonce/fanonce/server/internal/record"
	"github.com/fanonce/fanonce/server/store"
)

// MaxReferenceBytes is the length of the longest text of a [Reference].
const MaxReferenceBytes = 1024

// A SettleOption changes how a run ends: [Final], [Release], [Rollback],
// [NotRetryable], [DeadLetter] or [Reference]. The zero SettleOption is none of them; it is refused.
type SettleOption struct {
	apply func(*engine.Settling, Effect) error
}

// Settle changes how this run ends, in addition to the handler's status
// ([Effect] has the table). A handler calls it before it returns:
//
//	server.Settle(ctx, server.Rollback(), server.NotRetryable())
//
// The options of several calls add up. A typed handler can return them with its error
// ([StatusError].Settle).
//
// Outside a run it returns [ErrNoRun]. An option that the route's effect class does not allow is [ErrWrongEffect],
// and any other mistake wraps [ErrArgument]. With an error no option of the call counts.
func Settle(ctx context.Context, how ...SettleOption) error {
	return engine.Settle(ctx, func(told *engine.Settling, effect Effect) error {
		for _, option := range how {
			if option.apply == nil {
				return fmt.Errorf("%w: the zero SettleOption: use Final, Release, Rollback, NotRetryable, DeadLetter or Reference", ErrArgument)
			}
			if err := option.apply(told, effect); err != nil {
				return err
			}
		}
		return nil
	})
}

// option makes an option that every effect class allows.
func option(apply func(*engine.Settling)) SettleOption {
	return SettleOption{func(s *engine.Settling, _ Effect) error {
		apply(s)
		return nil
	}}
}

// Final stores the answer of this run, whatever its status. Every retry gets the answer:
// a 5xx that will not change, or a 403 that is final. A [Transactional] run commits its
// rows. A panic, a refused stream or an invalid status is still not stored.
func Final() SettleOption { return option(func(s *engine.Settling) { s.Final = true }) }

// Release ends this run without a stored answer, whatever its status: the key is
// released, and the next call runs again. A [Transactional] run is rolled back. A Keyed
// or Opaque run counts as one that may have had effects. With Release an [Opaque] handler
// says that running again does no harm. Release wins over [Final].
func Release() SettleOption { return option(func(s *engine.Settling) { s.Release = true }) }

// Rollback discards the rows of a [Transactional] run and still stores its answer. A
// handler that wrote rows uses it before it answers "declined". In a run of another
// effect class it is [ErrWrongEffect].
func Rollback() SettleOption {
	return SettleOption{func(s *engine.Settling, e Effect) error {
		if e != Transactional {
			return ErrWrongEffect
		}
		s.Rollback = true
		return nil
	}}
}

// NotRetryable tells the caller that no retry can help, whatever the answer's status: Idempotency-Should-Retry is
// false. The stored answer does not change. A handler uses it if a service that it called said so. A typed handler
// only has to return that service's error ([wire.ErrNotRetryable]).
func NotRetryable() SettleOption { return option(func(s *engine.Settling) { s.NotRetryable = true }) }

// DeadLetter says that the work was given up, and that this run stored or sent the report of
// that. People find its key by [store.ListRequest].DeadLetters, until somebody forgets the key or a
// sweep deletes it. It counts only for a run whose answer is stored. Package inbox uses it, and so
// do adapters for consumers of other kinds.
func DeadLetter() SettleOption {
	return option(func(s *engine.Settling) { s.DeadLetter = true })
}

// Reference stores text instead of the answer, together with the answer's status. It is for answers that hold
// secrets. A retry gets the answer that [Route].Render makes from text, or response-gone if Render is nil. Text may
// be empty. If there are several References, the last counts. A text of more than [MaxReferenceBytes] wraps
// [ErrArgument].
func Reference(text string) SettleOption {
	return SettleOption{func(s *engine.Settling, _ Effect) error {
		if len(text) > MaxReferenceBytes {
			return fmt.Errorf("%w: a reference of %d bytes, the most is %d", ErrArgument, len(text), MaxReferenceBytes)
		}
		s.Reference = &text
		return nil
	}}
}

// settleBy settles a run as the error of a typed function says, and returns err. If an
// option cannot be applied it returns another error, which is not a StatusError: the run
// failed.
func settleBy(ctx context.Context, err error) error {
	if errors.Is(err, wire.ErrNotRetryable) {
		_ = Settle(ctx, NotRetryable()) // outside a run there is nothing to settle
	}
	var status *StatusError
	if !errors.As(err, &status) || len(status.Settle) == 0 {
		return err
	}
	if bad := Settle(ctx, status.Settle...); bad != nil {
		return fmt.Errorf("server: StatusError.Settle: %w (of %v)", bad, status.Error())
	}
	return err
}

// isReference reports that the answer, opened, is the text of a [Reference].
func isReference(a *store.Answer) bool {
	_, ok := record.ReferenceOf(a.Envelope)
	return ok
}

// render answers a retry from the reference that the first run left.
func (h *guarded) render(w http.ResponseWriter, r *http.Request, c *call, a *store.Answer) {
	reference, _ := record.ReferenceOf(a.Envelope)
	response, err := h.route.Render(r, a.Status, reference)
	var envelope []byte
	if err == nil {
		envelope, err = h.guard.envelope(response)
	}
	if err != nil {
		h.refuse(w, r, c, outcome{code: wire.StoreUnavailable, retryAfter: time.Second, err: err})
		return
	}
	h.replay(w, &store.Answer{Status: response.Status, Envelope: envelope})
}
