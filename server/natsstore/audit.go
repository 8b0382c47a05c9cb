package natsstore

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/fanonce/fanonce/server/store"
)

// A line of the audit log is announced before the record's write and confirmed after it. The record carries the line's
// nonce in between, as the evidence that the write won. Whoever writes the record next confirms the line first. So a
// crash at any moment loses no line, and shows none for a write that lost.

type auditLine struct {
	Confirmed bool        `json:"confirmed"`
	From      uint64      `json:"from"` // the revision that the write replaces
	At        time.Time   `json:"at"`
	Verb      store.Verb  `json:"verb"`
	Actor     string      `json:"actor"`
	Reason    string      `json:"reason"`
	Before    store.State `json:"before"`
	After     store.State `json:"after"` // 0: forgotten
	Fence     int64       `json:"fence"`
}

// announce writes the line for c, whose write follows.
func (s *Store) announce(ctx context.Context, c *change, by store.Audit) error {
	line := auditLine{
		From: c.before.rev, At: c.now, Verb: by.Verb, Actor: by.Actor, Reason: by.Reason, Before: c.before.State, Fence: c.after.Fence,
	}
	if c.did == writeIt {
		line.After = c.after.State
	}
	data, err := json.Marshal(line)
	if err != nil {
		return err
	}
	return s.insist(ctx, write{subject: s.stream.bucket.of(auditSpace, c.before.ID, c.after.nonce), data: data})
}

// confirm says that the write of the line won. It is idempotent.
func (s *Store) confirm(ctx context.Context, id store.ID, nonce string) error {
	subject := s.stream.bucket.of(auditSpace, id, nonce)
	return s.stream.persist(ctx, func(ctx context.Context) (bool, error) {
		m, err := s.stream.last(ctx, subject)
		if err != nil {
			return true, err
		}
		line, err := readLine(m)
		if m.rev == 0 || err != nil || line.Confirmed {
			return false, err
		}
		line.Confirmed = true
		data, err := json.Marshal(line)
		if err != nil {
			return false, err
		}
		_, f, err := s.stream.publish(ctx, write{subject: subject, expect: m.rev, data: data})
		return f == outpaced || f == unknown, err
	})
}

func readLine(m message) (line auditLine, err error) {
	if m.rev == 0 {
		return line, nil
	}
	if err := json.Unmarshal(m.data, &line); err != nil {
		return line, fmt.Errorf("natsstore: audit log: %s: %w", m.subject, err)
	}
	return line, nil
}

// AuditLog implements [store.OperatorStore]. It reads the lines of the key, or the whole log.
func (s *Store) AuditLog(ctx context.Context, id store.ID, limit int) ([]store.AuditEntry, error) {
	if err := checkLimit(limit); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	filter := s.stream.bucket.all(auditSpace)
	if id != (store.ID{}) {
		filter = s.stream.bucket.of(auditSpace, id, ">")
	}
	lines := make(map[string]store.AuditEntry) // a line that is confirmed during the scan is seen twice
	err := s.stream.scan(ctx, filter, 0, func(m message) error {
		line, err := readLine(m)
		of, ok := idOf(m.subject)
		if err != nil || !ok {
			return err
		}
		if !line.Confirmed {
			if won, err := s.evident(ctx, of, m); err != nil || !won {
				return err
			}
		}
		lines[m.subject] = store.AuditEntry{
			At: line.At, ID: of, Audit: store.Audit{Verb: line.Verb, Actor: line.Actor, Reason: line.Reason},
			From: line.Before, To: line.After, Fence: line.Fence,
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	found := slices.SortedFunc(maps.Values(lines), func(a, b store.AuditEntry) int {
		return cmp.Or(b.At.Compare(a.At), cmp.Compare(b.Fence, a.Fence), bytes.Compare(a.ID[:], b.ID[:]))
	})
	return found[:min(len(found), limit)], nil
}

// evident reports whether the write of an unconfirmed line won, and confirms it then.
func (s *Store) evident(ctx context.Context, id store.ID, m message) (bool, error) {
	nonce := m.subject[len(s.stream.bucket.of(auditSpace, id))+1:]
	e, err := s.glance(ctx, id)
	if err != nil {
		return false, err
	}
	if e.audit == nonce {
		return true, s.confirm(ctx, id, nonce)
	}
	again, err := s.stream.last(ctx, m.subject) // another process may have confirmed it since the scan
	if err != nil {
		return false, err
	}
	line, err := readLine(again)
	return line.Confirmed, err
}
