package guardotel

import (
	"fmt"
	"reflect"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/fanonce/fanonce/server"
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
	// Store is asked for its numbers when the metrics are read: [store.Store].Stats and Attention of its Reader. Stats may read the
	// whole table: choose the reader's interval for that, and let one process of a fleet have the Store. nil means no
	// metrics of the store.
	Store store.Store
	// Next gets every event too, such as a guardprom.Collector. It must not be a [server.Tracer]. nil means
	// no further observer.
	Next server.Observer
}

func (cfg Config) withDefaults() (Config, error) {
	if v := reflect.ValueOf(cfg.Store); v.IsValid() && v.Kind() == reflect.Pointer && v.IsNil() {
		return cfg, &server.ConfigError{Field: "Config.Store", Value: "nil", Reason: fmt.Sprintf("is a nil %T", cfg.Store)}
	}
	if _, ok := cfg.Next.(server.Tracer); ok {
		return cfg, &server.ConfigError{Field: "Config.Next", Value: fmt.Sprintf("%T", cfg.Next), Reason: "is a server.Tracer: it would not hear of calls"}
	}
	if cfg.TracerProvider == nil {
		cfg.TracerProvider = otel.GetTracerProvider()
	}
	if cfg.MeterProvider == nil {
		cfg.MeterProvider = otel.GetMeterProvider()
	}
	return cfg, nil
}
