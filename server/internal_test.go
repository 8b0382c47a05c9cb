package server

// These tests are inside the package for what has no door: the pure decision
// and the bytes that are hashed and stored.

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/wire"
)

func TestDecide(t *testing.T) {
	t.Parallel()
	mine := Fingerprint{Version: 1, Sum: [32]byte{1}}
	other := Fingerprint{Version: 1, Sum: [32]byte{2}}
	newer := Fingerprint{Version: 2, Sum: mine.Sum}
	now := time.Now()
	stored := Answer{Status: 200, Envelope: []byte{}}
	wait, takeOver, replay := decision{verdict: verdictWait}, decision{verdict: verdictTakeOver}, decision{verdict: verdictReplay}
	for _, tt := range []struct {
		name string
		rec  Record
		want decision
	}{
		{"alive", Record{State: StateInProgress, LeaseUntil: now.Add(1)}, wait},
		{"alive, opaque", Record{State: StateInProgress, Effect: Opaque, LeaseUntil: now.Add(1)}, wait},
		{"dead at the instant", Record{State: StateInProgress, Effect: Keyed, LeaseUntil: now}, takeOver},
		{"dead, transactional", Record{State: StateInProgress, Effect: Transactional}, takeOver},
		{"dead, opaque", Record{State: StateInProgress, Effect: Opaque}, decision{verdict: verdictBury, bury: StateUnknown}},
		{"dead too often, opaque", Record{State: StateInProgress, Effect: Opaque, Deaths: 5}, decision{verdict: verdictBury, bury: StatePoisoned}},
		{"dead once less than too often", Record{State: StateInProgress, Effect: Keyed, Deaths: 4}, takeOver},
		{"dead too often", Record{State: StateInProgress, Effect: Keyed, Deaths: 5}, decision{verdict: verdictBury, bury: StatePoisoned}},
		{"completed", Record{State: StateCompleted, Answer: stored, ReplayUntil: now.Add(1)}, replay},
		{"completed, past retention", Record{State: StateCompleted, Answer: stored, ReplayUntil: now}, refused(wire.ResponseGone)},
		{"completed, tombstone", Record{State: StateCompleted, ReplayUntil: now.Add(1)}, refused(wire.ResponseGone)},
		{"released", Record{State: StateReleased, Deaths: 9}, takeOver},
		{"unknown", Record{State: StateUnknown}, refused(wire.OutcomeUnknown)},
		{"poisoned", Record{State: StatePoisoned}, refused(wire.Poisoned)},
		{"of a later version", Record{State: 99}, refused(wire.RecordUnreadable)},
	} {
		tt.rec.Now, tt.rec.Fingerprint = now, mine
		require.Equal(t, tt.want, decide(&tt.rec, mine, 5), tt.name)
		require.Equal(t, refused(wire.KeyReused), decide(&tt.rec, other, 5), "%s: mismatch", tt.name)
		require.Equal(t, refused(wire.RecordUnreadable), decide(&tt.rec, newer, 5), "%s: other version", tt.name)
	}
	cancelled := Record{State: StateCancelled, Now: now}
	require.Equal(t, refused(wire.KeyCancelled), decide(&cancelled, mine, 5))
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	require.Equal(t, minRetryAfter, retryAfter(0, time.Minute))
	require.Equal(t, 7*time.Second, retryAfter(7*time.Second, time.Minute))
	require.Equal(t, 2*time.Second, retryAfter(7*time.Second, 2*time.Second))
	require.Equal(t, minRetryAfter, retryAfter(7*time.Second, -time.Second))
}

// A golden value: another one means that keys stored before are forgotten, and
// run again.
func TestLookupID_golden(t *testing.T) {
	t.Parallel()
	key, err := childkey.Parse("order-1042")
	require.NoError(t, err)
	require.Equal(t, "d306b96e-800b-55be-494d-90fb0e69f60c", lookupID("tenant/ann", "orders", key).String())
}

// The same requests without the lengths would be one.
func TestFingerprint_boundaries(t *testing.T) {
	t.Parallel()
	require.NotEqual(t, (&subject{method: "POST", path: "/a", query: "bc"}).fingerprint(plainVersion, nil),
		(&subject{method: "POST", path: "/ab", query: "c"}).fingerprint(plainVersion, nil))
	a, _ := childkey.Parse("a")
	ba, _ := childkey.Parse("ba")
	require.NotEqual(t, lookupID("x", "b", a), lookupID("x", "", ba))
}

