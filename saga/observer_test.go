package saga_test

import (
	"bytes"
	"context"
	"log/slog"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/memjournal"
	"github.com/fanonce/fanonce/saga/sagatest"
)

// lines is a log that several goroutines write to.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// Logs and errors show neither keys nor what is stored.
func TestLog(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		log := &lines{}
		s.services.Answer("inventory.reserve", `{"ID":"secret-result"}`)
		e := s.openWith(s.journal, saga.Config{
			Definitions: []saga.AnyDefinition{checkout},
			Logger:      slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		})
		s.services.Script("shipping.book", sagatest.Reject(409))
		s.services.ScriptUndo("payment.charge", sagatest.Reject(422))
		_, err := checkout.Run(s.Context(), e, key(s.T, "secret-key"), order{SKU: "secret-input"})
		require.ErrorIs(s, err, saga.ErrStuck)
		text := log.String()
		for _, want := range []string{
			`msg="saga: moved" id=` + s.id("secret-key").String(), "from=running to=compensating", "level=ERROR",
			"to=stuck", "step=payment.charge undo=true", `msg="saga: attempt failed"`, "outcome=Rejected status=409",
		} {
			require.Contains(s, text, want)
		}
		require.NotContains(s, text+err.Error(), "secret")
	})
}

func TestObserver(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		s.services.Script("payment.charge", sagatest.Always(sagatest.LoseRequest()))
		_, err := checkout.Run(s.Context(), s.open(checkout), key(s.T, "k"), basket)
		require.ErrorIs(s, err, saga.ErrCompensated)
		s.events.mu.Lock()
		defer s.events.mu.Unlock()
		var moves []string
		for _, m := range s.events.moves {
			require.Equal(s, s.id("k"), m.ID)
			moves = append(moves, m.From.String()+" to "+m.To.String())
		}
		require.Equal(s, []string{"none to running", "running to compensating", "compensating to compensated"}, moves)
		try := s.events.tries[1]
		require.Equal(s, "payment.charge", try.Step)
		require.Equal(s, 1, try.Attempt)
		require.Equal(s, retry.Unknown, try.Outcome)
		require.Positive(s, try.Wait)
		require.Error(s, try.Err)
	})
}

func TestOpen_badConfig(t *testing.T) {
	t.Parallel()
	client, err := sagatest.NewServices().Client("inventory", "payment", "shipping", "mail")
	require.NoError(t, err)
	poor, err := sagatest.NewServices().Client("inventory", "payment")
	require.NoError(t, err)
	good := []saga.AnyDefinition{checkout}
	twin := saga.MustDefine("checkout", 1, shop)
	var none *saga.Definition[order, receipt]
	tests := []struct {
		field string
		cfg   saga.Config
	}{
		{"Definitions", saga.Config{}},
		{"Definitions", saga.Config{Definitions: []saga.AnyDefinition{nil}}},
		{"Definitions", saga.Config{Definitions: []saga.AnyDefinition{none}}},
		{"Definitions", saga.Config{Definitions: []saga.AnyDefinition{&saga.Definition[order, receipt]{}}}},
		{"Definitions", saga.Config{Definitions: []saga.AnyDefinition{checkout, twin}}},
		{"Lease: -1s", saga.Config{Definitions: good, Lease: -time.Second}},
		{"Lease: 1ms", saga.Config{Definitions: good, Lease: time.Millisecond}},
		{"Poll: -1ns", saga.Config{Definitions: good, Poll: -1}},
		{"Keep: -1ns", saga.Config{Definitions: good, Keep: -1}},
		{"Keep: 2190000h0m0s is more than MaxDuration", saga.Config{Definitions: good, Keep: 250 * 365 * 24 * time.Hour}},
		{"Lease: 2562047h47m16.854775807s is more", saga.Config{Definitions: good, Lease: math.MaxInt64}},
		{"Backoff.Cap: 876000h0m0.000000001s is more", saga.Config{Definitions: good, Backoff: retry.Backoff{Cap: saga.MaxDuration + 1}}},
		{"Lease: 8760h0m0.000000001s is more than a year", saga.Config{Definitions: good, Lease: saga.MaxDuration/100 + 1}},
		{"Poll: 876000h0m0s is more than a year", saga.Config{Definitions: good, Poll: saga.MaxDuration}},
		{"SweepInterval: 876000h0m0s is more than a year", saga.Config{Definitions: good, SweepInterval: saga.MaxDuration}},
		{"Poll: 1ns is less than 1ms", saga.Config{Definitions: good, Poll: 1}},
		{"SweepInterval: -1ns", saga.Config{Definitions: good, SweepInterval: -1}},
		{"SweepBatch: -1", saga.Config{Definitions: good, SweepBatch: -1}},
		{"MaxActive: -1", saga.Config{Definitions: good, MaxActive: -1}},
		{"MaxRecoveryAttempts: -1", saga.Config{Definitions: good, MaxRecoveryAttempts: -1}},
		{"Backoff.Base: -1ns", saga.Config{Definitions: good, Backoff: retry.Backoff{Base: -1}}},
		{"Backoff.Cap: 1s", saga.Config{Definitions: good, Backoff: retry.Backoff{Base: time.Minute, Cap: time.Second}}},
		{"Backoff.Jitter: 2", saga.Config{Definitions: good, Backoff: retry.Backoff{Jitter: 2}}},
	}
	for _, tt := range tests {
		tt.cfg.Client = client
		_, err := saga.Open(context.Background(), memjournal.New(), tt.cfg)
		require.ErrorIs(t, err, saga.ErrConfig, tt.field)
		require.ErrorContains(t, err, tt.field)
	}
	short, err := saga.Open(t.Context(), memjournal.New(), saga.Config{Client: client, Definitions: good, Backoff: retry.Backoff{Cap: time.Millisecond}})
	require.NoError(t, err, "shorter than the default of Base")
	require.NoError(t, short.Close(t.Context()))
	_, err = saga.Open(t.Context(), nil, saga.Config{Client: client, Definitions: good})
	require.ErrorContains(t, err, "journal")
	_, err = saga.Open(t.Context(), memjournal.New(), saga.Config{Definitions: good})
	require.ErrorIs(t, err, saga.ErrConfig)
	require.ErrorContains(t, err, "Client: nil, and checkout version 1 has the operation inventory.reserve")
	_, err = saga.Open(t.Context(), memjournal.New(), saga.Config{Client: poor, Definitions: good})
	require.ErrorContains(t, err, "step shipping.book")
	require.False(t, strings.Contains(err.Error(), "step inventory"), err)
}
