package server

import (
	"log/slog"
	"maps"
	"net/http"
	"strconv"
	"strings"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server/internal/engine"
	"github.com/fanonce/fanonce/server/internal/record"
	"github.com/fanonce/fanonce/server/store"
)

// respond writes the engine's answer. rec is the last attempt's recorder, nil if
// nothing ran.
func (h *guarded) respond(w http.ResponseWriter, r *http.Request, c *call, rec *recorder, out outcome) {
	switch {
	case rec != nil && rec.passing && !out.Ran:
		// The stream was sent, and its outcome is not recorded: the client must
		// not treat it as complete.
		panic(http.ErrAbortHandler) //nolint:forbidigo // net/http's way to cut a connection
	case rec != nil && rec.passing:
	case out.Replay != nil:
		if reference, ok := record.ReferenceOf(out.Replay.Envelope); ok {
			h.render(w, r, c, out.Replay.Status, reference)
		} else if !h.replay(w, r, out.Replay) {
			h.refuse(w, r, c, outcome{Code: wire.RecordUnreadable, Asked: true, Err: record.ErrEnvelope})
		}
	case out.Ran:
		rec.serve(w, !c.Key.IsZero(), out.Again)
	default:
		h.refuse(w, r, c, out)
	}
}

// serve sends the handler's answer. Where the request had no key the answer is not marked.
func (r *recorder) serve(w http.ResponseWriter, keyed, again bool) {
	set := newHeaderSetter(r.sent)
	if keyed {
		set.mark(false)
		r.sent.Del(wire.HeaderCode) // belongs to another service's refusal, which the handler passes on
		if r.status >= 300 {
			set.adviseRetry(again)
		}
	}
	trailer := hasTrailer(r.header)
	r.sent.Del("Content-Length")
	if bodyAllowed(r.status) && !trailer {
		set.set("Content-Length", strconv.Itoa(len(r.body)))
	}
	replace(w.Header(), r.sent)
	w.WriteHeader(r.status)
	_, _ = w.Write(r.body) // a client that is gone loses nothing: the answer is recorded
	if trailer {
		maps.Copy(w.Header(), r.header)
	}
}

// replay sends a stored answer. If the answer cannot be read, replay sends
// nothing and returns false.
func (h *guarded) replay(w http.ResponseWriter, r *http.Request, a *store.Answer) bool {
	stored, err := openAnswer(a.Status, a.Envelope)
	if err != nil {
		return false
	}
	header := w.Header()
	encoding := header["Content-Encoding"]
	for _, name := range defaultReplayHeaders { // an outer layer's value describes another body
		delete(header, name)
	}
	header["Content-Type"] = nil // not sniffed, unless it is stored
	set := newHeaderSetter(header)
	for i, l := range stored.lines {
		switch {
		case !h.guard.headers.allows(l.Name):
		case i > 0 && stored.lines[i-1].Name == l.Name:
			header[l.Name] = append(header[l.Name], l.Value)
		default:
			set.set(l.Name, l.Value) // the stored values include those of an outer layer
		}
	}
	set.mark(true)
	set.set("Cache-Control", "no-store")
	if a.Status >= 300 {
		set.adviseRetry(false)
	}
	body := h.decodeFor(r, header, stored.body)
	keepEncoding(header, encoding)
	if bodyAllowed(a.Status) {
		set.set("Content-Length", strconv.Itoa(len(body)))
	}
	w.WriteHeader(a.Status)
	_, _ = w.Write(body) // a client that is gone asks again
	return true
}

