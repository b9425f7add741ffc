package telemetry

import (
	"log/slog"
	"sync"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
)

var silence sync.Once

// quietSDK keeps the SDK from writing the values of invalid variables to standard error. See
// checkVariables.
func quietSDK(log *slog.Logger) {
	silence.Do(func() { otel.SetLogger(logr.Discard()) })
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(error) { // the error can quote values, too
		log.Debug("the telemetry SDK reports an error")
	}))
}
