//go:build partman

// pg_partman is an extension that few servers have: bash .ci/partman gets it.

package pgstore_test

import (
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server/pgstore"
)

// partmanParent hands the answers to pg_partman as DESIGN.md says, by days or by hours, and
// returns the number of its version.
func partmanParent(t *testing.T, look *pgxpool.Pool, interval time.Duration, premake int) (version int) {
	t.Helper()
	exec(t, look, "create schema partman")
	exec(t, look, "create extension pg_partman schema partman")
	version = queryRow[int](t, look, "select split_part(extversion, '.', 1)::int from pg_extension where extname = 'pg_partman'")
	if version >= 5 {
		exec(t, look, "select partman.create_parent('public.idempotency_answer', 'kept_until', $1, p_premake := $2, p_default_table := false)",
			map[time.Duration]string{24 * time.Hour: "1 day", time.Hour: "1 hour"}[interval], premake)
		return version
	}
	exec(t, look, "select partman.create_parent('public.idempotency_answer', 'kept_until', 'native', $1, p_premake := $2)",
		map[time.Duration]string{24 * time.Hour: "daily", time.Hour: "hourly"}[interval], premake)
	exec(t, look, "drop table idempotency_answer_default")
	return version
}

// runPartman is pg_partman's maintenance. A user calls it from a job or from pg_partman's worker.
func runPartman(t *testing.T, look *pgxpool.Pool) error {
	t.Helper()
	_, err := look.Exec(t.Context(), "select partman.run_maintenance('public.idempotency_answer')")
	return err
}

// If pg_partman's premake reaches beyond our partitions, both can maintain the same table at any time, and answers go
// to the right partition.
func TestPartman_beside(t *testing.T) {
	t.Parallel()
	for name, interval := range map[string]time.Duration{"days": 24 * time.Hour, "hours": time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, look := open(t, pgstore.Config{Answers: pgstore.AnswersPartitioned, PartitionInterval: interval})
			partmanParent(t, look, interval, 11)
			theirs := partitionNames(t, look)
			ahead := theirs[len(theirs)-11:] // before them are the present one and as many past ones
			for n := range 3 {
				before := partitionNames(t, look)
				require.NoError(t, s.MaintainPartitions(t.Context(), 6*interval))
				there := partitionNames(t, look)
				require.Subset(t, there, ahead, "none goes before its time")
				require.Subset(t, before, there, "we made none")
				require.NotContains(t, there, theirs[0], "and dropped what is past")
				require.NoError(t, runPartman(t, look))
				require.NoError(t, s.Settle(t.Context(), claim(t, s), completion))
				apart, inline := inPartitions(t, look)
				require.Equal(t, []int{n + 1, 0}, []int{apart, inline})
			}
		})
	}
}

// Our maintenance drops a partition of pg_partman's when its time is past. A table that pg_partman's own retention
// detached stays, because that retention keeps tables by default.
func TestPartman_past(t *testing.T) {
	t.Parallel()
	for name, interval := range map[string]time.Duration{"days": 24 * time.Hour, "hours": time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, look := open(t, pgstore.Config{Answers: pgstore.AnswersPartitioned, PartitionInterval: interval})
			partmanParent(t, look, interval, 11)
			before := partitionNames(t, look)
			past := func(intervals int) (name string) {
				at := time.Now().Add(-time.Duration(intervals) * interval)
				exec(t, look, "select partman.create_partition_time('public.idempotency_answer', array[$1::timestamptz])", at)
				for _, name := range partitionNames(t, look) {
					if !slices.Contains(before, name) {
						return name
					}
				}
				require.Fail(t, "it made none")
				return ""
			}

			detached := past(40)
			exec(t, look, "update partman.part_config set retention = $1, retention_keep_table = true", (30 * interval).String())
			require.NoError(t, runPartman(t, look))
			require.NotContains(t, partitionNames(t, look), detached)
			require.Equal(t, 1, countTables(t, look, detached), "it only detached it")
			attached := past(20)

			require.NoError(t, s.MaintainPartitions(t.Context(), 6*interval))
			require.Zero(t, countTables(t, look, attached))
			require.Equal(t, 1, countTables(t, look, detached))
			require.NoError(t, runPartman(t, look), "it does not miss them")
			require.NoError(t, s.Settle(t.Context(), claim(t, s), completion))
			apart, _ := inPartitions(t, look)
			require.Equal(t, 1, apart)
		})
	}
}

// Version 4 reads times from names, and by hours not from our names. So a user who changes to our maintenance stops
// pg_partman's. Version 5 treats our partitions as its own.
func TestPartman_oursBesideTheirs(t *testing.T) {
	t.Parallel()
	s, look := open(t, pgstore.Config{Answers: pgstore.AnswersPartitioned, PartitionInterval: time.Hour})
	version := partmanParent(t, look, time.Hour, 2)
	require.NoError(t, s.MaintainPartitions(t.Context(), 24*time.Hour))
	err := runPartman(t, look)
	if version >= 5 {
		require.NoError(t, err)
	} else {
		require.Error(t, err, "DESIGN.md says that it fails")
	}
	require.NoError(t, s.MaintainPartitions(t.Context(), 24*time.Hour), "ours goes on")
	require.NoError(t, s.Settle(t.Context(), claim(t, s), completion))
	apart, _ := inPartitions(t, look)
	require.Equal(t, 1, apart)
}
