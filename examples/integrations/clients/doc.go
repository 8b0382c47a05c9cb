// Package clients shows which settings other people's HTTP clients need, so that each call of theirs takes effect once
// and none is lost. The README says what each setting is for, and what was measured.
//
// NewRetryableHTTP, NewResty, NewStripe and CurlArgs are the settings. Each client sends one Idempotency-Key on all
// attempts of a call. Retryable is the rule that clients with a rule of their own follow. NewCharges is the service
// that they call, and StripeProblem makes its refusals readable for the clients of Stripe.
//
// The tests run each client through a network that loses, repeats, delays and cuts messages, and gives up on slow
// answers. They count the effects in Postgres.
package clients
