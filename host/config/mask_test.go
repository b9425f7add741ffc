package config

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestMask(t *testing.T) {
	tests := []struct {
		name     string
		secrets  []string
		in, want string
	}{
		{"none", nil, "abc", "abc"},
		{"one", []string{"hunter22"}, "a hunter22, hunter22", "a ****, ****"},
		{"longest first", []string{"hunter", "hunter22"}, "hunter22 hunter2", "**** ****2"},
		{"overlapping", []string{"abcd", "cdef"}, "xabcdefx", "x****x"},
		{"itself overlapping", []string{"abab"}, "ababab.", "****."},
		{"too short", []string{"abc"}, "abc", "abc"},
		{"only stars", []string{"*****"}, "*****", "*****"},
		{"within JSON", []string{`a"b\c<d`}, `{"x":"a\"b\\c<d"} {"x":"a\"b\\c\u003cd"}`, `{"x":"****"} {"x":"****"}`},
		{"within an address", []string{"p@ss/wörd x"}, "http://u:p%40ss%2Fw%C3%B6rd+x@h p%40ss%2Fw%C3%B6rd%20x", "http://u:****@h ****"},
		{"out of an address", []string{"p%40ssword"}, "password p@ssword", "password ****"},
		{"lines", []string{"first line\nsecond line\n"}, "got second line", "got ****"},
		{"a line break at the end", []string{"tok1\n"}, "tok1", "****"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var m Masker
			m.Add(test.secrets...)
			if got := m.Mask(test.in); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
	if got := (*Masker)(nil).Mask("x"); got != "x" {
		t.Errorf("a nil Masker makes %q of x", got)
	}
}

func TestMaskerIsConcurrent(t *testing.T) {
	var m Masker
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			secret := fmt.Sprintf("secret-%d-", i)
			m.Add(secret)
			if got := m.Mask(secret); got != mask {
				t.Errorf("%s is shown as %s", secret, got)
			}
		})
	}
	wg.Wait()
	for i := range 8 { // none was lost
		if got := m.Mask(fmt.Sprintf("secret-%d-", i)); got != mask {
			t.Errorf("secret %d is shown as %s", i, got)
		}
	}
}

const planted = `pl4nted"s3cret\with<odd>chars`

type valuer struct{ v any }

func (v valuer) LogValue() slog.Value { return slog.AnyValue(v.v) }

type stringer struct{}

func (stringer) String() string { return "stringer " + planted }

type textMarshaler struct{}

func (textMarshaler) MarshalText() ([]byte, error) { return []byte(planted), nil }

type panics struct{ hidden string }

func (panics) MarshalJSON() ([]byte, error) { panic("no") }

type nested struct {
	Name  string
	Inner *nested
	Map   map[string]any
}

// TestMaskingHandler puts a secret in every part of a record.
func TestMaskingHandler(t *testing.T) {
	plantedErr := errors.New("open " + planted)
	places := map[string]func(l *slog.Logger){
		"message":         func(l *slog.Logger) { l.Info("msg " + planted) },
		"attr":            func(l *slog.Logger) { l.Info("m", "k", planted) },
		"key":             func(l *slog.Logger) { l.Info("m", planted, 1) },
		"with":            func(l *slog.Logger) { l.With("k", planted).Info("m") },
		"group name":      func(l *slog.Logger) { l.WithGroup(planted).Info("m", "k", 1) },
		"with in group":   func(l *slog.Logger) { l.WithGroup("g").With("k", planted).Info("m") },
		"group":           func(l *slog.Logger) { l.Info("m", slog.Group("g", "a", 1, slog.Group("h", "k", planted))) },
		"error":           func(l *slog.Logger) { l.Error("m", "err", fmt.Errorf("wrapped: %w", plantedErr)) },
		"joined errors":   func(l *slog.Logger) { l.Error("m", "err", errors.Join(errors.New("x"), plantedErr)) },
		"log valuer":      func(l *slog.Logger) { l.Info("m", "v", valuer{valuer{planted}}) },
		"valuer of group": func(l *slog.Logger) { l.Info("m", "v", valuer{[]slog.Attr{slog.Any("k", valuer{plantedErr})}}) },
		"struct":          func(l *slog.Logger) { l.Info("m", "v", nested{Name: planted}) },
		"behind pointers": func(l *slog.Logger) { l.Info("m", "v", &nested{Inner: &nested{Inner: &nested{Name: planted}}}) },
		"map":             func(l *slog.Logger) { l.Info("m", "v", nested{Map: map[string]any{planted: []string{planted}}}) },
		"slice":           func(l *slog.Logger) { l.Info("m", "v", []any{1, planted}) },
		"bytes":           func(l *slog.Logger) { l.Info("m", "v", []byte("b "+planted)) },
		"raw JSON":        func(l *slog.Logger) { b, _ := json.Marshal(planted); l.Info("m", "v", json.RawMessage(b)) },
		"stringer":        func(l *slog.Logger) { l.Info("m", "v", stringer{}) },
		"text marshaler":  func(l *slog.Logger) { l.Info("m", "v", textMarshaler{}) },
		"panicking":       func(l *slog.Logger) { l.Info("m", "v", panics{planted}) },
		"multi-line":      func(l *slog.Logger) { l.Info("first\n" + planted + "\nlast") },
	}
	handlers := map[string]func(b *bytes.Buffer) slog.Handler{
		"text": func(b *bytes.Buffer) slog.Handler { return slog.NewTextHandler(b, nil) },
		"json": func(b *bytes.Buffer) slog.Handler { return slog.NewJSONHandler(b, nil) },
	}
	var m Masker
	m.Add(planted)
	for format, handler := range handlers {
		for place, log := range places {
			t.Run(format+"/"+place, func(t *testing.T) {
				var b bytes.Buffer
				log(slog.New(NewMaskingHandler(handler(&b), &m)))
				text := b.String()
				for _, part := range []string{"pl4nted", "s3cret", "odd"} {
					if strings.Contains(text, part) {
						t.Errorf("%q is in the log: %s", part, text)
					}
				}
				if format == "text" && !strings.Contains(text, mask) {
					t.Errorf("the record is gone: %s", text)
				}
			})
		}
	}
}

// TestMaskingHandlerKeepsTheRest checks that records without a secret reach the next
// handler unchanged.
func TestMaskingHandlerKeepsTheRest(t *testing.T) {
	var plain, masked bytes.Buffer
	noTime := &slog.HandlerOptions{Level: slog.LevelDebug, AddSource: true, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}
	var m Masker
	m.Add("123456", "not-there")
	masking := NewMaskingHandler(slog.NewJSONHandler(&masked, noTime), &m)
	for _, h := range []slog.Handler{slog.NewJSONHandler(&plain, noTime), masking} {
		l := slog.New(h).With("a", 1).WithGroup("g").With("b", true)
		l.Debug("m", "n", 12345, "f", 1.5, "d", time.Second, "s", "text", "e", errors.New("x"), "nil", nil,
			"st", nested{Name: "n"}, slog.Group("h", "t", time.Unix(0, 0).UTC()), slog.Group("empty"))
	}
	if plain.String() != masked.String() {
		t.Errorf("got:\n%swant:\n%s", masked.String(), plain.String())
	}
	if masking.Enabled(context.Background(), slog.LevelDebug-1) || !masking.Enabled(context.Background(), slog.LevelDebug) {
		t.Error("levels are not those of the handler behind")
	}
	masked.Reset()
	slog.New(masking).Info("m", "pin", 123456)
	if strings.Contains(masked.String(), "123456") {
		t.Errorf("a number that is a secret is in the log: %s", masked.String())
	}
}
