package retry_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/retry"
)

func nan() float64 { return math.NaN() }

func TestNew_rejects(t *testing.T) {
	t.Parallel()
	tests := []struct {
		field string
		cfg   retry.Config
		value string
	}{
		{"MaxAttempts", retry.Config{MaxAttempts: -1}, "-1"},
		{"MaxPolls", retry.Config{MaxPolls: -2}, "-2"},
		{"MaxResponseBytes", retry.Config{MaxResponseBytes: -4}, "-4"},
		{"RetryAfterCap", retry.Config{RetryAfterCap: -time.Second}, "-1s"},
		{"Timeout", retry.Config{Timeout: -time.Second}, "-1s"},
		{"AttemptTimeout", retry.Config{AttemptTimeout: -time.Second}, "-1s"},
		{"Backoff.Base", retry.Config{Backoff: retry.Backoff{Base: -1}}, "-1ns"},
		{"Backoff.Cap", retry.Config{Backoff: retry.Backoff{Base: 2, Cap: 1}}, "1ns"},
		{"Backoff.Cap", retry.Config{Backoff: retry.Backoff{Cap: -1}}, "-1ns"},
		{"Backoff.Jitter", retry.Config{Backoff: retry.Backoff{Jitter: -0.1}}, "-0.1"},
		{"Backoff.Jitter", retry.Config{Backoff: retry.Backoff{Jitter: 1.1}}, "1.1"},
		{"Backoff.Jitter", retry.Config{Backoff: retry.Backoff{Jitter: nan()}}, "NaN"},
		{"Profile.Retention", retry.Config{Timeout: time.Minute, Profile: &retry.Profile{Retention: time.Minute}},
			"57s with its margin, is not longer than one call may take: 1m0s"},
		{"Poll.Cap", retry.Config{Poll: retry.Backoff{Base: 2, Cap: 1}}, "1ns"},
	}
	for _, tt := range tests {
		_, err := retry.New(tt.cfg)
		require.ErrorIs(t, err, retry.ErrConfig, "%+v", tt.cfg)
		require.ErrorContains(t, err, tt.field+":")
		require.ErrorContains(t, err, tt.value)
	}
}

func TestNew_fillsIn(t *testing.T) {
	t.Parallel()
	for _, cfg := range []retry.Config{
		{},
		{Backoff: retry.Backoff{Base: time.Minute}},                   // a Cap of zero follows Base
		{Backoff: retry.Backoff{Cap: 1}, Poll: retry.Backoff{Cap: 1}}, // and a Base of zero follows Cap
		{Timeout: time.Second},                                        // shorter than the default of AttemptTimeout
		{Timeout: 1},
		{AttemptTimeout: time.Hour}, // longer than the default of Timeout
		{Timeout: time.Second, AttemptTimeout: time.Second},
		{RetryAfterCap: time.Hour},
		{MaxResponseBytes: 1},
		{Profile: &retry.Profile{Retention: time.Minute}}, // not longer than the default of Timeout
		{Profile: &retry.Profile{Retention: ms}},
		{MaxAttempts: 1},
		{MaxAttempts: 1, Timeout: time.Second, AttemptTimeout: time.Second},
		{MaxAttempts: 30},
	} {
		_, err := retry.New(cfg)
		require.NoError(t, err, "%+v", cfg)
	}
}
