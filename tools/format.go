package tools

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcp-metatool/mcp-metatool/tools/display"
	"github.com/mcp-metatool/mcp-metatool/tools/jsonvalue"
)

const (
	// FormatVersion is the "version" of tool files.
	FormatVersion = "1.0"
	// MaxFileBytes is the largest tool file in bytes.
	MaxFileBytes = 4 << 20
)

// compact removes white space from a JSON value and changes nothing else.
func compact(raw []byte) (json.RawMessage, error) {
	return jsontext.AppendFormat(nil, raw,
		jsontext.PreserveRawStrings(true), jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false))
}

// File returns the definition as a file, in the format of the specification ("Storage Format"),
// indented by two spaces: version, name, description, inputSchema, outputSchema, limits, durable,
// inDoubt, permissions and labels if present, code, metadata, then the unknown members. A file
// larger than MaxFileBytes is an error.
func (d *Definition) File() ([]byte, error) {
	var b bytes.Buffer
	w := fileWriter{enc: jsontext.NewEncoder(&b, jsontext.WithIndent("  "), jsontext.PreserveRawStrings(true))}
	w.token(jsontext.BeginObject)
	w.text("version", FormatVersion)
	w.text("name", d.Name)
	w.text("description", d.Description)
	w.raw("inputSchema", d.InputSchema)
	if d.OutputSchema != nil {
		w.raw("outputSchema", d.OutputSchema)
	}
	if limits := d.Limits.JSON(); limits != nil {
		w.raw("limits", limits)
	}
	d.Durability.members(&w)
	if permissions := d.Permissions.JSON(); permissions != nil {
		w.raw("permissions", permissions)
	}
	if len(d.Labels) > 0 {
		raw, err := json.Marshal(d.Labels)
		if err != nil && w.err == nil {
			w.err = err
		}
		w.raw("labels", raw)
	}
	w.text("code", d.Code)
	w.token(jsontext.String("metadata"))
	w.token(jsontext.BeginObject)
	w.text("created", stamp(d.Metadata.Created))
	w.text("modified", stamp(d.Metadata.Modified))
	w.raw("executionCount", strconv.AppendInt(nil, d.Metadata.ExecutionCount, 10))
	if !d.Metadata.LastExecuted.IsZero() {
		w.text("lastExecuted", stamp(d.Metadata.LastExecuted))
	}
	w.members(d.Metadata.Extra)
	w.token(jsontext.EndObject)
	w.members(d.Extra)
	w.token(jsontext.EndObject)
	if w.err != nil {
		return nil, w.err
	}
	if b.Len() > MaxFileBytes {
		return nil, fmt.Errorf("its file would be %d bytes long (at most %d)", b.Len(), MaxFileBytes)
	}
	return b.Bytes(), nil
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

type fileWriter struct {
	enc *jsontext.Encoder
	err error
}

func (w *fileWriter) token(t jsontext.Token) {
	if w.err == nil {
		w.err = w.enc.WriteToken(t)
	}
}

func (w *fileWriter) text(name, value string) {
	w.token(jsontext.String(name))
	w.token(jsontext.String(value))
}

func (w *fileWriter) raw(name string, value []byte) {
	w.token(jsontext.String(name))
	if w.err == nil {
		w.err = w.enc.WriteValue(value)
	}
}

func (w *fileWriter) members(list []Member) {
	for _, m := range list {
		w.raw(m.Name, m.Value)
	}
}

// decodeFile decodes a tool file called name+".json" with the given modification time. Everything
// except the schemas is checked.
func decodeFile(data []byte, name string, modified time.Time) (Definition, error) {
	return decodeTool(data, name, modified, true)
}

// decodeTool is decodeFile for files that may lack a version.
func decodeTool(data []byte, name string, modified time.Time, versioned bool) (Definition, error) {
	var d Definition
	if len(data) > MaxFileBytes {
		return d, fmt.Errorf("is %d bytes long (at most %d)", len(data), MaxFileBytes)
	}
	top, err := readObject(data)
	if err != nil {
		return d, err
	}
	r := fileReader{members: top}
	version := r.text("version", versioned)
	if r.err == nil && version != FormatVersion && (versioned || version != "") {
		return d, fmt.Errorf(`its version %q is not known (this program reads %q)`, display.Clip(version, 20), FormatVersion)
	}
	d.Name = r.text("name", true)
	d.Description = r.text("description", false)
	d.InputSchema = r.raw("inputSchema")
	d.OutputSchema = r.raw("outputSchema")
	d.Limits = r.limits()
	d.Durability = r.durability()
	d.Permissions = r.permissions()
	d.Labels = r.labels()
	d.Code = r.text("code", true)
	d.Metadata = r.metadata(modified)
	d.Extra = r.rest()
	if r.err != nil {
		return d, r.err
	}
	if err := CheckName(name); err != nil {
		return d, err
	}
	if d.Name != name {
		return d, fmt.Errorf("it says its name is %q, which does not match that of the file (rename one of them)", display.Clip(d.Name, 80))
	}
	if d.Code == "" {
		return d, errors.New(`"code" is empty`)
	}
	return d, nil
}

// ParseFile decodes a tool file of any name. A file without a version, such as the arguments of
// save_tool, is read as FormatVersion. The error describes the fault.
func ParseFile(data []byte) (Definition, error) {
	var named struct {
		Name string `json:"name"`
	}
	// For a file without a valid name, decodeFile returns the error.
	_ = json.Unmarshal(data, &named)
	d, err := decodeTool(data, named.Name, time.Now(), false)
	if err == nil {
		err = d.Check()
	}
	return d, err
}

// ParseExtra decodes an object of unknown members for Definition.Extra. Members known to this
// program are an error.
func ParseExtra(raw []byte) ([]Member, error) {
	members, err := readObject(raw)
	if err != nil {
		return nil, err
	}
	for _, m := range members {
		if slices.Contains(fileMembers, m.Name) {
			return nil, fmt.Errorf("%q is not an unknown member of a tool", m.Name)
		}
	}
	return members, nil
}

// fileMembers are the members of a tool file known to this program.
var fileMembers = []string{"version", "name", "description", "inputSchema", "outputSchema", "limits", "durable", "inDoubt", "permissions", "code", "metadata"}

// Check checks a definition as [Store.Save] does, and converts the schemas to the form in
// which they are stored.
func (d *Definition) Check() error {
	if err := CheckName(d.Name); err != nil {
		return err
	}
	if d.Code == "" {
		return fmt.Errorf("tool %q: code is empty", d.Name)
	}
	if err := d.Durability.Check(); err != nil {
		return fmt.Errorf("tool %q: %w", d.Name, err)
	}
	if !utf8.ValidString(d.Description) || !utf8.ValidString(d.Code) {
		return fmt.Errorf("tool %q: description or code is not valid UTF-8", d.Name)
	}
	if err := d.checkSchemas(); err != nil {
		return fmt.Errorf("tool %q: %w", d.Name, err)
	}
	var err error
	if d.InputSchema, err = compact(d.InputSchema); err != nil {
		return fmt.Errorf("tool %q: inputSchema: %w", d.Name, err)
	}
	if d.OutputSchema != nil {
		if d.OutputSchema, err = compact(d.OutputSchema); err != nil {
			return fmt.Errorf("tool %q: outputSchema: %w", d.Name, err)
		}
	}
	return nil
}

// readObject splits a JSON object into members and compacts the values.
func readObject(data []byte) ([]Member, error) {
	flat, err := compact(data)
	if err != nil {
		var se *jsontext.SyntacticError
		if errors.As(err, &se) {
			err = fmt.Errorf("%w (at byte %d)", se.Err, se.ByteOffset)
		}
		return nil, fmt.Errorf("not valid JSON: %w", err)
	}
	dec := jsontext.NewDecoder(bytes.NewBuffer(flat))
	if dec.PeekKind() != '{' {
		return nil, errors.New("not a JSON object")
	}
	if _, err := dec.ReadToken(); err != nil {
		return nil, err
	}
	var out []Member
	for dec.PeekKind() != '}' {
		name, err := dec.ReadToken()
		if err != nil {
			return nil, err
		}
		m := Member{Name: name.String()}
		v, err := dec.ReadValue()
		if err != nil {
			return nil, err
		}
		m.Value = bytes.Clone(v)
		out = append(out, m)
	}
	return out, nil
}

// fileReader removes members from an object by their exact names and keeps the first error.
type fileReader struct {
	members []Member // remaining members
	err     error
}

// raw removes a member; the result is nil if the member is absent or null.
func (r *fileReader) raw(name string) json.RawMessage {
	for i, m := range r.members {
		if m.Name == name {
			r.members = append(r.members[:i:i], r.members[i+1:]...)
			if string(m.Value) == "null" {
				return nil
			}
			return m.Value
		}
	}
	return nil
}

// rest returns the remaining members; nil without any.
func (r *fileReader) rest() []Member {
	if len(r.members) == 0 {
		return nil
	}
	return r.members
}

func (r *fileReader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf(format, args...)
	}
}

