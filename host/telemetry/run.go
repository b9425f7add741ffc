package telemetry

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/script/compose"
)

// runs implements compose.Observer.
type runs struct{ t *Telemetry }

// Runs returns the observer of runs of composite tools; nil if t is.
func (t *Telemetry) Runs() compose.Observer {
	if t == nil {
		return nil
	}
	return runs{t}
}

// BeginRun implements compose.Observer. The span is an execute_tool span of the
// conventions for generative AI (docs/gen-ai/gen-ai-spans.md).
func (o runs) BeginRun(ctx context.Context, tool, id string, origin route.Origin) (context.Context, func(journal.Record)) {
	t, start := o.t, time.Now()
	ctx = beneath(ctx, origin)
	var span trace.Span
	if t.tracer != nil {
		ctx, span = t.tracer.Start(ctx, executeTool+" "+tool, trace.WithSpanKind(trace.SpanKindInternal), trace.WithTimestamp(start),
			trace.WithAttributes(keyOperation.String(executeTool), keyTool.String(tool), keyRun.String(id)))
	}
	return ctx, func(rec journal.Record) {
		failure := ""
		if !rec.Outcome.Asks { // a run that asks goes on in another run
			failure = string(rec.Outcome.Error)
		}
		attributes := []attribute.KeyValue{keyTool.String(tool)}
		if failure != "" {
			attributes = append(attributes, keyErrorType.String(failure))
		}
		if span != nil {
			if span.IsRecording() {
				span.SetAttributes(keyRunFuel.Int64(int64(rec.Outcome.Fuel)), keyRunMemory.Int64(int64(rec.Outcome.Memory)), keyRunCalls.Int(len(rec.Calls)))
				if failure != "" {
					span.SetAttributes(attributes[1])
					span.SetStatus(codes.Error, "")
				}
			}
			span.End()
		}
		if t.meters == nil {
			return
		}
		set := metric.WithAttributeSet(attribute.NewSet(attributes...))
		t.runDuration.Record(ctx, time.Since(start).Seconds(), set)
		t.runFuel.Record(ctx, int64(rec.Outcome.Fuel), set)
		t.runMemory.Record(ctx, int64(rec.Outcome.Memory), set)
		t.runCalls.Record(ctx, int64(len(rec.Calls)), set)
	}
}
