package natsstore

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/fanonce/fanonce/server/store"
)

// An entry is a key's message in the stream: its record, and the data that the store needs beside it.
type entry struct {
	store.Record
	rev        uint64 // the message's sequence: 0 if the key has no message
	deleted    bool   // the message says that there is no record
	deadLetter bool
	nonce      string // of the write that made the message
	prev       string // the nonce of the message that this one replaced
	audit      string // the nonce of the audit entry that may still be unconfirmed
	ref        string // the name of the answer's parts, if its envelope is not in the message
	parts      int    // how many parts there are
}

// exists reports that the key has a record.
func (e *entry) exists() bool { return e.rev > 0 && !e.deleted }

// present is e as it is once its message is stored.
func (e *entry) present() *entry {
	stored := *e
	stored.rev = max(e.rev, 1)
	return &stored
}

// needsPerson reports that the key is among those that [Store.Attention] counts.
func (e *entry) needsPerson() bool {
	if !e.exists() {
		return false
	}
	return e.State == store.StateUnknown || e.State == store.StateQuarantined || e.listedDeadLetter()
}

func (e *entry) listedDeadLetter() bool { return e.deadLetter && e.State == store.StateCompleted }

// newNonce returns 16 random hex digits. They only tell one write from others of the same key.
func newNonce() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // it never returns an error
	return hex.EncodeToString(b[:])
}

// version is the version of the stored form. A store refuses a later one.
const version = 1

// A stored is the first line of a message, in JSON. The bytes behind it are the answer's envelope.
type stored struct {
	Version     int    `json:"v"`
	Nonce       string `json:"nonce"`
	Prev        string `json:"prev,omitempty"`
	Audit       string `json:"audit,omitempty"`
	Deleted     bool   `json:"deleted,omitempty"`
	State       string `json:"state,omitempty"`
	Effect      string `json:"effect,omitempty"`
	Algorithm   uint8  `json:"fingerprint_version,omitempty"`
	Fingerprint []byte `json:"fingerprint,omitempty"`
	Token       []byte `json:"token,omitempty"`
	Fence       int64  `json:"fence,omitempty"`
	Parent      []byte `json:"parent,omitempty"`
	Recovery    int    `json:"recovery_attempts,omitempty"`
	MaybeRan    bool   `json:"maybe_ran,omitempty"`
	DeadLetter  bool   `json:"dead_letter,omitempty"`
	CreatedAt   stamp  `json:"created_at,omitzero"`
	FirstSent   stamp  `json:"first_sent,omitzero"`
	LeaseUntil  stamp  `json:"lease_until,omitzero"`
	ExpiresAt   stamp  `json:"expires_at,omitzero"`
	ReplayUntil stamp  `json:"replay_until,omitzero"`
	AnswerUntil stamp  `json:"answer_until,omitzero"`
	Status      int    `json:"status,omitempty"`
	Envelope    bool   `json:"envelope,omitempty"` // false: there is none, not even an empty one
	Ref         string `json:"ref,omitempty"`
	Parts       int    `json:"parts,omitempty"`
	Route       string `json:"route,omitempty"`
	Memo        []byte `json:"memo,omitempty"`
}

// A stamp is a time as a decimal number of seconds since 1970, to the microsecond. Empty means none.
type stamp string

func stampOf(t time.Time) stamp {
	if t.IsZero() {
		return ""
	}
	b := strconv.AppendInt(make([]byte, 0, 24), t.Unix(), 10)
	b = append(b, '.')
	micros := strconv.Itoa(1_000_000 + t.Nanosecond()/1000)
	return stamp(append(b, micros[1:]...))
}

// time is the inverse of stampOf. Other text is a damaged record.
func (s stamp) time(damaged *bool) time.Time {
	if s == "" {
		return time.Time{}
	}
	whole, micros, found := strings.Cut(string(s), ".")
	seconds, err := strconv.ParseInt(whole, 10, 64)
	fraction, err2 := strconv.ParseUint(micros, 10, 32)
	if !found || len(micros) != 6 || err != nil || err2 != nil {
		*damaged = true
	}
	return time.Unix(seconds, int64(fraction)*1000).UTC()
}

var (
	states = named(store.StateInProgress, store.StateCompleted, store.StateReleased, store.StateUnknown, store.StateQuarantined,
		store.StateCancelled)
	effects = named(store.Transactional, store.Keyed, store.Opaque)
)

