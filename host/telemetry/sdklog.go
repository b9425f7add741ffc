package telemetry

import (
	"log/slog"
	"os"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
)

// headerVariables are those whose values have secrets: KEY=VALUE,...
var headerVariables = []string{"OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_METRICS_HEADERS"}

var silence sync.Once

// quietSDK keeps the SDK from writing to standard error, which it does with the values of
// variables that it does not understand. What is wrong with headers is logged here, without
// the values.
func quietSDK(log *slog.Logger) {
	silence.Do(func() { otel.SetLogger(logr.Discard()) })
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(error) { // it can quote values, too
		log.Debug("the telemetry SDK reports an error")
	}))
	for _, name := range headerVariables {
		for part := range strings.SplitSeq(os.Getenv(name), ",") {
			if part = strings.TrimSpace(part); part != "" && !strings.Contains(part, "=") {
				log.Warn("a part of a variable is ignored, because it has no \"=\" (write KEY=VALUE,...)", "variable", name)
			}
		}
	}
}
