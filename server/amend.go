package server

import (
	"context"
	"errors"
	"maps"
	"net/http"
)

// amend records the answer that the route gives for a refused COMMIT, as it records
// a handler's answer.
func (h *guarded) amend(ctx context.Context, w http.ResponseWriter, r *http.Request, c *call, refused *TxError) (*recorder, result, error) {
	answer, err := h.route.OnCommitError(ctx, refused)
	if err != nil {
		if !errors.As(err, new(*StatusError)) {
			return nil, result{}, err
		}
		answer = h.guard.renderedFailure(r, c, problemOf(err))
	}
	rec := newRecorder(w, c.route, &h.guard.cfg)
	maps.Copy(rec.Header(), canonicalHeader(answer.Header))
	rec.WriteHeader(answer.Status)
	if len(answer.Body) > 0 {
		_, _ = rec.Write(answer.Body) // its error is in what finish returns
	}
	return rec, rec.finish(h.guard.headers, 0, h.redactor(c)), nil
}
