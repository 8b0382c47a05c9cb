package main

import (
	"testing"
	"time"
)

func TestRecovery(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	end := time.Second
	call := func(after, took time.Duration, ok bool) stepCall { return stepCall{end + after, took, ok} }
	calls := func(bad ...stepCall) []stepCall {
		all := bad
		for after := time.Duration(0); after < time.Second; after += 20 * ms {
			all = append(all, call(after, stepWork, true))
		}
		return all
	}
	tests := []struct {
		name  string
		calls []stepCall
		want  time.Duration
	}{
		{"at once", calls(), 0},
		{"failures before do not count", calls(stepCall{began: end - ms}), 0},
		{"a failure", calls(call(150*ms, stepWork, false)), 200 * ms},
		{"a failure after three tenths", calls(call(350*ms, stepWork, false)), 0},
		{"one slow call is not half", calls(call(150*ms, time.Second, true)), 0},
		{"half slow", calls(call(50*ms, time.Second, true), call(50*ms, time.Second, true), call(50*ms, time.Second, true),
			call(50*ms, time.Second, true), call(50*ms, time.Second, true)), 100 * ms},
		{"never", calls(call(250*ms, 0, false), call(550*ms, 0, false), call(850*ms, 0, false)), time.Second},
		{"no calls", nil, time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := recovery(tt.calls, end, time.Second); got != tt.want {
				t.Errorf("recovery = %v, want %v", got, tt.want)
			}
		})
	}
}
