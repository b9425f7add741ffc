package smoke

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/smoke/report"
	"github.com/mcp-metatool/mcp-metatool/tools/tomldoc"
)

// The bounds of the rows of a check.
const (
	maxRows     = 10_000
	maxRowsFile = 4 << 20 // bytes
)

// rowsSuffix is the suffix of TOML files with rows.
const rowsSuffix = ".rows.toml"

// row is the data for a result of a check with rows.
type row struct {
	number int // from 1; 0: the check has no rows
	values map[string]value
	cells  map[string]config.Span // where values are in the file of checks
	// columns are the columns of all rows of the check.
	columns map[string]bool
}

// report returns the row for reports. Secrets are not masked.
func (r row) report() report.Row {
	made := report.Row{Number: r.number}
	for _, name := range slices.Sorted(maps.Keys(r.values)) {
		v := r.values[name]
		text, ok := wire.Text(v.raw)
		if !ok || json.Valid([]byte(text)) { // a text such as 5 has quotes, to differ from a number
			text = string(v.raw)
		}
		if v.err == nil {
			made.Cells = append(made.Cells, report.Cell{Name: name, Value: text})
		}
	}
	return made
}

// rows returns the rows of a check; a single row without a number for a check without rows.
func (r *fileReader) rows(s *config.Section) []row {
	var rows []row
	switch {
	case !s.Has("rows"):
		return []row{{}}
	case s.IsString("rows"):
		rows = r.rowsInFile(s)
	case s.IsArray("rows"):
		for i, table := range s.Sections("rows") {
			rows = append(rows, r.inlineRow(table, i+1))
		}
		if len(rows) == 0 {
			s.Problem("rows", "is empty (write a table for each row)")
		}
	default:
		s.Know("rows")
		s.Problem("rows", `has to be an array of tables, or the name of a file: "cases.csv"`)
	}
	if len(rows) > maxRows {
		s.Problem("rows", "has %d rows, and %d are allowed", len(rows), maxRows)
		rows = rows[:1]
	}
	columns := map[string]bool{}
	for i := range rows {
		rows[i].columns = columns
		for name := range rows[i].values {
			columns[name] = true
		}
	}
	return rows
}

func (r *fileReader) inlineRow(s *config.Section, number int) row {
	filled := s.Fill(config.Filling{Value: noReference})
	made := row{number: number, values: map[string]value{}, cells: map[string]config.Span{}}
	for _, name := range s.Keys() {
		if missing := filled.Missing(name); missing != nil {
			made.values[name] = value{err: missing.Err}
			continue
		}
		raw := filled.JSON(name)
		made.values[name], made.cells[name] = value{raw: raw}, s.Written(name)
		s.Hide(secretTexts(name, raw)...)
	}
	return made
}

// rowsInFile reads a file of rows, and reports the faults of the file.
func (r *fileReader) rowsInFile(s *config.Section) []row {
	name, ok := s.String("rows")
	if !ok {
		return nil
	}
	if name == "" {
		s.Problem("rows", `is empty (name a file: "cases.csv")`)
		return nil
	}
	path := r.path(s, "rows", name)
	if path == "" {
		return nil
	}
	r.file.rowFiles = append(r.file.rowFiles, path)
	data, err := r.file.place(path).Read(r.context(), maxRowsFile)
	if err != nil {
		s.Problem("rows", "%s cannot be read: %v", name, reason(err))
		return nil
	}
	tables, err := parseRows(name, data)
	if err == nil && len(tables) == 0 {
		err = errors.New("has no rows")
	}
	if err != nil {
		s.Problem("rows", "%s %v", name, err)
		return nil
	}
	var rows []row
	for i, table := range tables {
		made := row{number: i + 1, values: map[string]value{}}
		for column, raw := range table {
			made.values[column] = value{raw: raw}
			s.Hide(secretTexts(column, raw)...)
		}
		rows = append(rows, made)
	}
	return rows
}

// parseRows parses the content of a file of rows: CSV with a header, a JSON array of
// objects, or TOML tables [[row]].
func parseRows(name string, data []byte) ([]map[string]json.RawMessage, error) {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	switch ext := filepath.Ext(name); {
	case ext == ".csv":
		return parseCSV(data)
	case ext == ".json":
		var rows []map[string]json.RawMessage
		err := json.Unmarshal(data, &rows)
		if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
			return nil, fmt.Errorf("is not JSON: %w, at byte %d", err, syntax.Offset)
		}
		if err != nil {
			return nil, errors.New("is not a JSON array of objects")
		}
		return rows, nil
	case strings.HasSuffix(name, rowsSuffix):
		return parseTOMLRows(data)
	case ext == ".toml":
		return nil, fmt.Errorf("would be taken for a file of checks (call it %s)", strings.TrimSuffix(filepath.Base(name), ext)+rowsSuffix)
	}
	return nil, errors.New("has to be a file *.csv, *.json or *" + rowsSuffix)
}

// parseCSV reads CSV (RFC 4180). The first record names the columns. A cell with JSON has the JSON
// value, and any other cell is text.
func parseCSV(data []byte) ([]map[string]json.RawMessage, error) {
	in := csv.NewReader(bytes.NewReader(data))
	columns, err := in.Read()
	if errors.Is(err, io.EOF) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("is not CSV: %w", err)
	}
	seen := map[string]bool{}
	for i, column := range columns {
		columns[i] = strings.TrimSpace(column)
		if column = columns[i]; !config.IsReferenceName(column) {
			return nil, fmt.Errorf("has the column %q, which no reference can name (use letters, digits, _ and -, and begin with a letter)", column)
		}
		if seen[column] {
			return nil, fmt.Errorf("has two columns %q", column)
		}
		seen[column] = true
	}
	var rows []map[string]json.RawMessage
	for {
		cells, err := in.Read()
		if errors.Is(err, io.EOF) {
			return rows, nil
		}
		if err != nil {
			return nil, fmt.Errorf("is not CSV: %w", err)
		}
		row := map[string]json.RawMessage{}
		for i, cell := range cells {
			row[columns[i]] = config.ValueOf(cell)
		}
		rows = append(rows, row)
	}
}

func parseTOMLRows(data []byte) ([]map[string]json.RawMessage, error) {
	var file struct{ Row []map[string]any }
	if _, err := tomldoc.Decode(string(data), &file); err != nil {
		return nil, fmt.Errorf("is not TOML: %w", err)
	}
	var rows []map[string]json.RawMessage
	for i, table := range file.Row {
		row := map[string]json.RawMessage{}
		for column, v := range table {
			raw, err := json.Marshal(v)
			if err != nil {
				return nil, fmt.Errorf("has a value that JSON does not have: row %d, %s", i+1, column)
			}
			row[column] = raw
		}
		rows = append(rows, row)
	}
	return rows, nil
}
