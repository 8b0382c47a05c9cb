package natsstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fanonce/fanonce/server/store"
)

// A verdict is what a move decides about the entry that it sees.
type verdict uint8

const (
	keepIt   verdict = iota // nothing is written
	writeIt                 // the entry, as the move has changed it
	deleteIt                // the record goes
)

// A move decides what becomes of a key's entry. It may see a stale entry: a write then fails and the move sees a newer
// one. A move without a write is final only if a stale entry cannot make it wrong: see DESIGN.md.
type move func(e *entry, now time.Time) (verdict, error)

// A change is the result of [Store.change].
type change struct {
	before entry
	after  entry // equal to before if nothing was written
	did    verdict
	now    time.Time
}

// change lets m act on the key's entry, until a compare-and-set accepts the result or m leaves the entry as it is.
// known may be the entry that this process wrote last; nil: it is read.
func (s *Store) change(ctx context.Context, id store.ID, known *entry, by *store.Audit, m move) (change, error) {
	ctx, cancel := context.WithTimeout(ctx, s.stream.timeout)
	defer cancel()
	if err := ctx.Err(); err != nil {
		return change{}, err
	}
	t := &transition{store: s, id: id, move: m, by: by}
	for n := 0; ; n++ {
		c, done, err := t.attempt(ctx, known)
		if done || err != nil {
			return c, t.uncertain(err)
		}
		known = nil
		if err := pause(ctx, n); err != nil {
			return change{}, t.uncertain(err)
		}
	}
}

// A transition is one call of [Store.change].
type transition struct {
	store *Store
	id    store.ID
	move  move
	by    *store.Audit
	data  []byte // the message of the attempt
	sent  bool   // some write may be stored, or may still be stored
}

// uncertain adds to an error that a write of the transition may have been stored.
func (t *transition) uncertain(err error) error {
	if err == nil || !t.sent || errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrLeaseLost) {
		return err
	}
	return fmt.Errorf("%w: natsstore: %w", store.ErrFateUnknown, err)
}

// attempt makes one compare-and-set. done is false if it lost: another attempt sees a newer entry.
func (t *transition) attempt(ctx context.Context, known *entry) (c change, done bool, err error) {
	s := t.store
	if known != nil {
		c.before = *known
	} else if c.before, err = s.read(ctx, t.id); err != nil {
		return c, false, err
	}
	c.now = s.now()
	c.after = c.before
	c.did, err = t.move(&c.after, c.now)
	if err != nil || c.did == keepIt {
		return c, true, err
	}
	if err := t.prepare(ctx, &c); err != nil {
		return c, false, err
	}
	done, err = t.put(ctx, &c)
	if done {
		t.finish(ctx, &c)
	}
	return c, done, err
}

// prepare makes the writes that come before the record's: a crash after them leaves nothing wrong.
func (t *transition) prepare(ctx context.Context, c *change) (err error) {
	s, after := t.store, &c.after
	if c.before.audit != "" { // its evidence goes with the entry
		if err := s.confirm(ctx, t.id, c.before.audit); err != nil {
			return err
		}
	}
	after.nonce, after.prev, after.audit = newNonce(), c.before.nonce, ""
	after.deleted = c.did == deleteIt
	if t.by != nil {
		after.audit = after.nonce
		if err := s.announce(ctx, c, *t.by); err != nil {
			return err
		}
	}
	if after.present().needsPerson() && !c.before.needsPerson() {
		if err := s.mark(ctx, t.id, c.before.rev); err != nil {
			return err
		}
	}
	t.data, err = s.split(ctx, after, c.now)
	return err
}

// put sends the write until its fate is known. It returns true if the write is stored.
func (t *transition) put(ctx context.Context, c *change) (bool, error) {
	s, after := t.store, &c.after
	w := write{subject: s.stream.bucket.of(keySpace, t.id), expect: c.before.rev, data: t.data, deleted: after.deleted, ttl: after.ttl(c.now)}
	for n := 0; ; n++ {
		rev, f, err := s.stream.publish(ctx, w)
		switch f {
		case taken:
			after.rev = rev
			return true, nil
		case refused:
			return false, err
		case outpaced:
			return t.ours(ctx, after)
		default:
			t.sent = true // the repetition has the same condition: at most one of the two is stored
		}
		if waitErr := pause(ctx, n); waitErr != nil {
			return false, fmt.Errorf("%w (last attempt: %w)", waitErr, err)
		}
	}
}

// ours reports, after a lost compare-and-set, that an earlier attempt of the same write had won it.
func (t *transition) ours(ctx context.Context, after *entry) (bool, error) {
	if !t.sent {
		return false, nil
	}
	now, err := t.store.read(ctx, t.id)
	switch {
	case err != nil:
		return false, err
	case now.nonce == after.nonce:
		after.rev = now.rev
		return true, nil
	default:
		// If it was stored, and another write followed at once, that one names it.
		return now.prev == after.nonce, nil
	}
}

// finish makes the writes that come after the record's. If they fail, a later call makes them.
func (t *transition) finish(ctx context.Context, c *change) {
	s := t.store
	if t.by != nil {
		if err := s.confirm(ctx, t.id, c.after.audit); err != nil {
			s.log.WarnContext(ctx, "natsstore: an audit entry stays unconfirmed for now", "id", t.id, "error", err)
		}
	}
	if c.before.ref != "" && (c.after.deleted || c.after.ref != c.before.ref) {
		if err := s.stream.purge(ctx, s.stream.bucket.of(partSpace, t.id, c.before.ref, ">")); err != nil {
			s.log.WarnContext(ctx, "natsstore: parts of an answer stay until they expire", "id", t.id, "error", err)
		}
	}
}

const (
	// sweepGrace is how long after its retention a record stays for the sweep. Then the server deletes it.
	sweepGrace = 24 * time.Hour
	// deletedTTL is how long the message stays that deletes a record.
	deletedTTL = 10 * time.Minute
	// longestTTL keeps the server's times within 64 bits of nanoseconds. A record that is kept longer has no TTL.
	longestTTL = 100 * 365 * 24 * time.Hour
)

// ttl returns after which time the server may delete the entry's message; 0 means never. A deletion with an unconfirmed
// audit entry is the evidence for that entry, and stays.
func (e *entry) ttl(now time.Time) time.Duration {
	if e.deleted {
		if e.audit != "" {
			return 0
		}
		return deletedTTL
	}
	end := e.sweepAfter()
	if end.IsZero() || end.Sub(now) > longestTTL {
		return 0
	}
	return max(end.Sub(now), 0) + sweepGrace
}
