package smoke

import (
	"errors"
	"fmt"
	"github.com/mcp-metatool/mcp-metatool/tools/lazyregexp"
	"slices"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/host/config"
)

var tagPattern = lazyregexp.New(`^[A-Za-z0-9_][A-Za-z0-9_.:/-]*$`)

// readTags reads an array of tags.
func readTags(s *config.Section, key string) []string {
	var tags []string
	for i, tag := range s.Strings(key) {
		if !tagPattern.MatchString(tag) {
			s.Problem(fmt.Sprintf("%s[%d]", key, i), "%q is not a tag (use letters, digits and _ . : / -)", tag)
		} else if !slices.Contains(tags, tag) {
			tags = append(tags, tag)
		}
	}
	return tags
}

// ParseTags reads the tags that checks must have: at least one of the tags of list, if any, and
// none of the tags with ! before them. An item can be several tags with commas between them. The
// result is nil if list is empty.
func ParseTags(list []string) (func(tags []string) bool, error) {
	var want, refuse []string
	for _, item := range list {
		for tag := range strings.SplitSeq(item, ",") {
			name, not := strings.CutPrefix(strings.TrimSpace(tag), "!")
			switch {
			case !tagPattern.MatchString(name):
				return nil, fmt.Errorf("%q is not a tag (want NAME or !NAME)", tag)
			case not:
				refuse = append(refuse, name)
			default:
				want = append(want, name)
			}
		}
	}
	for _, tag := range want {
		if slices.Contains(refuse, tag) {
			return nil, errors.New("no check can have the tag " + tag + " and not have it")
		}
	}
	if want == nil && refuse == nil {
		return nil, nil
	}
	return func(tags []string) bool {
		has := func(tag string) bool { return slices.Contains(tags, tag) }
		return (want == nil || slices.ContainsFunc(want, has)) && !slices.ContainsFunc(refuse, has)
	}, nil
}
