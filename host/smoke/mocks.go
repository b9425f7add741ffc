package smoke

import (
	"context"
	"errors"
	"fmt"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/journal/cassette"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// Mock answers the calls of a script.
type Mock struct {
	// File is the path of the cassette; "" if the answers are in the check.
	File string
	// Inline are the answers in the check.
	Inline []cassette.Interaction

	place func(path string) regular.Place // the place of File
}

// mock reads the mocks of a check; nil if the upstreams answer.
func (r *fileReader) mock(s *config.Section) *Mock {
	switch {
	case !s.Has("mock"):
		s.Know("mock")
		return nil
	case s.IsString("mock"):
		text, ok := s.String("mock")
		if ok && text == "" {
			s.Problem("mock", "is empty (name a cassette, or leave it out)")
		}
		return &Mock{File: r.path(s, "mock", text), place: r.file.place}
	case !s.IsArray("mock"):
		s.Know("mock")
		s.Problem("mock", "has to be the name of a cassette or tables [[check.mock]]")
		return nil
	}
	m := &Mock{Inline: []cassette.Interaction{}}
	for i, table := range s.Sections("mock") {
		interaction, err := cassette.FromTOML(table.Values(), cassette.Subset)
		var field *cassette.FieldError
		switch {
		case errors.As(err, &field):
			table.Problem(field.Key, "%s", field.Text)
		case err != nil:
			table.Problem("", "%v", err)
		default:
			line, _ := table.Place("")
			interaction.From = fmt.Sprintf("%s:%d", r.file.Path, line)
			if line == 0 {
				interaction.From = fmt.Sprintf("mock %d", i+1)
			}
			m.Inline = append(m.Inline, interaction)
		}
	}
	return m
}

// cassette returns a new cassette for a run.
func (m *Mock) cassette(ctx context.Context) (*cassette.Cassette, error) {
	if m.File == "" {
		return cassette.New(m.Inline...)
	}
	return cassette.Read(ctx, m.place(m.File))
}
