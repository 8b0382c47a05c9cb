package redisstore

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"github.com/fanonce/fanonce/server/store"
)

// A record is one string, so that a claim is one SET. The scripts read and write the same bytes: offsets here are
// one less than theirs. Numbers are big-endian, and times are microseconds since 1970 as IEEE doubles, the only number
// type of Lua. They are exact for the next 200 years.
const (
	atVersion     = 0
	atState       = 1
	atEffect      = 2
	atMaybeRan    = 3
	atHasEnvelope = 4
	atWaited      = 5 // another process waits for the end of the run
	atLetter      = 6 // a dead letter
	atHasFirst    = 7
	atAlgorithm   = 8 // of the fingerprint
	atFence       = 9
	atToken       = 17
	atLease       = 33
	atExpires     = 41
	atReplay      = 49
	atAnswer      = 57
	atStatus      = 65
	atDeaths      = 73
	atCreated     = 81
	atKeep        = 89
	atFirst       = 97
	atSum         = 105
	atParent      = 137
	atRouteBytes  = 153
	atMemoBytes   = 157
	headBytes     = 161

	formatVersion = 1

	// failedAttemptsFrom is added to the number of failed attempts, which is where the status of an answer would be.
	failedAttemptsFrom = 1000
)

// micros is d in whole microseconds, rounded up.
func micros(d time.Duration) int64 { return int64((d + time.Microsecond - 1) / time.Microsecond) }

func putNumber(b []byte, n float64) { binary.BigEndian.PutUint64(b, math.Float64bits(n)) }

func number(b []byte) float64 { return math.Float64frombits(binary.BigEndian.Uint64(b)) }

func moment(b []byte) time.Time {
	if us := number(b); us != 0 {
		return time.UnixMicro(int64(us)).UTC()
	}
	return time.Time{}
}

// packOwner is the bytes of an owner in its record.
func packOwner(fence int64, token store.Token) []byte {
	b := make([]byte, 8, 24)
	putNumber(b, float64(fence))
	return append(b, token[:]...)
}

// packClaim is the record of req without the times that the server adds.
func packClaim(req store.ClaimRequest) []byte {
	b := make([]byte, headBytes, headBytes+len(req.Route)+len(req.Memo))
	b[atVersion], b[atState], b[atEffect] = formatVersion, byte(store.StateInProgress), byte(req.Effect)
	b[atAlgorithm] = req.Fingerprint.Version
	putNumber(b[atFence:], 1)
	copy(b[atToken:], req.Token[:])
	putNumber(b[atKeep:], float64(micros(req.Keep)))
	if !req.FirstSent.IsZero() {
		b[atHasFirst] = 1
		putNumber(b[atFirst:], float64(req.FirstSent.UnixMicro()))
	}
	copy(b[atSum:], req.Fingerprint.Sum[:])
	copy(b[atParent:], req.Parent[:])
	binary.BigEndian.PutUint32(b[atRouteBytes:], uint32(len(req.Route)))
	binary.BigEndian.PutUint32(b[atMemoBytes:], uint32(len(req.Memo)))
	b = append(b, req.Route...)
	return append(b, req.Memo...)
}

// packTombstone is the record of a key that was cancelled before any claim, without its times.
func packTombstone(token store.Token) []byte {
	b := make([]byte, headBytes)
	b[atVersion], b[atState] = formatVersion, byte(store.StateCancelled)
	putNumber(b[atFence:], 1)
	copy(b[atToken:], token[:])
	return b
}

// decode returns the record in raw as it is at now. raw may end before the envelope: then the record has none.
func decode(id store.ID, raw string, now time.Time) (store.Record, error) {
	if !readable(raw) {
		return store.Record{}, fmt.Errorf("redisstore: record %v: %w", id, store.ErrRecordUnreadable)
	}
	b := []byte(raw)
	r := store.Record{
		ID: id, State: store.State(b[atState]), Effect: store.Effect(b[atEffect]),
		Fingerprint: store.Fingerprint{Version: b[atAlgorithm], Sum: [32]byte(b[atSum:])},
		Token:       store.Token(b[atToken:]), Fence: int64(number(b[atFence:])), Parent: store.ID(b[atParent:]),
		RecoveryAttempts: int(number(b[atDeaths:])), MaybeRan: b[atMaybeRan] == 1,
		Now: now, CreatedAt: moment(b[atCreated:]), LeaseUntil: moment(b[atLease:]), ExpiresAt: moment(b[atExpires:]),
		ReplayUntil: moment(b[atReplay:]), AnswerUntil: moment(b[atAnswer:]),
		Answer: store.Answer{Status: int(number(b[atStatus:]))},
	}
	if r.State != store.StateCompleted && r.Answer.Status >= failedAttemptsFrom {
		r.FailedAttempts, r.Answer.Status = r.Answer.Status-failedAttemptsFrom, 0
	}
	if b[atHasFirst] == 1 {
		r.FirstSent = time.UnixMicro(int64(number(b[atFirst:]))).UTC()
	}
	end := envelopeAt(raw)
	memoAt := end - int(binary.BigEndian.Uint32(b[atMemoBytes:]))
	r.Route = raw[headBytes:memoAt]
	if memoAt < end {
		r.Memo = b[memoAt:end:end]
	}
	if b[atHasEnvelope] == 1 && (r.AnswerUntil.IsZero() || now.Before(r.AnswerUntil)) {
		r.Answer.Envelope = b[end:]
	}
	return r, nil
}

// readable reports whether raw has a head that this version knows, and all of its route and memo.
func readable(raw string) bool {
	return len(raw) >= headBytes && raw[atVersion] == formatVersion && len(raw) >= envelopeAt(raw)
}

// envelopeAt returns where route and memo end.
func envelopeAt(raw string) int {
	b := []byte(raw[atRouteBytes:headBytes])
	return headBytes + int(binary.BigEndian.Uint32(b)) + int(binary.BigEndian.Uint32(b[4:]))
}
