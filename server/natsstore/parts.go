package natsstore

import (
	"context"
	"time"
)

// A message holds an answer up to the server's max_payload. A larger answer is in parts, which are written before the
// record names them. Parts never change: their name has the nonce of the write that made them.

const (
	headroom     = 4 << 10 // for the protocol and the headers of a message
	joinAttempts = 5
)

// split returns the entry's message. It writes the parts of an answer that is too large for it.
func (s *Store) split(ctx context.Context, e *entry, now time.Time) ([]byte, error) {
	meta, err := encode(e)
	if err != nil {
		return nil, err
	}
	if len(meta)+headroom > s.limit {
		return nil, argument("a record of %d bytes without its answer; the server takes messages of %d", len(meta), s.limit)
	}
	if e.ref != "" || e.deleted {
		return meta, nil
	}
	if len(meta)+len(e.Answer.Envelope)+headroom <= s.limit {
		return append(meta, e.Answer.Envelope...), nil
	}
	e.ref, e.parts = e.nonce, 0
	for rest := e.Answer.Envelope; len(rest) > 0; e.parts++ {
		n := min(len(rest), s.limit-headroom)
		ttl := e.ttl(now)
		if ttl > 0 {
			ttl += sweepGrace // the record goes first
		}
		w := write{subject: s.stream.bucket.part(e.ID, e.ref, e.parts), data: rest[:n], ttl: ttl}
		if err := s.insist(ctx, w); err != nil {
			return nil, err
		}
		rest = rest[n:]
	}
	return encode(e)
}

// insist stores a message of a subject that no other write uses.
func (s *Store) insist(ctx context.Context, w write) error {
	return s.stream.persist(ctx, func(ctx context.Context) (bool, error) {
		_, f, err := s.stream.publish(ctx, w)
		if f == outpaced { // by an earlier attempt
			return false, nil
		}
		return f == unknown, err
	})
}

// join reads the parts of the answer. It returns false if one is missing, because the record has moved on.
func (s *Store) join(ctx context.Context, e *entry) (bool, error) {
	if e.ref == "" || e.Answer.Envelope == nil {
		return true, nil
	}
	var envelope []byte
	for n := range e.parts {
		m, err := s.stream.last(ctx, s.stream.bucket.part(e.ID, e.ref, n))
		if err != nil {
			return false, err
		}
		if m.rev == 0 {
			return false, nil
		}
		envelope = append(envelope, m.data...)
	}
	e.Answer.Envelope = envelope
	return true, nil
}
