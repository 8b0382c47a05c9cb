package main

import (
	"flag"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/examples/internal/hosting"
	"github.com/fanonce/fanonce/server/pgtest"
)

var benchURL = flag.String("adopt.url", "", "database of BenchmarkPhases, perhaps with a large table idempotency_keys; empty means a new one")

// BenchmarkPhases is a request with a new key in each phase, without a network.
func BenchmarkPhases(b *testing.B) {
	url := *benchURL
	if url == "" {
		url = pgtest.URL(b)
	}
	cfg, err := pgxpool.ParseConfig(url)
	require.NoError(b, err)
	for _, phase := range []string{"old", "both", "look", "new"} {
		b.Run(phase, func(b *testing.B) {
			service, err := open(b.Context(), config{database: cfg, phase: phase, lock: time.Hour})
			require.NoError(b, err)
			defer service.Close()
			var took []time.Duration
			for b.Loop() {
				req := httptest.NewRequestWithContext(b.Context(), http.MethodPost, "/transfers", strings.NewReader(small))
				req.Header.Set("Content-Type", "application/json")
				req.Header.Set("Authorization", hosting.Bearer("tenant-7"))
				req.Header.Set("Idempotency-Key", uuid.NewString())
				answer := httptest.NewRecorder()
				began := time.Now()
				service.ServeHTTP(answer, req)
				took = append(took, time.Since(began))
				require.Equal(b, http.StatusCreated, answer.Code, answer.Body)
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/10].Microseconds()), "µs/fast") // what a busy machine disturbs least
			require.NoError(b, service.Drain(b.Context()))
		})
	}
}
