package pins

import (
	"fmt"
	"strings"
)

// String describes the change in a line, such as
//
//	tool "get-sum": inputSchema: property "a": type changed from "number" to "string"
func (c Change) String() string {
	item := fmt.Sprintf("%s %q", noun(c.Surface), c.Name)
	if c.Surface == About {
		item = fmt.Sprintf("server %q", c.Server)
	}
	if len(c.steps) == 0 {
		switch c.Kind {
		case Added:
			return item + " is new"
		case Removed:
			return item + " is gone"
		}
	}
	return item + ": " + c.describe()
}

// describe returns the change of the definition in words.
func (c Change) describe() string {
	parents, rest := c.place()
	names := make([]string, len(rest))
	for i, step := range rest {
		names[i] = plainName(step)
	}
	subject := strings.Join(names, ".")
	if len(rest) == 0 && len(parents) > 0 { // a whole property or argument
		parents, subject = parents[:len(parents)-1], parents[len(parents)-1]
	}
	return strings.Join(append(parents, c.event(rest, subject)), ": ")
}

// event describes the change of subject, the target of the steps.
func (c Change) event(steps []string, subject string) string {
	position := false // rather than an item of a set
	if n := len(c.steps); n > 0 {
		_, position = c.steps[n-1].(int)
	}
	if len(steps) == 2 && !position {
		switch key := steps[0] + " " + string(c.Kind); key {
		case "required added":
			return fmt.Sprintf("property %q is now required", steps[1])
		case "required removed":
			return fmt.Sprintf("property %q is no longer required", steps[1])
		case "enum added":
			return fmt.Sprintf("value %s is now allowed", c.Is)
		case "enum removed":
			return fmt.Sprintf("value %s is no longer allowed", c.Was)
		}
	}
	switch c.Kind {
	case Added:
		return fmt.Sprintf("%s was added: %s", subject, c.Is)
	case Removed:
		return fmt.Sprintf("%s was removed (it was %s)", subject, c.Was)
	}
	return fmt.Sprintf("%s changed from %s to %s", subject, c.Was, c.Is)
}

// place splits the path into the part with a description in words and the remaining steps.
func (c Change) place() (parents, rest []string) {
	for _, s := range c.steps {
		rest = append(rest, fmt.Sprint(s))
	}
	if len(rest) > 1 && (rest[0] == "inputSchema" || rest[0] == "outputSchema") {
		parents, rest = rest[:1:1], rest[1:]
	}
	for len(rest) >= 2 {
		switch rest[0] {
		case "properties":
			parents, rest = append(parents, fmt.Sprintf("property %q", rest[1])), rest[2:]
		case "arguments":
			parents, rest = append(parents, fmt.Sprintf("argument %q", rest[1])), rest[2:]
		case "items":
			parents, rest = append(parents, "items"), rest[1:]
		default:
			return parents, rest
		}
	}
	return parents, rest
}