func (r *fileReader) text(name string, required bool) string {
	v := r.raw(name)
	if v == nil {
		if required {
			r.fail("%q is missing", name)
		}
		return ""
	}
	text, err := jsontext.AppendUnquote(nil, v)
	if v[0] != '"' || err != nil {
		r.fail("%q is not a string", name)
	}
	return string(text)
}

// time removes an ISO 8601 time in the RFC 3339 profile; if the time is absent, null or "", the
// result is fallback.
func (r *fileReader) time(name string, fallback time.Time) time.Time {
	text := r.text(name, false)
	if text == "" {
		return fallback
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil || t.UTC().Year() < 0 || t.UTC().Year() > 9999 {
		r.fail("metadata.%s %q is not a time like 2026-01-31T12:00:00Z", name, display.Clip(text, 40))
	}
	return t.UTC()
}

func (r *fileReader) limits() Limits {
	v := r.raw("limits")
	if v == nil {
		return Limits{}
	}
	l, err := ParseLimits(v)
	if err != nil {
		r.fail("%w", err)
	}
	return l
}

func (r *fileReader) permissions() *Permissions {
	v := r.raw("permissions")
	if v == nil {
		return nil
	}
	p, err := ParsePermissions(v)
	if err != nil {
		r.fail("%w", err)
	}
	return p
}

// labels reads the labels. Anything but a list of texts is an error: nothing must be lost.
func (r *fileReader) labels() (list []string) {
	v := r.raw("labels")
	if v == nil {
		return nil
	}
	if err := jsonvalue.Unmarshal(v, &list); err != nil {
		r.fail(`"labels" is not a list of texts`)
	}
	return list
}

func (r *fileReader) metadata(modified time.Time) Metadata {
	m := Metadata{Created: modified.UTC(), Modified: modified.UTC()}
	v := r.raw("metadata")
	if v == nil {
		return m
	}
	members, err := readObject(v)
	if err != nil {
		r.fail("metadata: %w", err)
		return m
	}
	in := fileReader{members: members}
	m.Created = in.time("created", m.Created)
	m.Modified = in.time("modified", m.Modified)
	m.LastExecuted = in.time("lastExecuted", time.Time{})
	if n := in.raw("executionCount"); n != nil {
		count, err := strconv.ParseInt(string(n), 10, 64)
		if err != nil || count < 0 {
			in.fail("metadata.executionCount %s is not a count", display.Clip(string(n), 40))
		}
		m.ExecutionCount = count
	}
	m.Extra = in.rest()
	if in.err != nil {
		r.fail("%w", in.err)
	}
	return m
}
