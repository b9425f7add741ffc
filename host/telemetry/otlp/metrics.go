package otlp

import (
	"math"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	metrics "go.opentelemetry.io/proto/otlp/metrics/v1"
	resource "go.opentelemetry.io/proto/otlp/resource/v1"
)

// convert returns the metrics in OTLP. The conversion of the SDK is private to its exporters.
func convert(data *metricdata.ResourceMetrics) *metrics.ResourceMetrics {
	all := &metrics.ResourceMetrics{
		Resource:  &resource.Resource{Attributes: attributes(data.Resource.Attributes())},
		SchemaUrl: data.Resource.SchemaURL(),
	}
	for _, of := range data.ScopeMetrics {
		scope := &metrics.ScopeMetrics{
			Scope:     &common.InstrumentationScope{Name: of.Scope.Name, Version: of.Scope.Version, Attributes: attributes(of.Scope.Attributes.ToSlice())},
			SchemaUrl: of.Scope.SchemaURL,
		}
		for _, m := range of.Metrics {
			metric := &metrics.Metric{Name: m.Name, Description: m.Description, Unit: m.Unit}
			switch d := m.Data.(type) {
			case metricdata.Gauge[int64]:
				metric.Data = &metrics.Metric_Gauge{Gauge: &metrics.Gauge{DataPoints: numbers(d.DataPoints)}}
			case metricdata.Gauge[float64]:
				metric.Data = &metrics.Metric_Gauge{Gauge: &metrics.Gauge{DataPoints: numbers(d.DataPoints)}}
			case metricdata.Sum[int64]:
				metric.Data = sum(d)
			case metricdata.Sum[float64]:
				metric.Data = sum(d)
			case metricdata.Histogram[int64]:
				metric.Data = histogram(d)
			case metricdata.Histogram[float64]:
				metric.Data = histogram(d)
			case metricdata.ExponentialHistogram[int64]:
				metric.Data = exponential(d)
			case metricdata.ExponentialHistogram[float64]:
				metric.Data = exponential(d)
			default: // summaries are not made by the SDK
				continue
			}
			scope.Metrics = append(scope.Metrics, metric)
		}
		all.ScopeMetrics = append(all.ScopeMetrics, scope)
	}
	return all
}

func sum[N int64 | float64](d metricdata.Sum[N]) *metrics.Metric_Sum {
	return &metrics.Metric_Sum{Sum: &metrics.Sum{
		AggregationTemporality: temporalities[d.Temporality], IsMonotonic: d.IsMonotonic, DataPoints: numbers(d.DataPoints),
	}}
}

var temporalities = map[metricdata.Temporality]metrics.AggregationTemporality{
	metricdata.CumulativeTemporality: metrics.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE,
	metricdata.DeltaTemporality:      metrics.AggregationTemporality_AGGREGATION_TEMPORALITY_DELTA,
}

func numbers[N int64 | float64](points []metricdata.DataPoint[N]) []*metrics.NumberDataPoint {
	var all []*metrics.NumberDataPoint
	for _, p := range points {
		point := &metrics.NumberDataPoint{
			Attributes: attributes(p.Attributes.ToSlice()), StartTimeUnixNano: nanoseconds(p.StartTime), TimeUnixNano: nanoseconds(p.Time),
			Exemplars: exemplars(p.Exemplars),
		}
		switch v := any(p.Value).(type) {
		case int64:
			point.Value = &metrics.NumberDataPoint_AsInt{AsInt: v}
		case float64:
			point.Value = &metrics.NumberDataPoint_AsDouble{AsDouble: v}
		}
		all = append(all, point)
	}
	return all
}

