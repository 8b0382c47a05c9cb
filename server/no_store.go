package server

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/fanonce/fanonce/childkey/wire"
)

// MaxReferenceBytes is the length of the longest reference for [NoStore].
const MaxReferenceBytes = 1024

// NoStore keeps the answer of this run from being stored: of it only the status
// and reference are, which may be empty. It is for answers that hold secrets. A
// retry is answered by [Route.Render] from the reference, or with response-gone
// where the route has none. Called again, the last call counts.
//
// Outside a run it returns [ErrNoRun], and for a reference of more than
// [MaxReferenceBytes] an error wrapping [ErrArgument].
func NoStore(ctx context.Context, reference string) error {
	return withTurn(ctx, func(t *turn) error {
		if len(reference) > MaxReferenceBytes {
			return fmt.Errorf("%w: a reference of %d bytes, the most is %d", ErrArgument, len(reference), MaxReferenceBytes)
		}
		t.reference = &reference
		return nil
	})
}

// isReference reports that the answer, opened, is what NoStore kept.
func (a *Answer) isReference() bool { return len(a.Envelope) > 0 && a.Envelope[0] == formReference }

// render answers a retry from the reference that the first run left.
func (h *guarded) render(w http.ResponseWriter, r *http.Request, c *call, a *Answer) {
	response, err := h.route.Render(r, a.Status, string(a.Envelope[1:]))
	var envelope []byte
	if err == nil {
		envelope, err = h.guard.envelope(response)
	}
	if err != nil {
		h.refuse(w, r, c, outcome{code: wire.StoreUnavailable, retryAfter: time.Second, err: err})
		return
	}
	h.replay(w, &Answer{Status: response.Status, Envelope: envelope})
}
