package natsstore_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server/natsstore"
	"github.com/fanonce/fanonce/server/natsstore/natstest"
	"github.com/fanonce/fanonce/server/store"
)

// A process dies after each of the writes of a move that crosses keys. Another process then finds either the whole move
// or none of it, and the move can be made again.
func TestCrashBetweenWrites(t *testing.T) {
	t.Parallel()
	conn := natstest.Start(t, natstest.Config{}).Connect(t)
	for _, move := range []struct {
		name   string
		writes int // of the whole move
		put    func(*testing.T, *natsstore.Store) store.Record
		call   func(*testing.T, *natsstore.Store, store.Record) error
		check  func(t *testing.T, s *natsstore.Store, r store.Record, made bool)
	}{
		{"Settle to unknown: mark, record", 2, func(t *testing.T, s *natsstore.Store) store.Record { return claimed(t, s, false) },
			func(t *testing.T, s *natsstore.Store, r store.Record) error {
				return s.Settle(t.Context(), owner(r), giveUp)
			},
			func(t *testing.T, s *natsstore.Store, r store.Record, made bool) { wantUnknown(t, s, r, made) }},
		{"Resolve: announced line, record, confirmed line", 3, stuckKey,
			func(t *testing.T, s *natsstore.Store, r store.Record) error {
				_, _, err := s.Resolve(t.Context(), store.ResolveRequest{ID: r.ID, From: r.Fence, To: store.StateReleased, Token: random16(), By: ann})
				return err
			},
			func(t *testing.T, s *natsstore.Store, r store.Record, made bool) {
				wantUnknown(t, s, r, !made)
				wantLines(t, s, r, made)
			}},
		{"Forget: announced line, deletion, confirmed line", 3, stuckKey,
			func(t *testing.T, s *natsstore.Store, r store.Record) error {
				_, _, err := s.Forget(t.Context(), r.ID, r.Fence, ann)
				return err
			},
			func(t *testing.T, s *natsstore.Store, r store.Record, made bool) { wantLines(t, s, r, made) }},
		{"Settle with a large answer: two parts, record", 3, func(t *testing.T, s *natsstore.Store) store.Record { return claimed(t, s, false) },
			func(t *testing.T, s *natsstore.Store, r store.Record) error {
				end := done
				end.Answer.Envelope = make([]byte, 3<<19)
				return s.Settle(t.Context(), owner(r), end)
			},
			func(t *testing.T, s *natsstore.Store, r store.Record, made bool) {
				got, err := s.Read(t.Context(), r.ID)
				require.NoError(t, err)
				require.Equal(t, made, len(got.Answer.Envelope) == 3<<19)
			}},
	} {
		for n := range move.writes + 1 {
			t.Run(fmt.Sprintf("%s; dies after %d", move.name, n), func(t *testing.T) {
				t.Parallel()
				s := newStore(t, conn, 1)
				other := reopen(t, s, conn)
				r := move.put(t, s)
				natsstore.DieAfter(s, n)
				made := n >= recordWrite(move.writes, move.name)
				err := move.call(t, s, r)
				if !made {
					require.ErrorIs(t, err, natsstore.ErrDied)
				}
				move.check(t, other, r, made)
				move.check(t, other, r, made) // the first look has removed or confirmed what it could
				if made {
					return
				}
				require.NoError(t, move.call(t, other, r))
				move.check(t, other, r, true)
			})
		}
	}
}

// recordWrite is the number of writes after which the move is made.
func recordWrite(writes int, name string) int {
	if name[0] == 'S' { // Settle ends with the record
		return writes
	}
	return writes - 1
}

func stuckKey(t *testing.T, s *natsstore.Store) store.Record {
	r := claimed(t, s, false)
	require.NoError(t, s.Settle(t.Context(), owner(r), giveUp))
	return r
}

func wantUnknown(t *testing.T, s *natsstore.Store, r store.Record, unknown bool) {
	t.Helper()
	a, err := s.Attention(t.Context())
	require.NoError(t, err)
	list, err := s.List(t.Context(), store.ListRequest{States: []store.State{store.StateUnknown}, Limit: 10})
	require.NoError(t, err)
	if !unknown {
		require.Zero(t, a.Unknown)
		require.Empty(t, list)
		return
	}
	require.EqualValues(t, 1, a.Unknown)
	require.Len(t, list, 1)
	require.Equal(t, r.ID, list[0].ID)
}

