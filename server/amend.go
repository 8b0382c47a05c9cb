package server

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"

	"github.com/fanonce/fanonce/childkey/wire"
)

// amend records the answer that the route gives for a refused COMMIT, as it records
// a handler's answer.
func (h *guarded) amend(ctx context.Context, w http.ResponseWriter, c *call, refused *TxError) (*recorder, result, error) {
	answer, err := h.route.OnCommitError(ctx, refused)
	if err != nil {
		if answer, err = problemResponse(err); err != nil {
			return nil, result{}, err
		}
	}
	rec := newRecorder(w, c.route, &h.guard.cfg)
	maps.Copy(rec.Header(), canonicalHeader(answer.Header))
	rec.WriteHeader(answer.Status)
	if len(answer.Body) > 0 {
		_, _ = rec.Write(answer.Body) // its error is in what finish returns
	}
	return rec, rec.finish(h.guard.headers, 0, h.redactor(c)), nil
}

// problemResponse is the answer of a typed handler that returned a [StatusError]. It
// returns err itself if that is none.
func problemResponse(err error) (Response, error) {
	var status *StatusError
	if !errors.As(err, &status) {
		return Response{}, err
	}
	p := problemOf(err)
	body, _ := json.Marshal(p) // strings and a number always encode
	return Response{Status: p.Status, Header: http.Header{"Content-Type": {wire.ProblemContentType}}, Body: body}, nil
}