func named[T fmt.Stringer](values ...T) map[string]T {
	byName := make(map[string]T, len(values))
	for _, v := range values {
		byName[v.String()] = v
	}
	return byName
}

// encode returns the message of e without its envelope.
func encode(e *entry) ([]byte, error) {
	s := stored{Version: version, Nonce: e.nonce, Prev: e.prev, Audit: e.audit, Deleted: e.deleted}
	if !e.deleted {
		s.State, s.Token, s.Fence = e.State.String(), e.Token[:], e.Fence
		if e.Effect != 0 {
			s.Effect = e.Effect.String()
		}
		if e.Fingerprint != (store.Fingerprint{}) {
			s.Algorithm, s.Fingerprint = e.Fingerprint.Version, e.Fingerprint.Sum[:]
		}
		if e.Parent != (store.ID{}) {
			s.Parent = e.Parent[:]
		}
		s.Recovery, s.MaybeRan, s.DeadLetter = e.RecoveryAttempts, e.MaybeRan, e.deadLetter
		s.CreatedAt, s.FirstSent, s.LeaseUntil = stampOf(e.CreatedAt), stampOf(e.FirstSent), stampOf(e.LeaseUntil)
		s.ExpiresAt, s.ReplayUntil, s.AnswerUntil = stampOf(e.ExpiresAt), stampOf(e.ReplayUntil), stampOf(e.AnswerUntil)
		s.Status, s.Envelope, s.Ref, s.Parts = e.Answer.Status, e.Answer.Envelope != nil, e.ref, e.parts
		s.Route, s.Memo = e.Route, e.Memo
	}
	line, err := json.Marshal(s)
	if err != nil {
		return nil, argument("%v", err)
	}
	return append(line, '\n'), nil
}

// decode reads the message of a key. An envelope in parts stays empty. The error wraps [store.ErrRecordUnreadable].
func decode(id store.ID, rev uint64, data []byte) (entry, error) {
	line, envelope, found := bytes.Cut(data, []byte{'\n'})
	var s stored
	if err := json.Unmarshal(line, &s); err != nil || !found {
		return entry{}, unreadable(id, "not a record")
	}
	if s.Version != version {
		return entry{}, unreadable(id, fmt.Sprintf("version %d, want %d", s.Version, version))
	}
	e := entry{rev: rev, deleted: s.Deleted, nonce: s.Nonce, prev: s.Prev, audit: s.Audit, deadLetter: s.DeadLetter, ref: s.Ref, parts: s.Parts}
	e.ID = id
	if s.Deleted {
		return e, nil
	}
	var known, ofEffect bool
	e.State, known = states[s.State]
	e.Effect, ofEffect = effects[s.Effect]
	whole := fill(e.Token[:], s.Token, false) && fill(e.Fingerprint.Sum[:], s.Fingerprint, true) && fill(e.Parent[:], s.Parent, true)
	damaged := !known || !ofEffect && s.Effect != "" || !whole || s.Parts < 0
	e.CreatedAt, e.FirstSent, e.LeaseUntil = s.CreatedAt.time(&damaged), s.FirstSent.time(&damaged), s.LeaseUntil.time(&damaged)
	e.ExpiresAt, e.ReplayUntil, e.AnswerUntil = s.ExpiresAt.time(&damaged), s.ReplayUntil.time(&damaged), s.AnswerUntil.time(&damaged)
	if damaged {
		return entry{}, unreadable(id, "damaged")
	}
	e.Fingerprint.Version, e.Fence, e.RecoveryAttempts, e.MaybeRan = s.Algorithm, s.Fence, s.Recovery, s.MaybeRan
	e.Route, e.Memo, e.Answer.Status = s.Route, s.Memo, s.Status
	if s.Envelope {
		e.Answer.Envelope = append([]byte{}, envelope...)
	}
	return e, nil
}

// fill copies src to dst. It returns false if the lengths differ; none is allowed if optional is set.
func fill(dst, src []byte, optional bool) bool {
	return copy(dst, src) == len(dst) && len(src) == len(dst) || optional && len(src) == 0
}

func unreadable(id store.ID, why string) error {
	return fmt.Errorf("%w: natsstore: %v: %s", store.ErrRecordUnreadable, id, why)
}
