// Package unguarded is how the demo's -unsafe serves and calls the same
// contracts: as everybody does it, without keys. It is what not to do.
package unguarded

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/fanonce/fanonce/childkey/contract"
)

// Handle serves op on mux with fn, and runs fn for every request that arrives.
func Handle[In, Out any](mux *http.ServeMux, op contract.Operation[In, Out], fn func(context.Context, In) (Out, error)) error {
	if err := op.Err(); err != nil {
		return err
	}
	mux.HandleFunc(op.Method()+" "+op.Pattern(), func(w http.ResponseWriter, r *http.Request) {
		var in In
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			http.Error(w, "not JSON", http.StatusBadRequest)
			return
		}
		// As the guard does, so that both runs meet the same faults: the work
		// goes on when the caller hangs up.
		out, err := fn(context.WithoutCancel(r.Context()), in)
		if err != nil {
			http.Error(w, "try again", http.StatusServiceUnavailable)
			return
		}
		_ = json.NewEncoder(w).Encode(out) // the caller may be gone: its business
	})
	return nil
}

const (
	attempts       = 4
	attemptTimeout = 10 * time.Second // no fault lasts as long; but a busy machine may need seconds
	longestPause   = 200 * time.Millisecond
)

// Call calls op at baseURL with in, and again when that fails.
func Call[In, Out any](ctx context.Context, baseURL string, op contract.Operation[In, Out], in In) (out Out, err error) {
	path, err := op.Path()
	if err != nil {
		return out, err
	}
	body, err := json.Marshal(in)
	if err != nil {
		return out, err
	}
	for range attempts {
		if out, err = attempt[Out](ctx, op.Method(), baseURL+path, body); err == nil {
			return out, nil
		}
		select {
		case <-ctx.Done():
			return out, ctx.Err()
		case <-time.After(rand.N(longestPause)):
		}
	}
	return out, err
}

func attempt[Out any](ctx context.Context, method, url string, body []byte) (out Out, err error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return out, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return out, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return out, err
	case resp.StatusCode != http.StatusOK:
		return out, fmt.Errorf("unguarded: %s", resp.Status)
	}
	return out, json.Unmarshal(answer, &out)
}
