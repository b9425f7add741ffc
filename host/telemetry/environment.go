package telemetry

import (
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	tracesdk "go.opentelemetry.io/otel/sdk/trace"

	"github.com/mcp-metatool/mcp-metatool/host/config"
)

// The standard variables whose mistakes are reported. The SDK takes its defaults instead, except
// for the variables in batches.
const (
	protocolVariable  = "OTEL_EXPORTER_OTLP_PROTOCOL"
	queueVariable     = "OTEL_BSP_MAX_QUEUE_SIZE"
	batchVariable     = "OTEL_BSP_MAX_EXPORT_BATCH_SIZE"
	delayVariable     = "OTEL_BSP_SCHEDULE_DELAY"
	timeoutVariable   = "OTEL_BSP_EXPORT_TIMEOUT"
	resourceVariable  = "OTEL_RESOURCE_ATTRIBUTES"
	samplerVariable   = "OTEL_TRACES_SAMPLER"
	samplerOfVariable = "OTEL_TRACES_SAMPLER_ARG"
)

// variables are the standard variables, each with a function that returns the mistake in a value,
// "" for none, without quoting the value, which can be secret.
var variables = []struct {
	names []string
	check func(value string) (mistake string)
}{
	{[]string{queueVariable, batchVariable, delayVariable, timeoutVariable}, badSize},
	{[]string{"OTEL_METRIC_EXPORT_INTERVAL", "OTEL_METRIC_EXPORT_TIMEOUT"}, badSize},
	{ofOTLP("TIMEOUT"), badSize},
	{[]string{
		"OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", "OTEL_ATTRIBUTE_COUNT_LIMIT", "OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT",
		"OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "OTEL_SPAN_EVENT_COUNT_LIMIT", "OTEL_SPAN_LINK_COUNT_LIMIT",
		"OTEL_EVENT_ATTRIBUTE_COUNT_LIMIT", "OTEL_LINK_ATTRIBUTE_COUNT_LIMIT",
	}, badLimit},
	{ofOTLP("PROTOCOL"), badProtocol},
	{ofOTLP("ENDPOINT"), badAddress},
	{ofOTLP("HEADERS"), badList},
	{[]string{resourceVariable}, badList},
	{[]string{"OTEL_EXPORTER_OTLP_COMPRESSION", "OTEL_EXPORTER_OTLP_TRACES_COMPRESSION", "OTEL_EXPORTER_OTLP_METRICS_COMPRESSION"}, oneOf("gzip", "none")},
	{slices.Concat(ofOTLP("CERTIFICATE"), ofOTLP("CLIENT_CERTIFICATE"), ofOTLP("CLIENT_KEY")), badFile},
	{[]string{samplerVariable}, oneOf("always_on", "always_off", "traceidratio", "parentbased_always_on", "parentbased_always_off", "parentbased_traceidratio")},
	{[]string{samplerOfVariable}, badRatio},
}

// ofOTLP returns the names of a setting of the exporters: for all signals, and for each.
func ofOTLP(setting string) []string {
	return []string{"OTEL_EXPORTER_OTLP_" + setting, "OTEL_EXPORTER_OTLP_TRACES_" + setting, "OTEL_EXPORTER_OTLP_METRICS_" + setting}
}

// checkVariables logs the mistakes in the standard variables. No mistake is fatal: hosts pass on
// the variables of their own telemetry.
func checkVariables(log *slog.Logger) {
	for _, v := range variables {
		for _, name := range v.names {
			value := strings.TrimSpace(os.Getenv(name))
			if value == "" {
				continue
			}
			if mistake := v.check(value); mistake != "" {
				log.Warn("a variable for telemetry has a mistake, which is ignored", "variable", name, "mistake", mistake)
			}
		}
	}
}

// maxSize bounds numbers of spans, for which the SDK allocates memory at once, and times in
// milliseconds.
const maxSize = 1 << 20

func badSize(value string) string {
	if n, err := strconv.Atoi(value); err != nil || n <= 0 || n > maxSize {
		return fmt.Sprintf("it is not a whole number from 1 to %d", maxSize)
	}
	return ""
}

func badLimit(value string) string {
	if _, err := strconv.Atoi(value); err != nil {
		return "it is not a whole number"
	}
	return ""
}

func badProtocol(value string) string {
	return oneOf(string(config.OTLPHTTP), string(config.OTLPgRPC))(value)
}

func badAddress(value string) string {
	if u, err := url.Parse(value); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return "it is not an address of a collector (write http://127.0.0.1:4318, or https://HOST)"
	}
	return ""
}

func badList(value string) string {
	for part := range strings.SplitSeq(value, ",") {
		if part = strings.TrimSpace(part); part != "" && !strings.Contains(part, "=") {
			return `a part of it has no "=" (write KEY=VALUE,...)`
		}
	}
	return ""
}

func badFile(value string) string {
	if info, err := os.Stat(value); err != nil || !info.Mode().IsRegular() {
		return "there is no such file"
	}
	return ""
}

func badRatio(value string) string {
	if r, err := strconv.ParseFloat(value, 64); err != nil || !(r >= 0 && r <= 1) {
		return "it is not a number from 0 to 1"
	}
	return ""
}

func oneOf(values ...string) func(string) string {
	return func(value string) string {
		if slices.Contains(values, strings.ToLower(value)) {
			return ""
		}
		return "it is none of " + strings.Join(values, ", ")
	}
}

// batches returns the options of batches of spans that replace mistaken variables: the SDK uses
// them unchecked, and panics for a negative size, and never rests without a delay.
func batches() []tracesdk.BatchSpanProcessorOption {
	bad := func(name string) bool {
		value := os.Getenv(name)
		return value != "" && badSize(value) != ""
	}
	var options []tracesdk.BatchSpanProcessorOption
	if bad(queueVariable) || bad(batchVariable) { // the SDK derives either from the other
		options = append(options, tracesdk.WithMaxQueueSize(tracesdk.DefaultMaxQueueSize), tracesdk.WithMaxExportBatchSize(tracesdk.DefaultMaxExportBatchSize))
	}
	if bad(delayVariable) {
		options = append(options, tracesdk.WithBatchTimeout(tracesdk.DefaultScheduleDelay*time.Millisecond))
	}
	if bad(timeoutVariable) {
		options = append(options, tracesdk.WithExportTimeout(tracesdk.DefaultExportTimeout*time.Millisecond))
	}
	return options
}
