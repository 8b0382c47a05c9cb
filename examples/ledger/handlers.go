package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/examples/internal/hosting"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgstore"
)

// effect writes its row in the run's own transaction: row and answer commit
// together or not at all. The answer needs nothing from the statement, so the
// statement is queued, and goes with them in one round trip.
func (s *service) effect(w http.ResponseWriter, r *http.Request) {
	s.write(w, r, inboundKey(r), 0, queue{})
}

// A queue sends statements with COMMIT.
type queue struct{}

func (queue) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	return pgconn.CommandTag{}, pgstore.Queue(ctx, sql, args...)
}

// effectOpaque writes its row on a connection of its own, as work does that
// the store's transaction cannot hold. The row has the run's fence: nothing else
// shows which of two owners wrote it.
func (s *service) effectOpaque(w http.ResponseWriter, r *http.Request) {
	s.write(w, r, inboundKey(r), server.Fence(r.Context()), s.database.Pool)
}

func (s *service) write(w http.ResponseWriter, r *http.Request, key childkey.Key, fence int64, db execer) {
	in, ok := s.accept(w, r)
	if !ok {
		return
	}
	e, err := newEffect(r, key, s.cfg.service, in)
	if err == nil {
		e.Fence = fence
		err = e.insert(r.Context(), db)
	}
	writeEffect(w, e, err)
}

func writeEffect(w http.ResponseWriter, e effect, err error) {
	if err != nil {
		slog.Warn("effect not written", "error", err)
		hosting.WriteError(w, err)
		return
	}
	hosting.WriteJSON(w, http.StatusCreated, e.answer())
}

// capture has a second effect on top of the one in the path, as long as that one stands: a payment is authorized first
// and captured later. Its key is its own.
func (s *service) capture(w http.ResponseWriter, r *http.Request) {
	in, ok := s.accept(w, r)
	if !ok {
		return
	}
	e, err := newEffect(r, inboundKey(r), s.cfg.service, in)
	if err == nil {
		e.Kind = kindCapture
		err = e.insertUpon(r.Context(), pgstore.Tx(r.Context()), r.PathValue("id"))
	}
	if errors.Is(err, errNoEffect) {
		hosting.WriteJSON(w, http.StatusConflict, map[string]string{"error": err.Error()})
		return
	}
	writeEffect(w, e, err)
}

// undo takes back what the forward key did. The barrier says whether that key
// ran, and keeps it from running once it has been undone.
func (s *service) undo(w http.ResponseWriter, r *http.Request) {
	in, err := readUndo(r)
	if err != nil {
		hosting.WriteError(w, err)
		return
	}
	e, undone, err := s.takeBack(r, in)
	if err != nil {
		slog.Warn("undo failed", "error", err)
		hosting.WriteError(w, err)
		return
	}
	hosting.WriteJSON(w, http.StatusOK, undoAnswer{e.answer(), undone})
}

// An undoAnswer's EffectID is the undo's own, and empty if there was nothing
// to undo.
type undoAnswer struct {
	answer
	Undone bool `json:"undone"`
}

func (s *service) takeBack(r *http.Request, in input) (e effect, undone bool, err error) {
	ctx := r.Context()
	forward, ok := server.InboundForwardKey(ctx)
	if !ok {
		return effect{}, false, fmt.Errorf("%w: no Idempotency-Cancels header", hosting.ErrBadInput)
	}
	fate, err := server.Barrier(ctx)
	if err != nil {
		return effect{}, false, err
	}
	if e, err = newEffect(r, forward, s.cfg.service, in); err != nil {
		return effect{}, false, err
	}
	e.Kind = kindUndo
	tx := pgstore.Tx(ctx)
	if fate != server.NeverRan {
		undone, err = undoable(ctx, tx, e.Tenant, forward)
	}
	if err != nil || !undone {
		e.ID = ""
		return e, false, err
	}
	return e, true, e.insert(ctx, tx)
}

// receive reads the body of a forward call, and works as long as handlers do here.
func (s *service) receive(r *http.Request) (input, error) {
	in, err := readForward(r)
	if err == nil {
		err = work(r.Context(), s.cfg.work)
	}
	return in, err
}

// accept is receive, and does what the caller asked for instead of an effect. Without ok the answer is written.
func (s *service) accept(w http.ResponseWriter, r *http.Request) (in input, ok bool) {
	in, err := s.receive(r)
	switch {
	case err != nil:
		hosting.WriteError(w, err)
	case in.Reject:
		hosting.WriteJSON(w, http.StatusPaymentRequired, map[string]string{"error": "rejected as asked"})
	case in.Fail:
		hosting.WriteJSON(w, http.StatusInternalServerError, map[string]string{"error": "failed as asked"})
	default:
		return in, true
	}
	return in, false
}

// work stands for whatever a real handler does.
func work(ctx context.Context, d time.Duration) error {
	if d == 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
