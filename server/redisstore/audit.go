package redisstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fanonce/fanonce/server/store"
)

// auditPage is how many lines of a bucket's audit log one command reads in search of those of one key.
const auditPage = 1000

// auditLog returns at most limit entries, the youngest first. The log of a key is in its bucket; the log of all keys, for
// the zero ID, asks every bucket.
func (s *Store) auditLog(ctx context.Context, id store.ID, limit int) ([]store.AuditEntry, error) {
	if err := cmp.Or(store.CheckLimit(limit), ctx.Err()); err != nil {
		return nil, err
	}
	if (id != store.ID{}) {
		return s.auditOf(ctx, s.bucketOf(id), id, limit)
	}
	pipe := s.client.Pipeline()
	replies := make([]*redis.XMessageSliceCmd, buckets)
	for i := range s.buckets {
		replies[i] = pipe.XRevRangeN(ctx, s.buckets[i].audit, "+", "-", int64(limit))
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, refusal("audit log", err)
	}
	var found []store.AuditEntry
	for _, reply := range replies {
		entries, err := auditEntries(reply.Val())
		if err != nil {
			return nil, err
		}
		found = append(found, entries...)
	}
	slices.SortStableFunc(found, func(a, b store.AuditEntry) int { return b.At.Compare(a.At) })
	return found[:min(len(found), limit)], nil
}

// auditOf reads the bucket's log from the youngest line until it has enough lines of the key.
func (s *Store) auditOf(ctx context.Context, b *bucket, id store.ID, limit int) ([]store.AuditEntry, error) {
	var found []store.AuditEntry
	for last := "+"; ; {
		page, err := s.client.XRevRangeN(ctx, b.audit, last, "-", auditPage).Result()
		if err != nil {
			return nil, refusal("audit log", err)
		}
		entries, err := auditEntries(page)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if e.ID == id && len(found) < limit {
				found = append(found, e)
			}
		}
		if len(page) < auditPage || len(found) == limit {
			return found, nil
		}
		last = "(" + page[len(page)-1].ID
	}
}

func auditEntries(lines []redis.XMessage) ([]store.AuditEntry, error) {
	entries := make([]store.AuditEntry, 0, len(lines))
	for _, line := range lines {
		field := func(name string) string {
			s, _ := line.Values[name].(string)
			return s
		}
		at, err := strconv.ParseInt(field("at"), 10, 64)
		if err != nil || len(field("id")) != len(store.ID{}) {
			return nil, fmt.Errorf("redisstore: line %s of the audit log: %w", line.ID, store.ErrRecordUnreadable)
		}
		from, _ := strconv.Atoi(field("from"))
		to, _ := strconv.Atoi(field("to"))
		fence, _ := strconv.ParseInt(field("fence"), 10, 64)
		entries = append(entries, store.AuditEntry{
			At: time.UnixMicro(at).UTC(), ID: store.ID([]byte(field("id"))),
			Audit: store.Audit{Verb: store.Verb(field("verb")), Actor: field("actor"), Reason: field("reason")},
			From:  store.State(from), To: store.State(to), Fence: fence,
		})
	}
	return entries, nil
}

// PruneAudit deletes the lines of the audit log that are older than age, by the servers' clocks, and returns how many
// it deleted, also with an error. Nothing else deletes them. It returns an error wrapping [ErrArgument] if age is not
// positive.
func (s *Store) PruneAudit(ctx context.Context, age time.Duration) (int, error) {
	if age <= 0 || age > store.MaxRetention {
		return 0, fmt.Errorf("%w: age %v", ErrArgument, age)
	}
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	now, err := s.client.Time(ctx).Result()
	if err != nil {
		return 0, refusal("prune audit log", err)
	}
	oldest := strconv.FormatInt(now.Add(-age).UnixMilli(), 10)
	total := 0
	for i := range s.buckets {
		n, err := s.client.XTrimMinID(ctx, s.buckets[i].audit, oldest).Result()
		total += int(n)
		if err != nil {
			return total, refusal("prune audit log", err)
		}
	}
	return total, nil
}
