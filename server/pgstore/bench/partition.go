package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fanonce/fanonce/internal/benchkit"
	"github.com/fanonce/fanonce/server/pgstore"
)

var partition = bench{
	name: "partition", title: "dropping a partition of answers",
	conditions: "One day's answers of 200 bytes, all past their time, dropped by Store.MaintainPartitions, which also looks whether there are partitions for the days to come.",
	measure:    measurePartition,
}

// keptAnswers is how long answers are kept, for which partitions are made.
const keptAnswers = 7 * 24 * time.Hour

func measurePartition(ctx context.Context, l *lab, e effort) (_ []figure, err error) {
	on, err := l.postgres(ctx)
	if err != nil {
		return nil, err
	}
	s, err := openStore(ctx, on, pgstore.Config{Answers: pgstore.AnswersPartitioned})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if err := s.MaintainPartitions(ctx, keptAnswers); err != nil {
		return nil, err
	}
	few := e.partitionRows * 15 / 100 // as many as the prototype dropped, of a million
	var took, tookFew, idle []float64
	for range e.rounds {
		for _, drop := range []struct {
			rows  int
			times *[]float64
		}{{e.partitionRows, &took}, {few, &tookFew}} {
			if err := s.expiredPartition(ctx, drop.rows); err != nil {
				return nil, err
			}
			if err := s.maintain(ctx, drop.times); err != nil {
				return nil, err
			}
			if err := s.holds(ctx, 0, "select count(*) from pg_class where relname = '"+expiredName+"'"); err != nil {
				return nil, err
			}
		}
		if err := s.maintain(ctx, &idle); err != nil {
			return nil, err
		}
	}
	return []figure{{Name: "partition", Prototype: "0.06 s for 150,000", Measures: []measure{
		spreadOf(took).Measure(fmt.Sprintf("dropping %d answers", e.partitionRows), "s", benchkit.AtMost(0.1)),
		spreadOf(tookFew).Measure(fmt.Sprintf("dropping %d", few), "s", nil),
		spreadOf(idle).Measure("with nothing to drop", "s", nil),
	}}}, nil
}

// maintain adds how long the maintenance of partitions takes.
func (k *keyStore) maintain(ctx context.Context, times *[]float64) error {
	start := time.Now()
	err := k.MaintainPartitions(ctx, keptAnswers)
	*times = append(*times, time.Since(start).Seconds())
	return err
}

const expiredName = "idempotency_answer_p20200101"

// expiredPartition makes a partition of the past.
func (k *keyStore) expiredPartition(ctx context.Context, rows int) error {
	for _, statement := range []string{
		"create table " + expiredName + " partition of idempotency_answer for values from ('2020-01-01 00:00Z') to ('2020-01-02 00:00Z')",
		fmt.Sprintf(`insert into idempotency_answer (kept_until, key, envelope)
			select '2020-01-01 12:00Z', gen_random_uuid(), decode(repeat('17', 200), 'hex') from generate_series(1, %d)`, rows),
		"vacuum analyze " + expiredName,
		"checkpoint",
	} {
		if err := script(statement)(ctx, k.look); err != nil {
			return err
		}
	}
	return nil
}
