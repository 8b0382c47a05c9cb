package engine

// These tests are inside the package: the pure decisions are not exported.

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server/store"
)

func TestDecide(t *testing.T) {
	t.Parallel()
	mine := store.Fingerprint{Version: 1, Sum: [32]byte{1}}
	other := store.Fingerprint{Version: 1, Sum: [32]byte{2}}
	newer := store.Fingerprint{Version: 2, Sum: mine.Sum}
	now := time.Now()
	stored := store.Answer{Status: 200, Envelope: []byte{}}
	wait, takeOver, replay := decision{action: actionWait}, decision{action: actionTakeOver}, decision{action: actionReplay}
	for _, tt := range []struct {
		name string
		rec  store.Record
		want decision
	}{
		{"alive", store.Record{State: store.StateInProgress, LeaseUntil: now.Add(1)}, wait},
		{"alive, opaque", store.Record{State: store.StateInProgress, Effect: store.Opaque, LeaseUntil: now.Add(1)}, wait},
		{"dead at the instant", store.Record{State: store.StateInProgress, Effect: store.Keyed, LeaseUntil: now}, takeOver},
		{"dead, transactional", store.Record{State: store.StateInProgress, Effect: store.Transactional}, takeOver},
		{"dead, opaque", store.Record{State: store.StateInProgress, Effect: store.Opaque}, decision{action: actionQuarantine, to: store.StateUnknown}},
		{"dead too often, opaque", store.Record{State: store.StateInProgress, Effect: store.Opaque, RecoveryAttempts: 5}, decision{action: actionQuarantine, to: store.StateQuarantined}},
		{"dead once less than too often", store.Record{State: store.StateInProgress, Effect: store.Keyed, RecoveryAttempts: 4}, takeOver},
		{"dead too often", store.Record{State: store.StateInProgress, Effect: store.Keyed, RecoveryAttempts: 5}, decision{action: actionQuarantine, to: store.StateQuarantined}},
		{"completed", store.Record{State: store.StateCompleted, Answer: stored, ReplayUntil: now.Add(1)}, replay},
		{"completed, past retention", store.Record{State: store.StateCompleted, Answer: stored, ReplayUntil: now}, refuseWith(wire.ResponseGone)},
		{"completed, tombstone", store.Record{State: store.StateCompleted, ReplayUntil: now.Add(1)}, refuseWith(wire.ResponseGone)},
		{"released, may have run", store.Record{State: store.StateReleased, MaybeRan: true, RecoveryAttempts: 9}, takeOver},
		{"unknown", store.Record{State: store.StateUnknown}, refuseWith(wire.OutcomeUnknown)},
		{"quarantined", store.Record{State: store.StateQuarantined}, refuseWith(wire.Poisoned)},
		{"of a later version", store.Record{State: 99}, refuseWith(wire.RecordUnreadable)},
	} {
		tt.rec.Now, tt.rec.Fingerprint = now, mine
		require.Equal(t, tt.want, decide(&tt.rec, mine, 5), tt.name)
		require.Equal(t, refuseWith(wire.KeyReused), decide(&tt.rec, other, 5), "%s: mismatch", tt.name)
		require.Equal(t, refuseWith(wire.RecordUnreadable), decide(&tt.rec, newer, 5), "%s: other version", tt.name)
	}
	for _, fp := range []store.Fingerprint{mine, other, newer} {
		released := store.Record{State: store.StateReleased, Fingerprint: mine, RecoveryAttempts: 9, Now: now}
		require.Equal(t, takeOver, decide(&released, fp, 5), "a released key without effects is bound to no request")
	}
	cancelled := store.Record{State: store.StateCancelled, Now: now}
	require.Equal(t, refuseWith(wire.KeyCancelled), decide(&cancelled, mine, 5))
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	require.Equal(t, minRetryAfter, RetryAfter(0, time.Minute))
	require.Equal(t, 7*time.Second, RetryAfter(7*time.Second, time.Minute))
	require.Equal(t, 2*time.Second, RetryAfter(7*time.Second, 2*time.Second))
	require.Equal(t, minRetryAfter, RetryAfter(7*time.Second, -time.Second))
}

// This is a random walk over nextStep. A follower may answer in-progress only
// from the state after its arrival, and never while an outcome may be visible.
func TestNextStep_neverStale(t *testing.T) {
	t.Parallel()
	seed := time.Now().UnixNano()
	rnd := rand.New(rand.NewPCG(uint64(seed), 1))
	fp := store.Fingerprint{Version: 1}
	for range 20000 {
		v := view{
			phase: phase(rnd.IntN(4)), led: rnd.IntN(2) == 0, fresh: rnd.IntN(2) == 0,
			record: store.Record{State: store.State(rnd.IntN(7)), Fingerprint: fp, LeaseUntil: time.Now().Add(time.Hour), Now: time.Now()},
		}
		step, d := nextStep(v, fp, 5)
		switch {
		case step == stepWait && v.phase != phaseRunning && (!v.fresh || d.action != actionWait):
			t.Fatalf("seed %d: in-progress from %+v", seed, v)
		case v.phase == phaseSettling && step != stepHold:
			t.Fatalf("seed %d: did not wait for the settlement: %+v", seed, v)
		case step == stepAnswer && !v.fresh && v.phase != phaseRunning:
			t.Fatalf("seed %d: answered from a stale record: %+v", seed, v)
		case step == stepHold && !v.led && v.phase == phaseIdle:
			t.Fatalf("seed %d: waits for nobody: %+v", seed, v)
		}
	}
}