func FuzzFingerprint(f *testing.F) {
	f.Add("POST", "/a", "bc", "b", "POST", "/ab", "c", "b")
	f.Add("POST", "/a", "", "b", "POST", "/a", "b", "")
	f.Fuzz(func(t *testing.T, m1, p1, q1, b1, m2, p2, q2, b2 string) {
		one := subject{method: m1, path: p1, query: q1, body: []byte(b1)}
		two := subject{method: m2, path: p2, query: q2, body: []byte(b2)}
		if same, want := one.fingerprint(plainVersion, nil) == two.fingerprint(plainVersion, nil), reflect.DeepEqual(one, two); same != want {
			t.Errorf("fingerprints equal = %v, want %v: %+v %+v", same, want, one, two)
		}
	})
}

func FuzzEnvelope(f *testing.F) {
	good, _ := encodeEnvelope([]headerLine{{"Link", "<a>, <b>"}, {"Link", ""}}, []byte("body"))
	f.Add(good)
	f.Add([]byte(nil))
	f.Add([]byte{envelopeVersion})
	f.Add(append(slices.Clone(good), 0))
	f.Add([]byte{envelopeVersion, 1, 4, 'L', 'i', 'n', 'k', 3, 'a', '\r', '\n', 0})
	f.Add([]byte{envelopeVersion, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Add([]byte{envelopeVersion, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, b []byte) {
		lines, body, err := decodeEnvelope(b)
		if err != nil {
			return
		}
		for _, l := range lines {
			if strings.ContainsAny(l.name+l.value, "\r\n\x00") {
				t.Fatalf("decoded a line that splits an answer: %q", l)
			}
		}
		again, ok := encodeEnvelope(lines, body)
		if !ok {
			t.Fatalf("decoded what cannot be encoded: %q", b)
		}
		lines2, body2, err := decodeEnvelope(again)
		if err != nil || !slices.Equal(lines, lines2) || !bytes.Equal(body, body2) {
			t.Fatalf("round trip of %q: %v", b, err)
		}
	})
}

// Any single damaged length or missing byte is noticed.
func TestEnvelope_truncated(t *testing.T) {
	t.Parallel()
	b, ok := encodeEnvelope([]headerLine{{"Content-Type", "text/plain"}}, []byte("body"))
	require.True(t, ok)
	for i := range b {
		_, _, err := decodeEnvelope(b[:i])
		require.ErrorIs(t, err, errEnvelope, "first %d bytes", i)
	}
	_, _, err := decodeEnvelope(append(b, 0))
	require.ErrorIs(t, err, errEnvelope, "something behind it")
}

// A random walk over look: a follower may answer in-progress only by what was
// so after it came, and never while an outcome may be visible.
func TestLook_neverStale(t *testing.T) {
	t.Parallel()
	seed := time.Now().UnixNano()
	rnd := rand.New(rand.NewPCG(uint64(seed), 1))
	fp := Fingerprint{Version: 1}
	for range 20000 {
		v := view{
			phase: phase(rnd.IntN(4)), led: rnd.IntN(2) == 0, fresh: rnd.IntN(2) == 0,
			record: Record{State: State(rnd.IntN(7)), Fingerprint: fp, LeaseUntil: time.Now().Add(time.Hour), Now: time.Now()},
		}
		glance, d := look(v, fp, 5)
		switch {
		case glance == glancePatient && v.phase != phaseRunning && (!v.fresh || d.verdict != verdictWait):
			t.Fatalf("seed %d: in-progress from %+v", seed, v)
		case v.phase == phaseSettling && glance != glanceHold:
			t.Fatalf("seed %d: did not wait for the settlement: %+v", seed, v)
		case glance == glanceAnswer && !v.fresh && v.phase != phaseRunning:
			t.Fatalf("seed %d: answered from a stale record: %+v", seed, v)
		case glance == glanceHold && !v.led && v.phase == phaseIdle:
			t.Fatalf("seed %d: waits for nobody: %+v", seed, v)
		}
	}
}

func TestHistogram_bounds(t *testing.T) {
	t.Parallel()
	var h histogram
	for _, d := range []time.Duration{0, bounds[0], bounds[0] + 1, time.Hour} {
		h.observe(d)
	}
	s := h.snapshot()
	require.EqualValues(t, 4, s.Count)
	require.EqualValues(t, 2, s.Buckets[0].Count)
	require.EqualValues(t, 3, s.Buckets[1].Count)
	require.EqualValues(t, 3, s.Buckets[len(bounds)-1].Count)
}
