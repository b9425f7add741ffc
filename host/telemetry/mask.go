package telemetry

import (
	"context"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	tracesdk "go.opentelemetry.io/otel/sdk/trace"
)

// maskedSpans is a SpanExporter that masks secrets. Clients and servers choose names, ids and URIs,
// and can put a secret there, for example in the path of an address. Masking here takes no time of
// a request.
type maskedSpans struct {
	tracesdk.SpanExporter
	mask  func(text string) string
	limit int // of the value of an attribute, in bytes
}

// maxMasked is the additional length of values before they are masked, in bytes, so that no value
// ends with a part of a secret.
const maxMasked = 4 << 10

// ExportSpans implements tracesdk.SpanExporter.
func (e maskedSpans) ExportSpans(ctx context.Context, spans []tracesdk.ReadOnlySpan) error {
	masked := make([]tracesdk.ReadOnlySpan, len(spans))
	for i, s := range spans {
		masked[i] = maskedSpan{s, e.text(s.Name()), maskAttributes(s.Attributes(), e.text)}
	}
	return e.SpanExporter.ExportSpans(ctx, masked)
}

// text returns a text masked, and cut at the limit.
func (e maskedSpans) text(s string) string {
	s = e.mask(s)
	if len(s) > e.limit {
		s = strings.ToValidUTF8(s[:e.limit], "")
	}
	return s
}

// maskedSpan is a span without secrets.
type maskedSpan struct {
	tracesdk.ReadOnlySpan
	name       string
	attributes []attribute.KeyValue
}

func (s maskedSpan) Name() string                     { return s.name }
func (s maskedSpan) Attributes() []attribute.KeyValue { return s.attributes }

// maskAttributes returns the attributes with masked texts, without changing all.
func maskAttributes(all []attribute.KeyValue, mask func(text string) string) []attribute.KeyValue {
	masked := make([]attribute.KeyValue, len(all))
	for i, a := range all {
		if a.Value.Type() == attribute.STRING {
			a.Value = attribute.StringValue(mask(a.Value.AsString()))
		}
		masked[i] = a
	}
	return masked
}
