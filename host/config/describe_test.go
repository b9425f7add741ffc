package config

import (
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/clients/bearer"
	"github.com/mcp-metatool/mcp-metatool/host/store/sealed"
)

// TestDescribeHasEverySetting changes each field of a configuration, one at a time, and
// checks that the description changes too.
func TestDescribeHasEverySetting(t *testing.T) {
	describe := func(c *Config) string {
		var b strings.Builder
		if err := c.Describe(&b); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	fields := settingsOf("Config", func(c *Config) reflect.Value { return reflect.ValueOf(c).Elem() })
	if len(fields) < 70 {
		t.Fatalf("only %d fields found", len(fields))
	}
	before := describe(everySetting())
	for _, f := range fields {
		c := everySetting()
		changeSetting(t, f.name, f.of(c))
		if describe(c) == before {
			t.Errorf("the description does not show %s", f.name)
		}
	}
}

// everySetting returns a configuration in which every part that Describe can leave out
// is present.
func everySetting() *Config {
	c := newConfig()
	c.Pins, c.HTTP.configured = PinsWarn, true
	c.HTTP.CertFile, c.HTTP.KeyFile = "/cert", "/key"
	c.HTTP.Tokens = []bearer.Token{{Name: "x", Rights: bearer.Rights{Expose: []string{"a"}, Hide: []string{"b"}}}}
	c.Store.NATS, c.Store.Keys = []string{"nats://a"}, []sealed.Key{{ID: "a"}}
	c.Telemetry.configured, c.Telemetry.OTLP, c.Telemetry.Listen = true, true, "127.0.0.1:9464"
	c.Upstreams = []Upstream{
		{Name: "a", Transport: Stdio, Command: "a", Expose: []string{"a"}, Hide: []string{"b"},
			Probe: &Probe{Call: "a", Params: []byte("{}"), Expect: &Expectation{Text: "a"}}},
		{Name: "b", Transport: StreamableHTTP, URL: "http://b", OAuth: &OAuth{ClientID: "a"}},
	}
	return c
}

// setting is a field of a configuration.
type setting struct {
	name string
	of   func(c *Config) reflect.Value
}

// settingsOf returns the fields of the value that of returns, and of the structs in it.
func settingsOf(name string, of func(c *Config) reflect.Value) (all []setting) {
	switch v := of(everySetting()); {
	case unshown[name], v.Kind() == reflect.Pointer && v.IsNil():
	case v.Kind() == reflect.Pointer:
		return settingsOf(name, func(c *Config) reflect.Value { return of(c).Elem() })
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Struct:
		for i := range v.Len() {
			all = append(all, settingsOf(fmt.Sprintf("%s[%d]", name, i), func(c *Config) reflect.Value { return of(c).Index(i) })...)
		}
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				all = append(all, settingsOf(name+"."+f.Name, func(c *Config) reflect.Value { return of(c).Field(i) })...)
			}
		}
	default:
		return []setting{{name, of}}
	}
	return all
}

// unshown are fields that are not settings, and fields that the transport of an upstream
// in everySetting does not have.
var unshown = map[string]bool{
	"Config.Searched": true, "Config.Secrets": true, "Config.Store.Keys[0].Secret": true, "Config.HTTP.Tokens[0].Digest": true,
	"Config.Upstreams[0].URL": true, "Config.Upstreams[0].Headers": true, "Config.Upstreams[0].Detect": true,
	"Config.Upstreams[1].Command": true, "Config.Upstreams[1].Args": true,
	"Config.Upstreams[1].Env": true, "Config.Upstreams[1].Dir": true,
}

// changeSetting gives a field a value that it did not have.
func changeSetting(t *testing.T, name string, v reflect.Value) {
	t.Helper()
	switch v.Interface().(type) {
	case bool:
		v.SetBool(!v.Bool())
		return
	case time.Duration:
		v.SetInt(v.Int() + int64(time.Hour))
		return
	case []byte:
		v.SetBytes([]byte("5"))
		return
	case []*regexp.Regexp:
		v.Set(reflect.ValueOf([]*regexp.Regexp{regexp.MustCompile("x")}))
		return
	case map[string]string:
		v.Set(reflect.ValueOf(map[string]string{"X": "x"}))
		return
	case []string:
		values := []string{"x", "y"}
		if name == "Config.Builtins.Off" {
			values = []string{BuiltinSwitches[0].Key}
		}
		v.Set(reflect.ValueOf(values))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(v.String() + "x")
	case reflect.Int, reflect.Int64:
		v.SetInt(v.Int() + 1<<20)
	case reflect.Uint64:
		v.SetUint(v.Uint() + 1<<20)
	default:
		t.Fatalf("%s: no value of type %s", name, v.Type())
	}
}