func wantLines(t *testing.T, s *natsstore.Store, r store.Record, some bool) {
	t.Helper()
	for _, id := range []store.ID{r.ID, {}} {
		lines, err := s.AuditLog(t.Context(), id, 10)
		require.NoError(t, err)
		require.Equal(t, some, len(lines) == 1, "lines: %v", lines)
		if some {
			require.Equal(t, ann, lines[0].Audit)
		}
	}
}

// A line whose confirmation was lost with its process is confirmed by the next writer, also one that overwrites the
// evidence.
func TestCrash_evidenceOutlivesTheNextWriter(t *testing.T) {
	t.Parallel()
	conn := natstest.Start(t, natstest.Config{}).Connect(t)
	s := newStore(t, conn, 1)
	other := reopen(t, s, conn)
	for _, forget := range []bool{false, true} {
		r := stuckKey(t, s)
		natsstore.DieAfter(s, 2)
		if forget {
			_, _, err := s.Forget(t.Context(), r.ID, r.Fence, ann)
			require.NoError(t, err)
			_, won, err := other.Claim(t.Context(), request(r.ID))
			require.NoError(t, err)
			require.True(t, won)
		} else {
			_, _, err := s.Resolve(t.Context(), store.ResolveRequest{ID: r.ID, From: r.Fence, To: store.StateReleased, Token: random16(), By: ann})
			require.NoError(t, err)
			_, won, err := other.TakeOver(t.Context(), request(r.ID), r.Fence+1)
			require.NoError(t, err)
			require.True(t, won)
		}
		lines, err := other.AuditLog(t.Context(), r.ID, 10)
		require.NoError(t, err)
		require.Len(t, lines, 1)
		natsstore.DieAfter(s, 1<<30)
	}
}

// The mark of a write that is still to come is not removed, and the mark of one that cannot come any more is.
func TestMarks(t *testing.T) {
	t.Parallel()
	conn := natstest.Start(t, natstest.Config{}).Connect(t)
	s := newStore(t, conn, 1)
	other := reopen(t, s, conn)
	r := claimed(t, s, false)
	require.NoError(t, natsstore.Mark(t.Context(), s, r))
	wantUnknown(t, other, r, false)
	n, err := natsstore.Marks(t.Context(), s)
	require.NoError(t, err)
	require.Equal(t, 1, n, "the mark of a write that may still come is gone")
	require.NoError(t, s.Settle(t.Context(), owner(r), giveUp))
	wantUnknown(t, other, r, true)

	late := claimed(t, s, false)
	require.NoError(t, natsstore.Mark(t.Context(), s, late))
	require.NoError(t, s.Settle(t.Context(), owner(late), done))
	wantUnknown(t, other, r, true)
	n, err = natsstore.Marks(t.Context(), s)
	require.NoError(t, err)
	require.Equal(t, 1, n, "the mark of a write that cannot come any more stays")
}

// Answers to writes are lost. Each call still learns the fate of its own write.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	conn := natstest.Start(t, natstest.Config{}).Connect(t)
	s := newStore(t, conn, 1)
	for _, lost := range []int{1, 2, 3} {
		natsstore.LoseAnswers(s, lost)
		req := request(random16())
		r, won, err := s.Claim(t.Context(), req)
		require.NoError(t, err)
		require.True(t, won, "a claim that was won is reported as lost")
		require.Equal(t, req.Token, r.Token)

		natsstore.LoseAnswers(s, lost)
		got, err := s.Renew(t.Context(), []store.Owner{owner(r)}, 2*time.Hour)
		require.NoError(t, err)
		require.Len(t, got.Renewed, 1)

		natsstore.LoseAnswers(s, lost)
		require.NoError(t, s.Settle(t.Context(), owner(r), giveUp))

		natsstore.LoseAnswers(s, lost)
		won, err = s.Defer(t.Context(), r.ID, r.Fence, time.Hour)
		require.NoError(t, err)
		require.True(t, won)

		natsstore.LoseAnswers(s, lost+2)
		_, ok, err := s.Forget(t.Context(), r.ID, r.Fence, ann)
		require.NoError(t, err)
		require.True(t, ok)
		lines, err := s.AuditLog(t.Context(), r.ID, 10)
		require.NoError(t, err)
		require.Len(t, lines, 1)
	}
}
