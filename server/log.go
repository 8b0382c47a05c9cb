package server

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server/internal/engine"
	"github.com/fanonce/fanonce/server/store"
)

// logPause is the time between two lines of one cause.
const logPause = time.Second

// maxLogCauses bounds the memory for the causes of the last logPause. Above the
// limit all keys and errors of one code and route share a line.
const maxLogCauses = 1024

// A logLine is one event, as the log shows it. It holds no key, scope or body. Zero fields are left out.
type logLine struct {
	engine.Line
	status int
	perKey bool // each key needs a person, so each has its own line
	perErr bool // each error of a handler is a cause of its own
}

// A logCause is the common part of lines of which one in a second is enough.
type logCause struct {
	message string
	code    wire.Code
	route   string
	id      store.ID // zero where the key makes no difference
	err     string   // "" where the error makes no difference
}

// maxCauseText bounds the memory for one cause.
const maxCauseText = 256

func (l *logLine) cause() logCause {
	c := logCause{message: l.Message, code: l.Code, route: l.Route}
	if l.perKey {
		c.id = l.ID
	}
	if l.perErr && l.Err != nil {
		text := l.Err.Error()
		c.err = text[:min(len(text), maxCauseText)]
	}
	return c
}

// attrs are the attributes of the line; it stands for count events.
func (l *logLine) attrs(count int) []slog.Attr {
	var attrs []slog.Attr
	if l.Code != "" {
		attrs = append(attrs, slog.String("code", string(l.Code)))
	}
	if l.status != 0 {
		attrs = append(attrs, slog.Int("status", l.status))
	}
	if l.Route != "" {
		attrs = append(attrs, slog.String("route", l.Route))
	}
	if l.ID != (store.ID{}) {
		attrs = append(attrs, slog.String("id", l.ID.String()))
	}
	if l.Err != nil {
		attrs = append(attrs, slog.Any("error", l.Err))
	}
	attrs = append(attrs, l.Attrs...)
	if count > 1 {
		attrs = append(attrs, slog.Int("count", count))
	}
	return attrs
}

// A logbook writes at most one line a second for each cause. The first line is written at once. The lines of the
// following second become one line, which shows the latest of them and their count. So a caller that asks repeatedly
// cannot flood the log.
//
// It is safe for concurrent use.
type logbook struct {
	logger *slog.Logger

	mu     sync.Mutex
	causes map[logCause]*heldLine // causes with a line less than logPause ago
}

// A heldLine is the latest line of a cause that is not written yet.
type heldLine struct {
	ctx   context.Context //nolint:containedctx // of that line: handlers read traces from it
	line  logLine
	count int // 0: there is none
}

func newLogbook(logger *slog.Logger) *logbook {
	return &logbook{logger: logger, causes: make(map[logCause]*heldLine)}
}

func (b *logbook) write(ctx context.Context, l logLine) {
	if !b.logger.Enabled(ctx, l.Level) || b.hold(ctx, l) {
		return
	}
	b.logger.LogAttrs(ctx, l.Level, l.Message, l.attrs(1)...)
}

// hold keeps the line for later if its cause had a line in the last logPause.
func (b *logbook) hold(ctx context.Context, l logLine) bool {
	cause := l.cause()
	b.mu.Lock()
	defer b.mu.Unlock()
	held := b.causes[cause]
	if held == nil && len(b.causes) >= maxLogCauses {
		cause.id, cause.err = store.ID{}, ""
		held = b.causes[cause]
	}
	if held == nil {
		b.causes[cause] = new(heldLine)
		time.AfterFunc(logPause, func() { b.release(cause) })
		return false
	}
	held.ctx, held.line = context.WithoutCancel(ctx), l
	held.count++
	return true
}

// release writes the held line of the cause. It forgets a cause without a new line.
func (b *logbook) release(cause logCause) {
	b.mu.Lock()
	held := *b.causes[cause]
	if held.count == 0 {
		delete(b.causes, cause)
	} else {
		b.causes[cause] = new(heldLine)
		time.AfterFunc(logPause, func() { b.release(cause) })
	}
	b.mu.Unlock()
	if held.count > 0 {
		b.logger.LogAttrs(held.ctx, held.line.Level, held.line.Message, held.line.attrs(held.count)...)
	}
}

// personal are the events that need a person, with their log messages. Refusals are
// logged where they are answered.
var personal = [store.EventKinds]string{
	EventUnknown:     "key became outcome-unknown: settle it with fanonce keys resolve or Guard.Resolve",
	EventQuarantined: "key was quarantined: settle it with fanonce keys resolve or Guard.Resolve",
	EventSealError:   "answer or memo could not be sealed or opened",
	EventRedactError: "Redact failed: the answer is not stored",
	EventReconcile:   "Reconcile failed: the key stays outcome-unknown",
	EventMessageDead: "message was given up: see its dead letter",
}

// logEvent logs the event if it needs a person.
func (g *Guard) logEvent(ctx context.Context, e *Event) {
	if e.Kind == EventSweepError {
		g.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "sweep failed", slog.Any("error", e.Err))
	}
	message := personal[e.Kind]
	if message == "" || e.Kind == EventReconcile && e.Err == nil {
		return
	}
	g.log.write(ctx, logLine{
		Line:   engine.Line{Level: slog.LevelWarn, Message: message, Route: e.Route, ID: e.ID, Err: e.Err},
		perKey: e.Kind == EventUnknown || e.Kind == EventQuarantined,
	})
}
