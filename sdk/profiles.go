package sdk

import (
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
		verdict = retry.StatusVerdict(answer.Status)
	}
	switch answer.Header.Get("Stripe-Should-Retry") {
	case "false":
		verdict.Action = retry.Stop
	case "true":
		if verdict.Action == retry.Stop {
			verdict.Action = retry.Retry
		}
	default:
		return verdict, conflict
	}
	return verdict, true
}

// Adyen is the profile of Adyen's Checkout API: a bare Idempotency-Key of at
// most 64 bytes, kept for at least 7 days.
func Adyen() Profile {
	return Profile{Bare: true, MaxKeyBytes: 64, Retention: 7 * 24 * time.Hour, KeyOnly: true}
}

// UUIDOnly is the profile of callees that take nothing but a UUIDv4: a bare
// Idempotency-Key in that shape, kept for 24 hours. For another header or
// another retention change the fields of what it returns.
func UUIDOnly() Profile {
	return Profile{
		Bare: true, Encoding: childkey.UUIDv4, MaxKeyBytes: 36,
		Retention: 24 * time.Hour, KeyOnly: true,
	}
}
