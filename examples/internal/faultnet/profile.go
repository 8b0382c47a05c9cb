package faultnet

import (
	"errors"
	"fmt"
	"time"
)

// ErrInvalid is wrapped by every error about a [Config] or [Profile].
var ErrInvalid = errors.New("faultnet: invalid")

// A Profile says how bad the network is. The zero Profile harms nothing.
type Profile struct {
	// Rates has, for each kind, the share of the requests it befalls: 0 to 1,
	// and no more than 1 in all. A request suffers at most one.
	Rates map[Kind]float64
	// MaxWait is the longest that a delayed message or a late copy is held.
	MaxWait time.Duration
	// AnswerTimeout is how long the edge waits for an answer. Then the caller gets a 504, and the callee works on.
	// Zero means that it waits as long as the callee works.
	AnswerTimeout time.Duration
}

// Named returns the profile called name: none, normal or brutal.
func Named(name string) (Profile, error) {
	switch name {
	case "none":
		return Profile{}, nil
	case "normal":
		return Profile{MaxWait: 150 * time.Millisecond, Rates: map[Kind]float64{
			DropRequest: 0.03, DropResponse: 0.05, Truncate: 0.02, BadGateway: 0.03, Duplicate: 0.05, Delay: 0.05,
		}}, nil
	case "brutal":
		return Profile{MaxWait: 300 * time.Millisecond, Rates: map[Kind]float64{
			DropRequest: 0.08, DropResponse: 0.12, Truncate: 0.06, BadGateway: 0.10, Duplicate: 0.14, Delay: 0.10,
		}}, nil
	}
	return Profile{}, fmt.Errorf("%w: profile %q: want none, normal or brutal", ErrInvalid, name)
}

func (p Profile) check() error {
	known := make(map[Kind]bool)
	for _, kind := range Kinds() {
		known[kind] = true
	}
	var sum float64
	for kind, rate := range p.Rates {
		if !known[kind] {
			return fmt.Errorf("%w: Rates: kind %q", ErrInvalid, string(kind))
		}
		if !(rate >= 0 && rate <= 1) { // not rate < 0 || rate > 1: NaN is neither
			return fmt.Errorf("%w: Rates[%s]: %v is not a share", ErrInvalid, string(kind), rate)
		}
		sum += rate
	}
	switch {
	case sum > 1+1e-9:
		return fmt.Errorf("%w: Rates: their sum is %v", ErrInvalid, sum)
	case p.MaxWait < 0:
		return fmt.Errorf("%w: MaxWait: %v", ErrInvalid, p.MaxWait)
	case p.AnswerTimeout < 0:
		return fmt.Errorf("%w: AnswerTimeout: %v", ErrInvalid, p.AnswerTimeout)
	}
	return nil
}
