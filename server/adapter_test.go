package server_test

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/adaptertest"
)

func guardedOperation(tb testing.TB, op adaptertest.Operation) http.Handler {
	tb.Helper()
	h, err := op.Guard.Route(server.Route{Name: "orders", Effect: server.Transactional}, adaptertest.Handler(op))
	require.NoError(tb, err)
	return h
}

// The ways in which net/http leads a request to a guarded handler, and on to the handlers behind it.
func TestAdapter_netHTTP(t *testing.T) {
	t.Parallel()
	for name, wrap := range map[string]func(tb testing.TB, op adaptertest.Operation) http.Handler{
		"ServeMux": func(tb testing.TB, op adaptertest.Operation) http.Handler {
			mux := http.NewServeMux()
			mux.Handle("POST /v1/orders", guardedOperation(tb, op))
			return mux
		},
		"StripPrefix": func(tb testing.TB, op adaptertest.Operation) http.Handler {
			return http.StripPrefix("/v1", guardedOperation(tb, op))
		},
		"around a whole mux": func(tb testing.TB, op adaptertest.Operation) http.Handler {
			inner, outer := http.NewServeMux(), http.NewServeMux()
			inner.Handle("POST /{what}", adaptertest.Handler(op))
			outer.Handle("/v1/", http.StripPrefix("/v1", inner))
			h, err := op.Guard.Route(server.Route{Name: "all", Effect: server.Transactional}, outer)
			require.NoError(tb, err)
			return h
		},
		"MaxBytesHandler": func(tb testing.TB, op adaptertest.Operation) http.Handler {
			h, err := op.Guard.Handler(server.Transactional, http.MaxBytesHandler(adaptertest.Handler(op), 1<<20))
			require.NoError(tb, err)
			return http.MaxBytesHandler(h, 1<<20)
		},
		"a form": func(tb testing.TB, op adaptertest.Operation) http.Handler {
			h, err := op.Guard.Handler(server.Transactional, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if len(r.Form) != 0 { // of a run before
					w.WriteHeader(http.StatusTeapot)
					return
				}
				r.Form = map[string][]string{"parsed": {"once"}}
				r.Header.Add("X-Seen", "once")
				if len(r.Header["X-Seen"]) != 1 {
					w.WriteHeader(http.StatusTeapot)
					return
				}
				adaptertest.Handler(op).ServeHTTP(w, r)
			}))
			require.NoError(tb, err)
			return h
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			adaptertest.Test(t, func(tb testing.TB, op adaptertest.Operation) adaptertest.Caller {
				s := serveQuietly(tb, wrap(tb, op))
				return adaptertest.HTTP(s.Client(), s.URL+"/v1/orders")
			})
		})
	}
}

// performed is what a call of [server.Guard.Do] or [server.Do] got, as the suite has it. A Go function has no headers.
func performed(text string, replayed bool, err error) (adaptertest.Answer, error) {
	var refused *server.RefusedError
	var status *server.StatusError
	a := adaptertest.Answer{Outcome: adaptertest.OK, Text: text, Replayed: replayed}
	switch {
	case err == nil:
	case errors.As(err, &refused):
		a.Outcome, a.Retry = string(refused.Code), refused.Retryable()
	case errors.As(err, &status):
		a.Outcome = adaptertest.Refused
	default:
		a.Outcome, a.Retry = adaptertest.Failed, true
	}
	return a, nil
}

// asStatus returns the error of an operation as a typed handler returns it.
func asStatus(err error) error {
	if errors.Is(err, adaptertest.ErrRefused) {
		return &server.StatusError{Status: adaptertest.StatusOf(err)}
	}
	return err
}

// recovered calls fn, and returns a panic of it as an error.
func recovered(fn func() (adaptertest.Answer, error)) (a adaptertest.Answer, err error) {
	defer func() {
		if recover() != nil {
			err = errPanicked
		}
	}()
	return fn()
}

var errPanicked = errors.New("the handler panicked")

func TestAdapter_do(t *testing.T) {
	t.Parallel()
	adaptertest.Test(t, func(tb testing.TB, op adaptertest.Operation) adaptertest.Caller {
		task := server.Task{Name: "orders", Scope: "acme", Effect: server.Transactional}
		return func(ctx context.Context, text, input string) (adaptertest.Answer, error) {
			return recovered(func() (adaptertest.Answer, error) {
				r, replayed, err := op.Guard.Do(ctx, task, key(t, text), []byte(input), func(ctx context.Context) (server.Response, error) {
					reply, err := op.Handle(ctx, input)
					return server.Response{
						Status: http.StatusCreated, Header: http.Header{adaptertest.NoteHeader: {reply.Note}}, Body: []byte(reply.Text),
					}, asStatus(err)
				})
				a, _ := performed(string(r.Body), replayed, err)
				a.Notes = r.Header[adaptertest.NoteHeader]
				return a, nil
			})
		}
	})
}

type typedInput struct{ Words []string }

// The typed function gets an input of its own in each run, whatever the run before did to it.
func TestAdapter_typedDo(t *testing.T) {
	t.Parallel()
	adaptertest.Test(t, func(tb testing.TB, op adaptertest.Operation) adaptertest.Caller {
		task := server.Task{Name: "orders", Scope: "acme", Effect: server.Transactional}
		return func(ctx context.Context, text, input string) (adaptertest.Answer, error) {
			return recovered(func() (adaptertest.Answer, error) {
				out, replayed, err := server.Do(ctx, op.Guard, task, key(t, text), typedInput{[]string{input}},
					func(ctx context.Context, in typedInput) (string, error) {
						word := in.Words[0]
						in.Words[0] = "changed in place"
						reply, err := op.Handle(ctx, word)
						return reply.Text, asStatus(err)
					})
				return performed(out, replayed, err)
			})
		}
	})
}

// A typed operation is decoded anew in each run.
func TestAdapter_typedHandler(t *testing.T) {
	t.Parallel()
	order := contract.Post[string, string]("shop", "order", "/orders")
	adaptertest.Test(t, func(tb testing.TB, op adaptertest.Operation) adaptertest.Caller {
		mux := http.NewServeMux()
		require.NoError(tb, server.Handle(mux, op.Guard, order, server.Transactional, adaptertest.Typed(op)))
		s := serveQuietly(tb, mux)
		return adaptertest.TypedHTTP(s.Client(), s.URL+"/orders")
	})
}
