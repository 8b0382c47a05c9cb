package server

import (
	"crypto/rand"
	"errors"

	"github.com/fanonce/fanonce/childkey/wire"
)

// details says of every code, for people, what it means for them and what to do.
var details = map[wire.Code]string{
	wire.ScopeMissing:      "Send the credentials of a caller that this service knows. This attempt ran nothing.",
	wire.ScopeUnavailable:  "The service could not look up who you are. This attempt ran nothing. Send the same request with the same key again.",
	wire.KeyMissing:        "Send an Idempotency-Key header: 1 to 255 visible ASCII characters that you chose for this operation. This attempt ran nothing.",
	wire.KeyInvalid:        "Send one key of 1 to 255 visible ASCII characters without quotation marks, commas and backslashes. This attempt ran nothing.",
	wire.FirstSentInvalid:  "Send one time in RFC 3339 and UTC, not in the future and not before 1970, or leave the header out. This attempt ran nothing.",
	wire.BodyIncomplete:    "The request's body ended before its announced length. This attempt ran nothing. Send the whole request again.",
	wire.BodyTimeout:       "The request's body took too long to arrive. This attempt ran nothing. Send the same request with the same key again.",
	wire.BodyTooLarge:      "The request's body is larger than this service accepts. This attempt ran nothing. Send a smaller one with a new key.",
	wire.KeyReused:         "A key belongs to one request: the same method, path, query, media type and body. Send this request with a new key.",
	wire.InProgress:        "The first request with this key is still running. Send the same request with the same key again to get its answer.",
	wire.KeyExpired:        "This request was first sent too long ago to run now. Find out whether an earlier attempt took effect before you use a new key.",
	wire.ResponseGone:      "The request took effect, and its answer is not kept. Do not send it with a new key: look up its result instead.",
	wire.KeyCancelled:      "The request was cancelled before it ran, and it never will run. Use a new key to make a new request.",
	wire.OutcomeUnknown:    "Nobody knows whether this request took effect. The service's operators must settle it. Do not send it with a new key.",
	wire.LeaseLost:         "Another process took this request over. Send the same request with the same key again to get its answer.",
	wire.NotStorable:       "The service made an answer that cannot be stored. The request may have taken effect. Report the instance to the service.",
	wire.RecordUnreadable:  "The service cannot read what it stored for this key. This attempt ran nothing. Report the instance to the service.",
	wire.Poisoned:          "Too many processes ended while they ran this request. The service's operators must settle it. Do not send it with a new key.",
	wire.TransactionFailed: "The service's database refused the work, and rolled it back. Report the instance to the service.",
	wire.KeyNotFound:       "Nothing is stored for this key. No request with it has begun, or its record has been deleted since.",
	wire.MethodNotAllowed:  "This address has only GET and HEAD.",
	wire.StoreUnavailable:  "The service cannot tell whether this request took effect. Send the same request with the same key again.",
}

// exact are the details of refusals of which more is known than the code.
var exact = map[error]string{
	errShortKey:    "The key is shorter than this service accepts. This attempt ran nothing. Use a longer one.",
	errKeyPolicy:   "The service does not accept keys of this form. This attempt ran nothing. Use another key.",
	errBadForward:  "The Idempotency-Cancels header must hold one key, in the form of an Idempotency-Key. This attempt ran nothing.",
	errSelfUndo:    "The Idempotency-Cancels header names the request's own key. This attempt ran nothing. Give the undo a key of its own.",
	errFingerprint: "The service cannot read the parts of this request that its key belongs to. This attempt ran nothing. Correct the request.",
	errMemo:        "The service cannot read what it must remember of this request. This attempt ran nothing. Correct the request.",
	errFuture:      "The Idempotency-First-Sent header is in the future. This attempt ran nothing. Send the time of the first attempt.",
	ErrShutdown:    "The service is shutting down. Send the same request with the same key again.",
}

// problem is the refusal as the caller gets it.
func (g *Guard) problem(c *call, out *outcome) wire.Problem {
	p := wire.NewProblem(out.code, details[out.code])
	for err, detail := range exact {
		if errors.Is(out.err, err) {
			p.Detail = detail
		}
	}
	if out.detail != "" {
		p.Detail = out.detail
	}
	if out.status != 0 {
		p.Status = out.status
	}
	p.Retryable = p.Retryable || out.retryable
	if out.code == wire.InProgress && c.route.InProgressStatus != 0 {
		p.Status = c.route.InProgressStatus
	}
	p.Instance = c.id.urn()
	if s, ok := out.code.Situation(); p.Retryable && (out.retryable || ok && s.RetryAfter) {
		p.RetryAfterMs = max(out.retryAfter.Milliseconds(), 1)
	}
	return p
}

// instanceID names a request that was refused before its key was known, so that the
// answer leads to the line in the log.
func instanceID() (id ID) {
	_, _ = rand.Read(id[:]) // never fails: it ends the process instead
	return id
}