func histogram[N int64 | float64](d metricdata.Histogram[N]) *metrics.Metric_Histogram {
	h := &metrics.Histogram{AggregationTemporality: temporalities[d.Temporality]}
	for _, p := range d.DataPoints {
		total := float64(p.Sum)
		h.DataPoints = append(h.DataPoints, &metrics.HistogramDataPoint{
			Attributes: attributes(p.Attributes.ToSlice()), StartTimeUnixNano: nanoseconds(p.StartTime), TimeUnixNano: nanoseconds(p.Time),
			Count: p.Count, Sum: &total, Min: extremum(p.Min), Max: extremum(p.Max),
			BucketCounts: p.BucketCounts, ExplicitBounds: p.Bounds, Exemplars: exemplars(p.Exemplars),
		})
	}
	return &metrics.Metric_Histogram{Histogram: h}
}

func exponential[N int64 | float64](d metricdata.ExponentialHistogram[N]) *metrics.Metric_ExponentialHistogram {
	h := &metrics.ExponentialHistogram{AggregationTemporality: temporalities[d.Temporality]}
	for _, p := range d.DataPoints {
		total := float64(p.Sum)
		h.DataPoints = append(h.DataPoints, &metrics.ExponentialHistogramDataPoint{
			Attributes: attributes(p.Attributes.ToSlice()), StartTimeUnixNano: nanoseconds(p.StartTime), TimeUnixNano: nanoseconds(p.Time),
			Count: p.Count, Sum: &total, Min: extremum(p.Min), Max: extremum(p.Max),
			Scale: p.Scale, ZeroCount: p.ZeroCount, ZeroThreshold: p.ZeroThreshold, Exemplars: exemplars(p.Exemplars),
			Positive: &metrics.ExponentialHistogramDataPoint_Buckets{Offset: p.PositiveBucket.Offset, BucketCounts: p.PositiveBucket.Counts},
			Negative: &metrics.ExponentialHistogramDataPoint_Buckets{Offset: p.NegativeBucket.Offset, BucketCounts: p.NegativeBucket.Counts},
		})
	}
	return &metrics.Metric_ExponentialHistogram{ExponentialHistogram: h}
}

func extremum[N int64 | float64](e metricdata.Extrema[N]) *float64 {
	v, ok := e.Value()
	if !ok {
		return nil
	}
	f := float64(v)
	return &f
}

func exemplars[N int64 | float64](list []metricdata.Exemplar[N]) []*metrics.Exemplar {
	var all []*metrics.Exemplar
	for _, e := range list {
		exemplar := &metrics.Exemplar{
			FilteredAttributes: attributes(e.FilteredAttributes), TimeUnixNano: nanoseconds(e.Time), SpanId: e.SpanID, TraceId: e.TraceID,
		}
		switch v := any(e.Value).(type) {
		case int64:
			exemplar.Value = &metrics.Exemplar_AsInt{AsInt: v}
		case float64:
			exemplar.Value = &metrics.Exemplar_AsDouble{AsDouble: v}
		}
		all = append(all, exemplar)
	}
	return all
}

// attributes returns the attributes of the kinds in package telemetry, and other kinds as text.
func attributes(list []attribute.KeyValue) []*common.KeyValue {
	var all []*common.KeyValue
	for _, kv := range list {
		value := &common.AnyValue{}
		switch kv.Value.Type() {
		case attribute.BOOL:
			value.Value = &common.AnyValue_BoolValue{BoolValue: kv.Value.AsBool()}
		case attribute.INT64:
			value.Value = &common.AnyValue_IntValue{IntValue: kv.Value.AsInt64()}
		case attribute.FLOAT64:
			value.Value = &common.AnyValue_DoubleValue{DoubleValue: kv.Value.AsFloat64()}
		default:
			value.Value = &common.AnyValue_StringValue{StringValue: kv.Value.String()}
		}
		all = append(all, &common.KeyValue{Key: string(kv.Key), Value: value})
	}
	return all
}

// nanoseconds returns the time since 1970; 0 for no time.
func nanoseconds(t time.Time) uint64 {
	if t.IsZero() || t.Unix() < 0 || t.Unix() > math.MaxInt64/int64(time.Second) {
		return 0
	}
	return uint64(t.UnixNano())
}
