package retry

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/wire"
)

// Fanonce returns the profile of services that package server guards: keys of 32 hex
// digits, quoted, in Idempotency-Key, and all headers of this library. Such a service
// judges by itself whether a call is too old, and what became of it.
func Fanonce() *Profile {
	return &Profile{Headers: []string{
		wire.HeaderFirstSent, wire.HeaderCancels,
		wire.HeaderRetryAttempt, wire.HeaderRetryAllowance, wire.HeaderRequestTimeout,
	}}
}

// Stripe returns the profile of Stripe's API v1: a bare Idempotency-Key of at most 255
// bytes, kept for at least 24 hours. A 409 means that an earlier attempt is running.
// Stripe-Should-Retry decides where it is sent.
func Stripe() *Profile {
	return &Profile{Bare: true, Retention: 24 * time.Hour, Conflict: ConflictInProgress, Judge: judgeStripe}
}

func judgeStripe(answer Answer) (Verdict, bool) {
	verdict := answer.Verdict()
	switch answer.Header.Get("Stripe-Should-Retry") {
	case "false":
		verdict.Vetoed = true
	case "true":
		if verdict.Action == Stop {
			verdict.Action = Retry
		}
	}
	return verdict, true
}

// Adyen returns the profile of Adyen's Checkout API: a bare Idempotency-Key of at most 64
// bytes, kept for at least 7 days. Error 704 means that an earlier attempt is running. An
// answer with Transient-Error: true is sent again. An Idempotency-Key header in an answer
// proves nothing, because Adyen sends it with first answers and with repetitions.
func Adyen() *Profile {
	return &Profile{Bare: true, MaxKeyBytes: 64, Retention: 7 * 24 * time.Hour, Judge: judgeAdyen}
}

func judgeAdyen(answer Answer) (Verdict, bool) {
	var problem struct {
		ErrorCode string `json:"errorCode"`
	}
	_ = json.Unmarshal(answer.Body, &problem) // what is no JSON has no code
	switch {
	case problem.ErrorCode == "704":
		return Verdict{Outcome: Unknown, Action: Wait, Evidence: "error 704: processed already, or in progress"}, true
	case strings.EqualFold(answer.Header.Get("Transient-Error"), "true"):
		return Verdict{Outcome: Unknown, Action: Retry, Evidence: "a transient error, says the callee"}, true
	}
	return Verdict{}, false
}

// UUIDOnly returns the profile of services that take only a UUIDv4: a bare Idempotency-Key
// in that shape, kept for 24 hours. For another header, another retention or a 409 of known
// meaning change the fields of the result.
func UUIDOnly() *Profile {
	return &Profile{
		Bare: true, Encoding: childkey.UUIDv4, MaxKeyBytes: 36, Charset: "0123456789abcdef-",
		Retention: 24 * time.Hour,
	}
}
