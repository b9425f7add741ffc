package telemetry

import (
	"log/slog"
	"sync"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
)

var silence sync.Once

// quietSDK keeps the SDK from writing to standard error, which it does with the values of
// variables that it does not understand. See checkVariables.
func quietSDK(log *slog.Logger) {
	silence.Do(func() { otel.SetLogger(logr.Discard()) })
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(error) { // it can quote values, too
		log.Debug("the telemetry SDK reports an error")
	}))
}
