package server

import (
	"crypto/rand"
	"encoding/hex"
	"log/slog"
	"maps"
	"net/http"
	"strconv"

	"github.com/fanonce/fanonce/childkey/wire"
)

// respond writes the engine's answer. rec is the last turn's recorder, nil if
// nothing ran.
func (h *guarded) respond(w http.ResponseWriter, r *http.Request, c *call, rec *recorder, out outcome) {
	switch {
	case rec != nil && rec.passing && !out.ran:
		// The stream went out, and its outcome is not recorded: the client
		// must not take it for complete.
		panic(http.ErrAbortHandler) //nolint:forbidigo // net/http's way to cut a connection
	case rec != nil && rec.passing:
	case out.replay != nil && out.replay.isReference():
		h.render(w, r, c, out.replay)
	case out.replay != nil:
		if !h.replay(w, out.replay) {
			h.refuse(w, r, c.route, outcome{code: wire.RecordUnreadable, asked: true, err: errEnvelope})
		}
	case out.ran:
		rec.serve(w, out.again)
	default:
		h.refuse(w, r, c.route, out)
	}
}

// serve sends what the handler wrote.
func (r *recorder) serve(w http.ResponseWriter, again bool) {
	mark(r.sent, false)
	if r.status >= 300 {
		adviseRetry(r.sent, again)
	}
	trailer := hasTrailer(r.header)
	r.sent.Del("Content-Length")
	if bodyAllowed(r.status) && !trailer {
		r.sent.Set("Content-Length", strconv.Itoa(len(r.body)))
	}
	replace(w.Header(), r.sent)
	w.WriteHeader(r.status)
	_, _ = w.Write(r.body) // a client that is gone loses nothing: it is recorded
	if trailer {
		maps.Copy(w.Header(), r.header)
	}
}

// replay sends a stored answer; it returns false, and has sent nothing, if
// that cannot be read.
func (h *guarded) replay(w http.ResponseWriter, a *Answer) bool {
	stored, err := responseOf(a.Status, a.Envelope)
	if err != nil {
		return false
	}
	header := w.Header()
	for _, name := range defaultReplayHeaders { // what an outer layer set describes another body
		delete(header, name)
	}
	header["Content-Type"] = nil // not sniffed, unless it is stored
	for name, values := range stored.Header {
		if h.guard.headers.allows(name) {
			header[name] = append(header[name], values...)
		}
	}
	mark(header, true)
	header.Set("Cache-Control", "no-store")
	if a.Status >= 300 {
		adviseRetry(header, false)
	}
	if bodyAllowed(a.Status) {
		header.Set("Content-Length", strconv.Itoa(len(stored.Body)))
	}
	w.WriteHeader(a.Status)
	_, _ = w.Write(stored.Body) // a client that is gone asks again
	return true
}

// refuse sends a problem.
func (h *guarded) refuse(w http.ResponseWriter, r *http.Request, route *Route, out outcome) {
	p := wire.NewProblem(out.code, detailOf(out))
	if out.failed {
		p = wire.Problem{
			Type: "about:blank", Title: http.StatusText(http.StatusInternalServerError),
			Status: http.StatusInternalServerError, Retryable: true,
		}
	}
	p.Instance = reference()
	header := w.Header()
	if s, ok := out.code.Situation(); ok && s.RetryAfter {
		wire.SetRetryAfter(header, out.retryAfter)
		p.RetryAfterMs = out.retryAfter.Milliseconds()
	}
	if out.asked && out.code != wire.StoreUnavailable {
		mark(header, false)
	}
	if p.Code != "" {
		header.Set(wire.HeaderCode, string(p.Code))
	}
	adviseRetry(header, p.Retryable)
	header.Set("Content-Type", wire.ProblemContentType)
	header.Set("Cache-Control", "no-store")
	if h.guard.cfg.DocsURL != "" {
		header.Add("Link", "<"+h.guard.cfg.DocsURL+`>; rel="describedby"`)
	}
	body := p.JSON()
	header.Set("Content-Length", strconv.Itoa(len(body)))
	h.log(r, route, p, out)
	w.WriteHeader(p.Status)
	_, _ = w.Write(body)
}

// detailOf says, for people, what the code does not say.
func detailOf(out outcome) string {
	switch out.code {
	case wire.KeyInvalid, wire.FirstSentInvalid:
		if out.err != nil {
			return out.err.Error() // made for it: it holds no key
		}
	case wire.StoreUnavailable:
		return "Send the same request with the same key again."
	case wire.KeyReused:
		return "A key belongs to one request: the same method, path, query, media type and body."
	default:
	}
	return ""
}

// log writes the refusals that need a person. The reference is in the problem
// too, so that one leads to the other.
func (h *guarded) log(r *http.Request, route *Route, p wire.Problem, out outcome) {
	level := slog.LevelDebug
	if p.Status >= http.StatusInternalServerError {
		level = slog.LevelWarn
	}
	if !h.guard.cfg.Logger.Enabled(r.Context(), level) {
		return
	}
	attrs := []slog.Attr{slog.String("code", string(p.Code)), slog.String("route", route.Name), slog.String("reference", p.Instance)}
	if key, present, err := wire.ParseKeyHeader(r.Header.Values(wire.HeaderKey)); present && err == nil {
		attrs = append(attrs, slog.Any("key", key)) // logs as its digest
	}
	if out.err != nil {
		attrs = append(attrs, slog.Any("error", out.err))
	}
	h.guard.cfg.Logger.LogAttrs(r.Context(), level, "request refused", attrs...)
}

// mark says that the key was honoured, and whether the answer is a replay.
func mark(h http.Header, replayed bool) { h.Set(wire.HeaderReplayed, strconv.FormatBool(replayed)) }

// adviseRetry says whether a retry can help, in both headers that clients know.
func adviseRetry(h http.Header, again bool) {
	h.Set(wire.HeaderShouldRetry, strconv.FormatBool(again))
	h.Set(wire.HeaderXShouldRetry, strconv.FormatBool(again))
}

// replace makes to hold what from holds.
func replace(to, from http.Header) {
	clear(to)
	maps.Copy(to, from)
}

// reference returns a random name for one refusal.
func reference() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails: it ends the process instead
	return hex.EncodeToString(b[:])
}
