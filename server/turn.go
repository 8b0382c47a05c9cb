package server

import (
	"context"
	"net/http"
	"sync"

	"github.com/fanonce/fanonce/childkey/wire"
)

// A turn is one execution of the handler. A run has one, or several where
// conflicts made it start over; each has its own, so that what one left behind
// does not count for the next.
type turn struct {
	run *run
	tx  Tx // of a Transactional run

	committed bool // tx, for certain

	mu        sync.Mutex
	over      bool
	rollback  bool
	overrule  overrule
	vetoed    bool // no retry can help
	hooks     []func(context.Context) error
	reference *string   // what NoStore keeps in place of the answer
	fate      Fate      // what Barrier found out
	refusal   wire.Code // Barrier's verdict on this run
	cause     error
}

// An overrule is a handler's own word on whether its answer is stored.
type overrule uint8

const (
	overruleNone overrule = iota
	overruleFinal
	overruleRetryable
)

// told returns what Barrier found out; 0 if it was not asked, or does not know, or if the
// tombstone that it left will be rolled back.
func (t *turn) told() Fate {
	if t == nil {
		return 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.rollback {
		return 0
	}
	return t.fate
}

type turnKey struct{}

func turnFrom(ctx context.Context) *turn {
	t, _ := ctx.Value(turnKey{}).(*turn)
	return t
}

// withTurn calls fn with the turn of ctx, locked, unless that is over: a
// goroutine that outlives its handler must not change what is being settled.
func withTurn(ctx context.Context, fn func(*turn) error) error {
	t := turnFrom(ctx)
	if t == nil {
		return ErrNoRun
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		return ErrNoRun
	}
	return fn(t)
}

// work calls the handler. If it panics or ends its goroutine, abandon settles
// the run on the way out; nothing is recovered, so that the panic goes on with
// its own value and stack.
func (t *turn) work(ctx context.Context, abandon func()) result {
	returned := false
	defer func() {
		t.mu.Lock()
		t.over = true
		t.mu.Unlock()
		if !returned {
			abandon()
		}
	}()
	res := t.run.call.work(context.WithValue(ctx, turnKey{}, t))
	returned = true
	return res
}

// A disposition is what becomes of the answer that a turn came to.
type disposition uint8

const (
	dispositionStore   disposition = iota + 1
	dispositionRelease             // nothing happened that counts: the next call runs
	dispositionAgain               // the handler asked for another run
	dispositionFail                // by the effect class
)

func (t *turn) disposition(res result) disposition {
	switch {
	case t.refusal != "":
		return dispositionRelease
	case res.unfit:
		return dispositionFail
	case t.overrule == overruleRetryable:
		return dispositionAgain
	case t.overrule == overruleFinal:
		return dispositionStore
	case neverStored(res.answer.Status):
		return dispositionRelease
	case res.answer.Status >= http.StatusInternalServerError:
		return dispositionFail
	default:
		return dispositionStore
	}
}

// neverStored reports whether status says something about this attempt and
// nothing about the request: who asks, when, and how often.
func neverStored(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusProxyAuthRequired, http.StatusRequestTimeout,
		http.StatusMisdirectedRequest, http.StatusLocked, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	default:
		return false
	}
}
