package main

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestQuotas(t *testing.T) {
	t.Parallel()
	aws := &awsQuota{left: 12}
	require.True(t, aws.retry())
	require.True(t, aws.retry())
	require.False(t, aws.retry(), "2 tokens left")
	aws.bookSuccess(false)
	require.False(t, aws.retry(), "3 tokens left")
	aws.bookSuccess(true) // 9: one, and the price of the retry
	require.True(t, aws.retry())
	require.Equal(t, 4, aws.left)
	full := &awsQuota{left: awsTokens}
	full.bookSuccess(true)
	require.Equal(t, awsTokens, full.left)

	grpc := &grpcThrottle{left: grpcTokens}
	for range 4 {
		grpc.bookFailure()
		require.True(t, grpc.retry())
	}
	grpc.bookFailure()
	require.False(t, grpc.retry(), "half is not more than half")
	grpc.bookSuccess(true)
	require.True(t, grpc.retry())
	for range 20 {
		grpc.bookFailure()
	}
	require.Zero(t, grpc.left)
}

func TestModel_send(t *testing.T) {
	t.Parallel()
	sent := 0
	answers := func(statuses ...int) sender {
		sent = 0
		return func(context.Context, message) reply {
			sent++
			return reply{status: statuses[min(sent, len(statuses))-1]}
		}
	}
	m := model{attempts: 3, wait: time.Microsecond, longest: time.Microsecond, jitter: fullJitter, quota: &awsQuota{left: awsTokens}}
	require.Equal(t, 200, m.send(t.Context(), message{}, answers(503, 503, 200)).status)
	require.Equal(t, 3, sent)
	require.Equal(t, 503, m.send(t.Context(), message{}, answers(503)).status)
	require.Equal(t, 3, sent)
	require.Equal(t, 404, m.send(t.Context(), message{}, answers(404)).status)
	require.Equal(t, 1, sent)
	m.wait, m.longest = time.Hour, time.Hour
	m.jitter = func(d time.Duration) time.Duration { return d }
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.Equal(t, 503, m.send(ctx, message{}, answers(503)).status)
	require.Equal(t, 1, sent)
}
