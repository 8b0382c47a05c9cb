package main

import (
	"context"
	"fmt"

	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/saga/pgjournal"
	"github.com/fanonce/fanonce/server/pgstore"
)

func checkAttention(ctx context.Context, p *patient) ([]finding, error) {
	if !p.has("keys") {
		return nil, nil
	}
	s, err := pgstore.New(p.db, pgstore.Config{Schema: p.schema})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	at, err := s.Attention(ctx)
	if err != nil || at.Unknown+at.Quarantined+at.DeadLetters == 0 {
		return nil, err
	}
	return []finding{found("keys-attention", "", fmt.Sprintf("%d keys are unknown, %d are quarantined, %d are dead letters; the oldest is %s old",
		at.Unknown, at.Quarantined, at.DeadLetters, ago(at.Oldest)), "fanonce keys list; then fanonce keys resolve --as … --reason … ID")}, nil
}

func checkSagas(ctx context.Context, p *patient) ([]finding, error) {
	if !p.has("sagas") {
		return nil, nil
	}
	j, err := pgjournal.New(p.db, pgjournal.Config{Schema: p.schema})
	if err != nil {
		return nil, err
	}
	defer j.Close()
	s, err := j.Stats(ctx)
	if err != nil {
		return nil, err
	}
	var out []finding
	if n := s.ByStatus[journal.Stuck]; n > 0 {
		out = append(out, found("sagas-stuck", "", counted(n)+" sagas are stuck", "fanonce saga list; then fanonce saga retry --reason … ID, or another verb"))
	}
	if s.Deferred > 0 {
		out = append(out, found("sagas-deferred", "", counted(s.Deferred)+" sagas are deferred", "deploy the build that started them, or the newest"))
	}
	if s.Unowned > 0 {
		var engines int
		err = p.db.QueryRow(ctx, "select count(*) from "+qualified(p.schema, "saga_engine")+
			" where lease_until >= clock_timestamp() and not has_left").Scan(&engines)
		if err == nil && engines == 0 {
			out = append(out, found("sagas-no-engine", "", counted(s.Unowned)+" sagas are due, and no engine has a lease",
				"start a service that calls saga.Open with the definitions of these sagas"))
		}
	}
	return out, err
}
