package guardotel

import (
	"fmt"
	"reflect"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/gauges"
	"github.com/fanonce/fanonce/server/store"
)

// scope is the name of the instrumentation.
const scope = "github.com/fanonce/fanonce/server/guardotel"

// A Config configures an [Observer]. The zero Config is ready to use.
type Config struct {
	// TracerProvider makes the spans. nil means otel.GetTracerProvider.
	TracerProvider trace.TracerProvider
	// MeterProvider makes the metrics. nil means otel.GetMeterProvider.
	MeterProvider metric.MeterProvider
	// Name is the attribute fanonce.guard of the guard's metrics and spans, and fanonce.store of the store's metrics. It
	// tells the observers of one process apart, so it must be unique there: of two with one name, each hides numbers of the
	// other. It is printable UTF-8 of at most 128 bytes. Empty means a number: "1" for the first observer of the process
	// without a name, "2" for the next.
	Name string
	// Store is the store whose numbers are shown. It is asked in the background, while the metrics are read. Let one
	// process of a fleet have it. nil means no metrics of the store.
	Store store.Store
	// StatsEvery also has the records counted by state: it is the least time between two calls of [store.Store].Stats,
	// which may read the whole table, and a call is ended after half of it. Zero never counts. [New] refuses a negative
	// one.
	StatsEvery time.Duration
	// Next gets every event too, such as a guardprom.Collector. It must not be a [server.Tracer]. nil means
	// no further observer.
	Next server.Observer
}

var names gauges.Names

func (cfg Config) withDefaults() (Config, error) {
	if v := reflect.ValueOf(cfg.Store); v.IsValid() && v.Kind() == reflect.Pointer && v.IsNil() {
		return cfg, &server.ConfigError{Field: "Config.Store", Value: "nil", Reason: fmt.Sprintf("is a nil %T", cfg.Store)}
	}
	if _, ok := cfg.Next.(server.Tracer); ok {
		return cfg, &server.ConfigError{Field: "Config.Next", Value: fmt.Sprintf("%T", cfg.Next), Reason: "is a server.Tracer: it would not hear of calls"}
	}
	if cfg.StatsEvery < 0 {
		return cfg, &server.ConfigError{Field: "Config.StatsEvery", Value: cfg.StatsEvery.String(), Reason: "is negative"}
	}
	name, err := names.Choose(cfg.Name)
	if err != nil {
		return cfg, &server.ConfigError{Field: "Config.Name", Value: cfg.Name, Reason: err.Error()}
	}
	cfg.Name = name
	if cfg.TracerProvider == nil {
		cfg.TracerProvider = otel.GetTracerProvider()
	}
	if cfg.MeterProvider == nil {
		cfg.MeterProvider = otel.GetMeterProvider()
	}
	return cfg, nil
}
