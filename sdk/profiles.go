package sdk

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/retry"
)

// Fanonce is the profile of callees guarded by this library's server package,
// the zero Profile: keys of 32 hex digits, quoted, in Idempotency-Key. Such a
// callee judges by itself whether a call is too old, and what became of it.
func Fanonce() Profile { return Profile{} }

// Stripe is the profile of Stripe's API v1: a bare Idempotency-Key of at most
// 255 bytes, kept for at least 24 hours; a 409 while the first run is going;
// Stripe-Should-Retry decides where it is sent.
func Stripe() Profile {
	return Profile{Bare: true, Retention: 24 * time.Hour, Judge: judgeStripe, KeyOnly: true}
}

func judgeStripe(answer retry.Answer) (retry.Verdict, bool) {
	verdict, conflict := ConflictInProgress(answer)
	if !conflict {
		verdict = answer.Verdict()
	}
	switch answer.Header.Get("Stripe-Should-Retry") {
	case "false":
		verdict.Vetoed = true
	case "true":
		if verdict.Action == retry.Stop {
			verdict.Action = retry.Retry
		}
	default:
		return verdict, conflict
	}
	return verdict, true
}

// Adyen is the profile of Adyen's Checkout API: a bare Idempotency-Key of at most
// 64 bytes, kept for at least 7 days; error 704 while the first run is going; an
// answer with Transient-Error: true helps nobody who does not ask again. That an
// answer has an Idempotency-Key header shows that it is one to the key, and does not
// tell a repetition from the first, so it proves nothing here.
func Adyen() Profile {
	return Profile{Bare: true, MaxKeyBytes: 64, Retention: 7 * 24 * time.Hour, Judge: judgeAdyen, KeyOnly: true}
}

func judgeAdyen(answer retry.Answer) (retry.Verdict, bool) {
	var problem struct {
		ErrorCode string `json:"errorCode"`
	}
	_ = json.Unmarshal(answer.Body, &problem) // what is no JSON has no code
	switch {
	case problem.ErrorCode == "704":
		return retry.Verdict{Outcome: retry.Unknown, Action: retry.Wait, Evidence: "error 704: processed already, or in progress"}, true
	case strings.EqualFold(answer.Header.Get("Transient-Error"), "true"):
		return retry.Verdict{Outcome: retry.Unknown, Action: retry.Retry, Evidence: "a transient error, says the callee"}, true
	}
	return conflictUnclear(answer)
}

// conflictUnclear reads the 409 of callees of which it is not known whether that is a
// refusal or means that the first run is still going.
func conflictUnclear(answer retry.Answer) (retry.Verdict, bool) {
	return retry.Verdict{Outcome: retry.Unknown, Action: retry.Retry, Evidence: "409: still going, or refused"},
		answer.Status == http.StatusConflict && !answer.Replayed
}

// UUIDOnly is the profile of callees that take nothing but a UUIDv4: a bare
// Idempotency-Key in that shape, kept for 24 hours. What their 409 means is not
// known, so it is Unknown and tried again. For another header, another retention or a
// 409 that is known ([ConflictInProgress]) change the fields of what it returns.
func UUIDOnly() Profile {
	return Profile{
		Bare: true, Encoding: childkey.UUIDv4, MaxKeyBytes: 36, Charset: "0123456789abcdef-",
		Retention: 24 * time.Hour, Judge: conflictUnclear, KeyOnly: true,
	}
}
