package tools

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

var mtime = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

const wholeFile = `{
  "version": "1.0",
  "name": "summary",
  "description": "Counts <open> issues & more",
  "inputSchema": {
    "type": "object",
    "z": 12345678901234567890.10,
    "properties": {
      "b": {
        "maximum": 1E3
      },
      "a": {
        "$ref": "#/properties/b"
      }
    },
    "title": "caf\u00e9\/"
  },
  "outputSchema": {
    "type": "array"
  },
  "code": "x = 1\nreturn x < 2 and \"é\"",
  "metadata": {
    "created": "2026-01-02T03:04:05Z",
    "modified": "2026-01-02T03:04:05.678Z",
    "executionCount": 7,
    "lastExecuted": "2026-02-03T04:05:06Z",
    "author": {
      "id": 18446744073709551616
    }
  },
  "rights": [
    "github.*"
  ],
  "Name": "not the name"
}`

func TestFileFormat(t *testing.T) {
	d, err := decodeFile([]byte(wholeFile), "summary", mtime)
	if err != nil {
		t.Fatal(err)
	}
	want := Definition{
		Name:         "summary",
		Description:  "Counts <open> issues & more",
		InputSchema:  []byte(`{"type":"object","z":12345678901234567890.10,"properties":{"b":{"maximum":1E3},"a":{"$ref":"#/properties/b"}},"title":"caf\u00e9\/"}`),
		OutputSchema: []byte(`{"type":"array"}`),
		Code:         "x = 1\nreturn x < 2 and \"é\"",
		Metadata: Metadata{
			Created:        time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
			Modified:       time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.UTC),
			ExecutionCount: 7,
			LastExecuted:   time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC),
			Extra:          []Member{{"author", []byte(`{"id":18446744073709551616}`)}},
		},
		Extra: []Member{{"rights", []byte(`["github.*"]`)}, {"Name", []byte(`"not the name"`)}},
	}
	if !reflect.DeepEqual(d, want) {
		t.Errorf("got  %+v\nwant %+v", d, want)
	}
	again, err := d.File()
	if err != nil || strings.TrimSpace(string(again)) != wholeFile {
		t.Errorf("%v, written as\n%s", err, again)
	}
}

func TestNewToolFile(t *testing.T) {
	d := Definition{Name: "a", InputSchema: []byte(`{"type":"object"}`), Code: "return 1", Metadata: Metadata{Created: mtime, Modified: mtime}}
	got, err := d.File()
	const want = `{
  "version": "1.0",
  "name": "a",
  "description": "",
  "inputSchema": {
    "type": "object"
  },
  "code": "return 1",
  "metadata": {
    "created": "2026-03-04T05:06:07Z",
    "modified": "2026-03-04T05:06:07Z",
    "executionCount": 0
  }
}
`
	if err != nil || string(got) != want {
		t.Errorf("%v\n%s", err, got)
	}
}

func TestSparseFile(t *testing.T) {
	d, err := decodeFile([]byte(`{"version":"1.0","name":"a","inputSchema":{"type":"object"},"outputSchema":null,"code":"1","metadata":{"created":"2025-01-02T03:04:05+02:00","lastExecuted":null}}`), "a", mtime)
	if err != nil {
		t.Fatal(err)
	}
	if m := d.Metadata; !m.Modified.Equal(mtime) || m.Created.Format(time.RFC3339) != "2025-01-02T01:04:05Z" || !m.LastExecuted.IsZero() || d.OutputSchema != nil {
		t.Errorf("got %+v", d)
	}
}

func TestBadFiles(t *testing.T) {
	const rest = `"inputSchema":{"type":"object"},"code":"1"`
	for in, want := range map[string]string{
		``:                             `not valid JSON`,
		`{"version":"1.0",`:            `not valid JSON: unexpected EOF (at byte 17)`,
		`[]`:                           `not a JSON object`,
		`{} {}`:                        `not valid JSON`,
		`{"name":"a",` + rest + `}`:    `"version" is missing`,
		`{"version":1.0}`:              `"version" is not a string`,
		`{"version":"2.0","name":"b"}`: `its version "2.0" is not known (this program reads "1.0")`,
		`{"version":"1.0","Name":"a",` + rest + `}`:                                          `"name" is missing`,
		`{"version":"1.0","name":"b",` + rest + `}`:                                          `it says its name is "b", which does not match that of the file`,
		`{"version":"1.0","name":"a","name":"a",` + rest + `}`:                               `duplicate`,
		`{"version":"1.0","name":"a","inputSchema":{}}`:                                      `"code" is missing`,
		`{"version":"1.0","name":"a","inputSchema":{},"code":5}`:                             `"code" is not a string`,
		`{"version":"1.0","name":"a","inputSchema":{},"code":""}`:                            `"code" is empty`,
		`{"version":"1.0","name":"a",` + rest + `,"metadata":[]}`:                            `metadata: not a JSON object`,
		`{"version":"1.0","name":"a",` + rest + `,"metadata":{"created":"yesterday"}}`:       `metadata.created "yesterday" is not a time like`,
		`{"version":"1.0","name":"a",` + rest + `,"metadata":{"executionCount":-1}}`:         `metadata.executionCount -1 is not a count`,
		`{"version":"1.0","name":"a",` + rest + `,"metadata":{"executionCount":1.5}}`:        `metadata.executionCount 1.5 is not a count`,
		`{"version":"1.0","name":"a",` + rest + `,"metadata":{"executionCount":1e30}}`:       `metadata.executionCount 1e30 is not a count`,
		"{\"version\":\"1.0\",\"name\":\"a\"," + rest + ",\"description\":\"\xff\"}":         `invalid UTF-8`,
		`{"version":"1.0","name":"a",` + rest + `,"x":"` + strings.Repeat("x", 4<<20) + `"}`: `bytes long (at most 4194304)`,
	} {
		_, err := decodeFile([]byte(in), "a", mtime)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s:\ngot  %v\nwant %s", display.Clip(in, 200), err, want)
		}
	}
}

func FuzzDecodeFile(f *testing.F) {
	f.Add([]byte(wholeFile))
	f.Add([]byte(`{"version":"1.0","name":"summary","inputSchema":{"type":"object"},"code":"1"}`))
	f.Add([]byte(`{"version":"1.0","name":"summary","inputSchema":{"type":"object"},"limits":{"fuel":10000000,"memory":"64 mb","timeout":"5s","calls":1,"x":1e5},"code":"1"}`))
	f.Add([]byte(`{"version":"1.0","name":"summary","inputSchema":null,"code":"\ud83d\ude00","metadata":{"created":"9999-12-31T23:59:59-12:00"}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := decodeFile(data, "summary", mtime)
		if err != nil || d.checkSchemas() != nil {
			return
		}
		again, err := d.File()
		if err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		e, err := decodeFile(again, "summary", mtime)
		if err != nil || e.checkSchemas() != nil {
			t.Fatalf("what was written cannot be read: %v\n%s", err, again)
		}
		if !reflect.DeepEqual(d, e) {
			t.Fatalf("written and read again:\n%+v\n%+v", d, e)
		}
	})
}
