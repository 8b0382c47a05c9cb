package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// A span is a line of a process' file.
type span struct {
	Process, Name           string
	Trace, ID, Parent, Link string
	Start, End              time.Time
	Outcome, Error          string
	lost                    bool // its process was killed before the span ended: only its children name it
}

// A telemetry writes the spans of one process to a file, each when it ends. So a killed process leaves all its spans
// but the running ones.
type telemetry struct {
	provider *sdktrace.TracerProvider
}

func newTelemetry(process, file string) (*telemetry, error) {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600) //nolint:gosec // the director chose it
	if err != nil {
		return nil, err
	}
	return &telemetry{sdktrace.NewTracerProvider(sdktrace.WithSyncer(&exporter{process: process, to: json.NewEncoder(f)}))}, nil
}

// An exporter is an [sdktrace.SpanExporter].
type exporter struct {
	process string
	mu      sync.Mutex
	to      *json.Encoder
}

// ExportSpans implements [sdktrace.SpanExporter].
func (e *exporter) ExportSpans(_ context.Context, ended []sdktrace.ReadOnlySpan) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range ended {
		line := span{
			Process: e.process, Name: s.Name(), Trace: s.SpanContext().TraceID().String(), ID: s.SpanContext().SpanID().String(),
			Start: s.StartTime(), End: s.EndTime(), Outcome: value(s, "fanonce.outcome"),
		}
		if s.Parent().IsValid() {
			line.Parent = s.Parent().SpanID().String()
		}
		if len(s.Links()) > 0 {
			line.Link = s.Links()[0].SpanContext.SpanID().String()
		}
		if s.Status().Code == codes.Error {
			line.Error = s.Status().Description
		}
		if err := e.to.Encode(line); err != nil {
			return err
		}
	}
	return nil
}

// Shutdown implements [sdktrace.SpanExporter].
func (*exporter) Shutdown(context.Context) error { return nil }

func value(s sdktrace.ReadOnlySpan, key attribute.Key) string {
	for _, a := range s.Attributes() {
		if a.Key == key {
			return a.Value.String()
		}
	}
	return ""
}

// readSpans reads the file of a process.
func readSpans(file string) (spans []span, err error) {
	f, err := os.Open(file) //nolint:gosec // the director chose it
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // it was only read
	for lines := json.NewDecoder(f); ; {
		var s span
		err := lines.Decode(&s)
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF): // killed while it wrote
			return spans, nil
		case err != nil:
			return nil, err
		}
		spans = append(spans, s)
	}
}
