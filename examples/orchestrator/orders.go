package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fanonce/fanonce/examples/internal/hosting"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
)

// createOrders makes the table of paid orders, where it is missing.
func createOrders(ctx context.Context, pool *pgxpool.Pool, _ string) error {
	_, err := pool.Exec(ctx, `do $$ begin
		perform pg_advisory_xact_lock(hashtext('orchestrator orders'));
		create table if not exists paid_orders (tenant text not null, saga text not null, approved_by text not null);
	end $$`)
	return err
}

// startOrder begins the saga of an order. The customer has ten minutes to change their mind, unless the order says otherwise.
func (s *service) startOrder(w http.ResponseWriter, r *http.Request) {
	in := orderInput{CoolOff: 600_000}
	key, tenant, err := readStart(r, &in)
	if err == nil {
		err = in.check()
	}
	if err != nil {
		hosting.WriteError(w, err)
		return
	}
	in.Tenant, in.Saga = tenant, key.String()
	_, err = s.orders.Start(r.Context(), s.sagas, key, in, saga.Scope(tenant))
	answerStart(w, key, err)
}

func (o *orderInput) check() error {
	switch {
	case len(o.Lines) == 0:
		return fmt.Errorf("%w: an order has lines", hosting.ErrBadInput)
	case o.CoolOff < 0:
		return fmt.Errorf("%w: cool_off_ms is negative", hosting.ErrBadInput)
	}
	return nil
}

// decideOrder passes on what a person decided. The order may not have come so far yet, or not even be there.
func (s *service) decideOrder(w http.ResponseWriter, r *http.Request) {
	var in decision
	id, err := addressOf(r, s.orders.Name())
	if err == nil {
		err = hosting.ReadJSON(r, &in)
	}
	if err != nil {
		hosting.WriteError(w, err)
		return
	}
	err = decided.Send(r.Context(), s.sagas, id, in)
	switch {
	case errors.Is(err, saga.ErrTooLate), errors.Is(err, saga.ErrSignalReused):
		hosting.WriteJSON(w, http.StatusConflict, map[string]string{"error": err.Error()})
	case err != nil:
		slog.Warn("decision not sent", "error", err)
		w.Header().Set("Retry-After", "1")
		hosting.WriteJSON(w, http.StatusServiceUnavailable, map[string]string{"error": "not sent"})
	default:
		hosting.WriteJSON(w, http.StatusOK, in)
	}
}

// An orderView is the answer to GET /v1/orders/{key}.
type orderView struct {
	Status string            `json:"status"`
	Steps  map[string]string `json:"steps"`
}

func (s *service) showOrder(w http.ResponseWriter, r *http.Request) {
	s.show(w, r, s.orders.Name(), func(record journal.Record) (any, error) {
		view := orderView{Status: record.Status.String(), Steps: map[string]string{}}
		states, err := s.orders.Progress(record)
		for _, state := range states {
			view.Steps[state.Name] = state.Status.String()
		}
		return view, err
	})
}
