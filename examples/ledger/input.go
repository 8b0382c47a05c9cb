package main

import (
	"fmt"
	"net/http"

	"github.com/fanonce/fanonce/examples/internal/hosting"
)

// An input is the body of every request.
type input struct {
	FP     string `json:"fp"`
	Saga   string `json:"saga,omitempty"`
	Kind   string `json:"kind,omitempty"`   // of a forward call: do, or nothing
	Reject bool   `json:"reject,omitempty"` // refuse the call with 402
	Fail   bool   `json:"fail,omitempty"`   // fail the call with 500
}

// readForward reads the body of a forward call.
func readForward(r *http.Request) (input, error) {
	var in input
	if err := hosting.ReadJSON(r, &in); err != nil {
		return in, err
	}
	if in.Kind != "" && in.Kind != kindDo {
		return in, fmt.Errorf("%w: kind %q is not %q", hosting.ErrBadInput, in.Kind, kindDo)
	}
	return in, nil
}

// readUndo reads the body of an undo: an input by itself, or that of the forward
// call as a contract.Undo has it.
func readUndo(r *http.Request) (input, error) {
	var in struct {
		input

		Forward *input `json:"input"`
	}
	if err := hosting.ReadJSON(r, &in); err != nil {
		return in.input, err
	}
	if in.Forward != nil {
		return *in.Forward, nil
	}
	return in.input, nil
}
