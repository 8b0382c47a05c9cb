package sagatest

import (
	"bytes"
	"io"
	"net/http"
	"strconv"

	"github.com/fanonce/fanonce/childkey/wire"
)

// An answer is the answer of a service.
type answer struct {
	status      int
	body        []byte
	contentType string
	replayed    string // the header; "": not from a guarded service
	shouldRetry string
	code        wire.Code // the header; "": no refusal of the idempotency layer
	forward     string    // the header; "": not an undo's
}

func problem(code wire.Code) answer {
	row, _ := code.Situation()
	return answer{
		status: row.Status, body: wire.NewProblem(code, "").JSON(), contentType: wire.ProblemContentType,
		replayed: "false", shouldRetry: strconv.FormatBool(row.Retryable), code: code,
	}
}

func (a answer) response(req *http.Request) *http.Response {
	header := http.Header{"Content-Type": {a.contentType}}
	if a.contentType == "" {
		header.Set("Content-Type", "application/json")
	}
	if a.replayed != "" {
		header.Set(wire.HeaderReplayed, a.replayed)
	}
	if a.forward != "" {
		header.Set(wire.HeaderForward, a.forward)
	}
	if a.code != "" {
		header.Set(wire.HeaderCode, string(a.code))
	}
	if a.shouldRetry != "" {
		header.Set(wire.HeaderShouldRetry, a.shouldRetry)
	}
	return &http.Response{
		Status: strconv.Itoa(a.status), StatusCode: a.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header, Body: io.NopCloser(bytes.NewReader(a.body)), ContentLength: int64(len(a.body)), Request: req,
	}
}
