package main

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5/pgxpool" //nolint:depguard // a program that measures, and nobody's caller

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/pgjournal"
)

// stepsSaga has functions as its steps, and undos that never run.
var stepsSaga = saga.MustDefine("steps", 1, func(b *saga.Builder[int, int]) {
	first := saga.StepFunc(b, "callee.first", b.Input(), runStep).UndoFunc("callee.undo-first", undoStep)
	second := saga.StepFunc(b, "callee.second", first.Output(), runStep).UndoFunc("callee.undo-second", undoStep)
	third := saga.StepFunc(b, "callee.third", second.Output(), runStep)
	saga.Return(b, third.Output())
})

func runStep(_ context.Context, call saga.Call[int]) (int, error) { return increment(call.Input), nil }

func undoStep(context.Context, saga.UndoCall[int, int]) error { return errUndone }

var errUndone = errors.New("a step was undone, though none fails")

// sagas is an engine of package saga.
type sagas struct {
	journal    *pgjournal.Journal
	engine     *saga.Engine
	definition *saga.Definition[int, int]
}

func openSteps(ctx context.Context, config *pgxpool.Config) (engine, error) {
	return openSagas(ctx, config, stepsSaga)
}

func openSagas(ctx context.Context, config *pgxpool.Config, definition *saga.Definition[int, int]) (*sagas, error) {
	if err := migrate(ctx, config); err != nil {
		return nil, err
	}
	journal, err := pgjournal.Open(ctx, config, pgjournal.Config{})
	if err != nil {
		return nil, err
	}
	e, err := saga.Open(ctx, journal, saga.Config{Definitions: []saga.AnyDefinition{definition}})
	if err != nil {
		journal.Close()
		return nil, err
	}
	return &sagas{journal, e, definition}, nil
}

func migrate(ctx context.Context, config *pgxpool.Config) error {
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return err
	}
	defer pool.Close()
	return pgjournal.Migrate(ctx, pool, "")
}

func (s *sagas) run(ctx context.Context, in int) (int, error) {
	key, err := childkey.New()
	if err != nil {
		return 0, err
	}
	return s.runAs(ctx, key, in)
}

func (s *sagas) runAs(ctx context.Context, key childkey.Key, in int) (int, error) {
	return s.definition.Run(ctx, s.engine, key, in)
}

func (s *sagas) close(ctx context.Context) error {
	err := s.engine.Close(ctx)
	s.journal.Close()
	return err
}