// refuse sends a problem. No renderer can change its headers.
func (h *guarded) refuse(w http.ResponseWriter, r *http.Request, c *call, out outcome) {
	g := h.guard
	if c.ID == (store.ID{}) {
		c.ID = store.ID(engine.NewToken()) // so that the answer leads to the line in the log
	}
	p := g.problem(c, &out)
	h.logRefusal(r, c, p, &out)
	answer := g.renderProblem(r, &c.Call, p, 0)
	header := w.Header()
	challenge(header, answer.Status)
	set := newHeaderSetter(header)
	set.set("Cache-Control", "no-store")
	addRendered(header, &answer)
	header.Del(wire.HeaderReplayed)
	if out.Asked && out.Code != wire.StoreUnavailable && out.Code != wire.NotClaimed {
		set.mark(false)
	}
	set.set(wire.HeaderCode, string(p.Code))
	header.Del(wire.HeaderRetryAfter)
	header.Del(wire.HeaderRetryAfterMs)
	if p.RetryAfterMs > 0 {
		wire.SetRetryAfter(header, p.RetryAfter())
	}
	set.adviseRetry(p.Retryable)
	set.set("Content-Length", strconv.Itoa(len(answer.Body)))
	w.WriteHeader(answer.Status)
	_, _ = w.Write(answer.Body)
}

// challenge adds the header that RFC 9110 section 15.5.2 requires in a 401, unless a layer around the guard set it.
func challenge(header http.Header, status int) {
	if status == http.StatusUnauthorized && header.Get("Www-Authenticate") == "" {
		header.Set("Www-Authenticate", "Bearer")
	}
}

// logRefusal logs a refusal. A refusal that needs a person is a warning. The ID
// is also in the problem's instance, so that a person finds the line from the
// problem.
func (h *guarded) logRefusal(r *http.Request, c *call, p wire.Problem, out *outcome) {
	l := logLine{Line: engine.Line{
		Level: slog.LevelDebug, Message: "request refused", Code: p.Code, Route: c.Route.Name, ID: c.ID, Err: out.Err,
	}}
	switch {
	case out.Broken:
		l.Level = slog.LevelError
	case out.Code == wire.TransactionFailed: // logged where the run ended
	case p.Status >= http.StatusInternalServerError, p.Status == http.StatusLocked:
		l.Level = slog.LevelWarn
	}
	switch out.Code {
	case wire.OutcomeUnknown, wire.Poisoned, wire.RecordUnreadable:
		l.perKey = true
	default:
	}
	h.guard.log.write(r.Context(), l)
}

// A headerSetter sets headers as [http.Header.Set] does. All their values share one
// allocation, and each name is canonical already.
type headerSetter struct {
	header http.Header
	values []string
}

func newHeaderSetter(h http.Header) *headerSetter {
	return &headerSetter{header: h, values: make([]string, 0, 6)} // the usual number of values in a refusal
}

func (s *headerSetter) set(name, value string) {
	s.values = append(s.values, value)
	n := len(s.values)
	s.header[name] = s.values[n-1 : n : n] // an append cannot overwrite the next value
}

// mark says that the key was honoured, and whether the answer is a replay.
func (s *headerSetter) mark(replayed bool) {
	s.set(wire.HeaderReplayed, strconv.FormatBool(replayed))
}

// adviseRetry says whether a retry can help, in every header that clients know.
func (s *headerSetter) adviseRetry(again bool) {
	text := strconv.FormatBool(again)
	s.set(wire.HeaderShouldRetry, text)
	s.set(wire.HeaderXShouldRetry, text)
}

// replace gives to the same content as from. An encoding that only to has stays: a layer around the guard has announced that
// it will encode what is written.
func replace(to, from http.Header) {
	encoding := to["Content-Encoding"]
	clear(to)
	maps.Copy(to, from)
	keepEncoding(to, encoding)
}

// keepEncoding gives h the encoding of a layer around the guard, unless h has one of its own.
func keepEncoding(h http.Header, outer []string) {
	if _, ok := h["Content-Encoding"]; !ok && outer != nil {
		h["Content-Encoding"] = outer
	}
}

// exposed are the headers of this package that scripts of other origins may
// read. Otherwise browsers hide them (Fetch standard, CORS protocol).
var exposed = strings.Join([]string{
	wire.HeaderReplayed, wire.HeaderCode, wire.HeaderShouldRetry, wire.HeaderXShouldRetry, wire.HeaderRetryAfter, wire.HeaderRetryAfterMs,
}, ", ")

// expose adds them to the answer to a cross-origin request. A CORS middleware
// around the guard decides whether such a request is allowed; the line is added
// to the middleware's own.
func expose(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Origin") != "" {
		w.Header().Add("Access-Control-Expose-Headers", exposed)
	}
}
