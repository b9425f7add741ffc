package config

import (
	"context"
	"encoding"
	"encoding/json"
	"fmt"
	"log/slog"
)

// maskingHandler is the handler that NewMaskingHandler returns.
type maskingHandler struct {
	next slog.Handler
	m    *Masker
}

// NewMaskingHandler returns a handler that masks the secrets of m and passes records to
// another handler. It masks the message, keys, groups and values, at any depth of groups,
// errors, structs and what a [slog.LogValuer] returns. A value without a secret is passed
// unchanged; one with a secret is replaced by its masked text. Secrets that are added to m
// later are masked in later records. Values for Logger.With are masked when With is
// called.
func NewMaskingHandler(next slog.Handler, m *Masker) slog.Handler {
	return &maskingHandler{next: next, m: m}
}

// Enabled implements slog.Handler.
func (h *maskingHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

// Handle implements slog.Handler. It masks the record and passes it on.
func (h *maskingHandler) Handle(ctx context.Context, record slog.Record) error {
	masked := slog.NewRecord(record.Time, record.Level, h.m.Mask(record.Message), record.PC)
	record.Attrs(func(a slog.Attr) bool {
		masked.AddAttrs(h.attr(a))
		return true
	})
	return h.next.Handle(ctx, masked)
}

// WithAttrs implements slog.Handler. It masks the attributes and passes them on.
func (h *maskingHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &maskingHandler{next: h.next.WithAttrs(h.attrs(attrs)), m: h.m}
}

// WithGroup implements slog.Handler. It masks the name and passes it on.
func (h *maskingHandler) WithGroup(name string) slog.Handler {
	return &maskingHandler{next: h.next.WithGroup(h.m.Mask(name)), m: h.m}
}

func (h *maskingHandler) attrs(attrs []slog.Attr) []slog.Attr {
	masked := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		masked[i] = h.attr(a)
	}
	return masked
}

func (h *maskingHandler) attr(a slog.Attr) slog.Attr {
	return slog.Attr{Key: h.m.Mask(a.Key), Value: h.value(a.Value)}
}

func (h *maskingHandler) value(v slog.Value) slog.Value {
	v = v.Resolve()
	switch v.Kind() {
	case slog.KindGroup:
		return slog.GroupValue(h.attrs(v.Group())...)
	case slog.KindString:
		return slog.StringValue(h.m.Mask(v.String()))
	case slog.KindAny:
		return h.any(v)
	default:
		// Numbers can be secrets too.
		if text := v.String(); h.m.Mask(text) != text {
			return slog.StringValue(h.m.Mask(text))
		}
		return v
	}
}

// any masks a value of any type. It checks each form in which a handler may write the
// value.
func (h *maskingHandler) any(v slog.Value) slog.Value {
	for _, form := range forms {
		text := written(form, v.Any())
		if masked := h.m.Mask(text); masked != text {
			return slog.StringValue(masked)
		}
	}
	return v
}

// forms are the ways in which handlers write values. They return "" for a value without
// that form. JSON follows pointers, unlike fmt.
var forms = []func(v any) string{
	func(v any) string {
		if err, ok := v.(error); ok {
			return err.Error()
		}
		return ""
	},
	func(v any) string {
		if m, ok := v.(encoding.TextMarshaler); ok {
			if text, err := m.MarshalText(); err == nil {
				return string(text)
			}
		}
		return ""
	},
	func(v any) string {
		if b, ok := v.([]byte); ok {
			return string(b)
		}
		return fmt.Sprintf("%+v", v)
	},
	func(v any) string {
		if text, err := json.Marshal(v); err == nil {
			return string(text)
		}
		return ""
	},
}

// written returns form(v), or "" if a method of v panics. The next handler will recover
// that panic too and write another text.
func written(form func(v any) string, v any) (text string) {
	defer func() {
		if recover() != nil {
			text = ""
		}
	}()
	return form(v)
}
