package smoke

import (
	"fmt"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/smoke/expect"
	"github.com/mcp-metatool/mcp-metatool/tools"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// readPermissions reads the largest expected permissions of a script.
func readPermissions(_ *fileReader, s *config.Section, key string) (matcher, updater) {
	allowed := s.Strings(key)
	for _, target := range allowed {
		if err := tools.CheckTarget(target); err != nil {
			s.Problem(key, "%q %v", display.Clip(target, 80), err)
			return nil, nil
		}
	}
	return func(a *answer) *expect.Mismatch {
			p, m := a.permissions()
			if m != nil {
				return m
			}
			var more []string
			for _, target := range p.List() {
				if !tools.Covers(allowed, target) {
					more = append(more, target)
				}
			}
			if more == nil {
				return nil
			}
			return &expect.Mismatch{
				Message: fmt.Sprintf("the script may call more than that: %s", display.Line(strings.Join(more, ", "), 1000)),
				Want:    "at most " + targets(allowed), Got: targets(p.List()),
			}
		}, func(a *answer) (string, error) {
			p, m := a.permissions()
			if m != nil {
				return "", m
			}
			return tomlStrings(p.List()), nil
		}
}

// targets lists targets for a message.
func targets(list []string) string {
	if len(list) == 0 {
		return "nothing"
	}
	return strings.Join(list, ", ")
}

// permissions returns the permissions of the script that has answered.
func (a *answer) permissions() (*tools.Permissions, *expect.Mismatch) {
	if a.run == nil {
		return nil, &expect.Mismatch{Message: "only scripts have this, and the answer is not from a script"}
	}
	p := a.run.Definition.Permissions
	if !p.Of(a.run.Definition.Code) {
		return nil, &expect.Mismatch{Message: "what the script may call is not known"}
	}
	return p, nil
}
