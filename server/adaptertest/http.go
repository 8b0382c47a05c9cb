package adaptertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server"
)

// Handler returns the operation as a handler of net/http, for the adapters of frameworks that take one. The guard is not
// around it.
func Handler(op Operation) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		input, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		reply, err := op.Handle(r.Context(), string(input))
		w.Header().Add(NoteHeader, reply.Note)
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(StatusOf(err))
		_, _ = io.WriteString(w, reply.Text) // into the recorder
	})
}

// StatusOf returns the status of an HTTP handler's answer, for the error of [Operation].Handle: 201, 400 or 500.
func StatusOf(err error) int {
	switch {
	case err == nil:
		return http.StatusCreated
	case errors.Is(err, ErrRefused):
		return http.StatusBadRequest
	default:
		return http.StatusInternalServerError
	}
}

// HTTP returns a [Caller] that posts to url. It is for services whose answers have the statuses of [StatusOf].
func HTTP(client *http.Client, url string) Caller {
	return func(ctx context.Context, key, input string) (Answer, error) {
		return post(ctx, client, url, key, "text/plain", []byte(input))
	}
}

// Typed returns the operation as the function of a typed one, for [server.Handle]. Typed functions have no headers.
func Typed(op Operation) func(ctx context.Context, input string) (string, error) {
	return func(ctx context.Context, input string) (string, error) {
		reply, err := op.Handle(ctx, input)
		if errors.Is(err, ErrRefused) {
			return "", &server.StatusError{Status: http.StatusBadRequest}
		}
		return reply.Text, err
	}
}

// TypedHTTP is [HTTP] for a typed operation that serves [Typed].
func TypedHTTP(client *http.Client, url string) Caller {
	return func(ctx context.Context, key, input string) (Answer, error) {
		body, err := contract.Encode(input)
		if err != nil {
			return Answer{}, err
		}
		a, err := post(ctx, client, url, key, contract.ContentType, body)
		if err == nil && a.Outcome == OK {
			err = contract.Decode([]byte(a.Text), &a.Text)
		}
		return a, err
	}
}

func post(ctx context.Context, client *http.Client, url, key, mediaType string, body []byte) (Answer, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return Answer{}, err
	}
	r.Header.Set("Content-Type", mediaType)
	r.Header.Set(wire.HeaderKey, key)
	resp, err := client.Do(r)
	if err != nil {
		return Answer{}, err
	}
	defer resp.Body.Close() //nolint:errcheck // it was read
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return Answer{}, err
	}
	return answerOf(resp, string(text))
}

// answerOf reads an answer as a client does: the guard's code decides before the status.
func answerOf(resp *http.Response, text string) (Answer, error) {
	a := Answer{
		Notes: resp.Header.Values(NoteHeader), Replayed: resp.Header.Get(wire.HeaderReplayed) == "true",
		Retry: resp.Header.Get(wire.HeaderShouldRetry) == "true",
	}
	switch code := resp.Header.Get(wire.HeaderCode); {
	case code != "":
		a.Outcome = code
	case resp.StatusCode/100 == 2:
		a.Outcome, a.Text = OK, text
	case resp.StatusCode == http.StatusBadRequest:
		a.Outcome = Refused
	case resp.StatusCode == http.StatusInternalServerError:
		a.Outcome = Failed
	default:
		return a, fmt.Errorf("adaptertest: status %d: %s", resp.StatusCode, text)
	}
	return a, nil
}
