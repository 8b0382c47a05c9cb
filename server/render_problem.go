package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"

	"github.com/fanonce/fanonce/childkey/wire"
)

// unrendered is the answer to a refusal without a renderer.
func unrendered(p wire.Problem) Response {
	return Response{
		Status: p.Status, Header: http.Header{"Content-Type": {wire.ProblemContentType}}, Body: p.JSON(),
	}
}

// rendered is the answer that p gets in the service's own shape. A renderer that is
// broken makes p a 500 in the shape of this package. c names the line in the log, and
// status is the one that the answer must have; 0 means any of a refusal.
func (g *Guard) rendered(r *http.Request, c *call, p wire.Problem, status int) Response {
	if g.cfg.RenderProblem == nil {
		return unrendered(p)
	}
	answer, err := g.render(r, p)
	if err == nil && status != 0 && answer.Status != status {
		err = fmt.Errorf("%w: status %d for a handler's %d", errRendered, answer.Status, status)
	}
	if err == nil {
		return answer
	}
	g.log.write(r.Context(), logLine{
		level: slog.LevelError, message: "RenderProblem failed: answered with 500", code: p.Code, route: c.route.Name, id: c.id, err: err,
	})
	p.Status = http.StatusInternalServerError
	return unrendered(p)
}

// render calls the renderer. Its panic is an error: a refusal must be answered as one.
func (g *Guard) render(r *http.Request, p wire.Problem) (answer Response, err error) {
	defer func() {
		if v := recover(); v != nil {
			answer, err = Response{}, panicked("RenderProblem", v)
		}
	}()
	answer = g.cfg.RenderProblem(r, p)
	answer.Header = canonicalHeader(answer.Header)
	answer.Body = bytes.Clone(answer.Body)
	return answer, checkRendered(&answer)
}

// renderedFailure is the answer to a typed handler's error. Its status decides what is
// stored, so that no renderer changes it.
func (g *Guard) renderedFailure(r *http.Request, c *call, failure typedProblem) Response {
	if g.cfg.RenderProblem == nil {
		body, _ := json.Marshal(failure) // strings and a number always encode
		return Response{Status: failure.Status, Header: http.Header{"Content-Type": {wire.ProblemContentType}}, Body: body}
	}
	answer := g.rendered(r, c, wire.Problem{
		Type: failure.Type, Title: failure.Title, Status: failure.Status, Detail: failure.Detail,
		Instance: c.id.urn(), Code: wire.Code(failure.Code),
		Retryable: failure.Status >= http.StatusInternalServerError || neverStored(failure.Status),
	}, failure.Status)
	return answer
}

var errRendered = errors.New("server: RenderProblem returned no refusal")

// checkRendered refuses what a client could take for something else than a refusal.
func checkRendered(answer *Response) error {
	switch {
	case answer.Status == 0:
		return fmt.Errorf("%w: no status", errRendered)
	case answer.Status < 400 || answer.Status > 599:
		return fmt.Errorf("%w: status %d, must be 400 to 599", errRendered, answer.Status)
	case len(answer.Body) == 0:
		return fmt.Errorf("%w: no body", errRendered)
	}
	return nil
}

// framing are the headers that the guard and net/http set for themselves.
var framing = []string{"Content-Length", "Transfer-Encoding", "Connection", "Trailer", "Upgrade"}

// addRendered adds the answer's headers to those of the outer layers.
func addRendered(to http.Header, answer *Response) {
	header := answer.Header
	for _, name := range framing {
		header.Del(name)
	}
	maps.DeleteFunc(header, func(name string, _ []string) bool { return !isToken(name) })
	for name, values := range header {
		for i, v := range values {
			values[i] = sanitize(v)
		}
		to[name] = values
	}
}
