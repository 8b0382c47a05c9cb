package redisstore

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fanonce/fanonce/server/store"
)

// age is the time from created to now, both in microseconds; 0 if one is missing or later than the other.
func age(now, created string) time.Duration {
	n, err1 := strconv.ParseFloat(now, 64)
	c, err2 := strconv.ParseFloat(created, 64)
	if err1 != nil || err2 != nil || c > n {
		return 0
	}
	return time.Duration(n-c) * time.Microsecond
}

// Stats implements [store.Store]. It asks every bucket for six numbers, and reads no record. Bytes is always 0: INFO
// memory has the size of the server. AsyncStandbys is the number of connected replicas beyond [Config].Replicas, of
// all primaries.
func (s *Store) Stats(ctx context.Context) (store.Stats, error) {
	replies, err := s.everywhere(ctx, statsScript, func(b *bucket) []string {
		return []string{b.active, b.unknown, b.quarantined, b.final, b.released, b.cancelled}
	})
	if err != nil {
		return store.Stats{}, err
	}
	st := store.Stats{ByState: make(map[store.State]int64)}
	for _, l := range replies {
		released, cancelled := integer(l, 4), integer(l, 5)
		for state, n := range map[store.State]int64{
			store.StateInProgress: integer(l, 0), store.StateUnknown: integer(l, 1), store.StateQuarantined: integer(l, 2),
			store.StateCompleted: integer(l, 3) - released - cancelled, store.StateReleased: released, store.StateCancelled: cancelled,
		} {
			st.ByState[state] += n
		}
		st.OldestInProgress = max(st.OldestInProgress, age(text(l, 6), text(l, 7)))
	}
	_ = s.nodes.each(ctx, func(client *redis.Client) error { // a server may hide it
		info, err := client.Info(ctx, "replication").Result()
		n, _ := strconv.Atoi(infoField(info, "connected_slaves"))
		st.AsyncStandbys += max(0, n-s.cfg.Replicas)
		return err
	})
	return st, nil
}

// infoField returns a field of the text of INFO; empty if it is not there.
func infoField(info, name string) string {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
