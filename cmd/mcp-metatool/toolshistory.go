package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcp-metatool/mcp-metatool/tools"
	"github.com/mcp-metatool/mcp-metatool/tools/bundle"
	"github.com/mcp-metatool/mcp-metatool/tools/change"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

func historyCommand() *cobra.Command {
	v := &storeView{}
	var between string
	cmd := v.command("history [NAME]", "List the versions of a saved or deleted tool, or what changed between two",
		cobra.MaximumNArgs(1), func(v *storeView, args []string) error {
			switch {
			case len(args) == 0 && between != "":
				return &exitError{exitUsage, errors.New("tools history: --diff: give the NAME of a tool")}
			case len(args) == 0:
				return v.histories()
			case between != "":
				return v.difference(args[0], between)
			}
			return v.history(args[0])
		})
	cmd.Long = fmt.Sprintf(`List the versions of a saved or deleted tool, newest first; without a NAME, list
the tools that have any.

Whenever a tool is changed, deleted, imported or reverted, its previous content
becomes a version, whoever does so. Execution counts and manual edits of the files
make no versions. The newest %d versions of each tool are kept, also those of the
%d tools that were deleted last, as files under tools/.history in the store's
directory. If a version cannot be kept, for example because the disk is full, the
tool is not changed or deleted.

CHANGED lists the differences from the version before.`, tools.MaxVersions, tools.MaxDeleted)
	cmd.Example = `  mcp-metatool tools history report
  mcp-metatool tools history report --diff 3      # from version 3 to now
  mcp-metatool tools history report --diff 2..3`
	cmd.Flags().StringVar(&between, "diff", "", "show what changed from version `N` to now, or with N..M to version M")
	return cmd
}

func revertCommand() *cobra.Command {
	cmd := storeCommand("revert NAME [VERSION]", "Restore a version of a saved or deleted tool",
		cobra.RangeArgs(1, 2), revertTool)
	cmd.Long = `Restore a version of a saved or deleted tool, see tools history.

Without a VERSION, the newest one that differs from the current content is
restored. The content that is replaced becomes a version itself.`
	return cmd
}

// listedVersion is one version of a tool in the output of tools history --json.
type listedVersion struct {
	Version int        `json:"version,omitempty"` // 0 is the current one
	Saved   *time.Time `json:"saved,omitempty"`
	Ended   *time.Time `json:"ended,omitempty"`
	EndedBy string     `json:"endedBy,omitempty"`
	// Changed are the members in which it differs from the version before; null if
	// that is not known.
	Changed []string `json:"changed"`
	Size    int64    `json:"size"` // of its file
	Hash    string   `json:"hash,omitempty"`
	Problem string   `json:"problem,omitempty"`
}

// versions returns the current version of a tool, if it is not deleted, and its earlier
// versions, newest first.
func (v *storeView) versions(name string) ([]tools.Version, error) {
	versions, err := v.History(name)
	if err != nil {
		return nil, v.explain(name, err)
	}
	current, err := v.Get(name)
	switch {
	case errors.Is(err, tools.ErrNotFound):
		return versions, nil
	case err != nil:
		return nil, err
	}
	file, err := current.File()
	now := tools.Version{Definition: current, Size: int64(len(file)), Problem: err}
	return append([]tools.Version{now}, versions...), nil
}

func (v *storeView) history(name string) error {
	versions, err := v.versions(name)
	if err != nil {
		return err
	}
	list := make([]listedVersion, len(versions))
	for i := range versions {
		var before *tools.Version
		if i+1 < len(versions) {
			before = &versions[i+1]
		}
		list[i] = listed(&versions[i], before)
	}
	if v.asJSON {
		return writeJSON(v.out, list)
	}
	t := newTable(v.out)
	t.head("VERSION", "SAVED", "ENDED", "BY", "CHANGED", right("SIZE"), "HASH")
	for _, l := range list {
		number, ended := "now", display.Cell{}
		if l.Version > 0 {
			number, ended = strconv.Itoa(l.Version), timeCell(*l.Ended)
		}
		if l.Problem != "" {
			t.row(number, "", ended, l.EndedBy, "unreadable: "+display.Line(l.Problem, 60), display.Size(uint64(l.Size)), "-")
			continue
		}
		t.row(number, *l.Saved, ended, l.EndedBy, strings.Join(l.Changed, ", "), display.Size(uint64(l.Size)), l.Hash[:12])
	}
	return t.flush()
}

// listed returns v for the output. before is the version before it, nil if not known.
func listed(v, before *tools.Version) listedVersion {
	l := listedVersion{Version: v.Number, Size: v.Size, EndedBy: string(v.EndedBy)}
	if v.Number > 0 {
		l.Ended = &v.Ended
	}
	if v.Problem != nil {
		l.Problem = v.Problem.Error()
		return l
	}
	l.Saved, l.Hash = &v.Definition.Metadata.Modified, v.Definition.Hash()
	if before != nil && before.Problem == nil {
		l.Changed = append([]string{}, v.Definition.Changes(&before.Definition)...)
	}
	return l
}

// listedHistory is one tool in the output of tools history --json without NAME.
type listedHistory struct {
	Name     string    `json:"name"`
	Versions int       `json:"versions"`
	Last     time.Time `json:"last"` // when the last one ended
	Deleted  bool      `json:"deleted"`
}

func (v *storeView) histories() error {
	names, err := v.Histories()
	if err != nil {
		return err
	}
	list := []listedHistory{}
	for _, name := range names {
		versions, err := v.History(name)
		if err != nil || len(versions) == 0 {
			continue // removed in the meantime
		}
		_, err = v.Get(name)
		list = append(list, listedHistory{name, len(versions), versions[0].Ended, errors.Is(err, tools.ErrNotFound)})
	}
	if v.asJSON {
		return writeJSON(v.out, list)
	}
	if len(list) == 0 {
		_, err := fmt.Fprintln(v.out, "no tool has versions")
		return err
	}
	t := newTable(v.out)
	t.head("NAME", right("VERSIONS"), "LAST CHANGE", "")
	for _, h := range list {
		state := ""
		if h.Deleted {
			state = "deleted"
		}
		t.row(h.Name, h.Versions, h.Last, state)
	}
	return t.flush()
}

// difference shows what changed between two versions: "N..M", or "N" for N..now.
func (v *storeView) difference(name, between string) error {
	versions, err := v.versions(name)
	if err != nil {
		return err
	}
	first, last, both := strings.Cut(between, "..")
	if !both {
		last = "now"
	}
	var texts [2][]byte
	for i, number := range []string{first, last} {
		version, err := findVersion(versions, number)
		if err == nil {
			texts[i], err = bundle.Review(&version.Definition)
		}
		if err != nil {
			return &exitError{exitUsage, fmt.Errorf("tool %q: --diff %s: %w", name, between, err)}
		}
	}
	text := change.Diff(name+" "+first, texts[0], name+" "+last, texts[1])
	if text == "" {
		text = fmt.Sprintf("%s and %s are the same\n", first, last)
	}
	_, err = fmt.Fprint(raw(v.out), colorDiff(v.out, text))
	return err
}

// findVersion finds a version by its number, "now" for the current one.
func findVersion(versions []tools.Version, number string) (*tools.Version, error) {
	n, err := strconv.Atoi(number)
	if number == "now" {
		n, err = 0, nil
	}
	if err != nil || n < 0 {
		return nil, fmt.Errorf("%q is not the number of a version (write N or N..M)", number)
	}
	for i := range versions {
		if versions[i].Number == n {
			return &versions[i], versions[i].Problem
		}
	}
	if n == 0 {
		return nil, errors.New("it is deleted (write N..M)")
	}
	return nil, fmt.Errorf("%w: %d", tools.ErrNoVersion, n)
}

func revertTool(v *storeView, args []string) error {
	name, number := args[0], 0
	if len(args) == 2 {
		n, err := strconv.Atoi(args[1])
		if err != nil || n < 1 {
			return &exitError{exitUsage, fmt.Errorf("%q is not the number of a version (tools history %s lists them)", args[1], name)}
		}
		number = n
	}
	to, changed, err := v.Revert(name, number)
	switch {
	case errors.Is(err, tools.ErrNoVersion):
		return fmt.Errorf("%w (tools history %s lists the versions)", err, name)
	case err != nil:
		return v.explain(name, err)
	}
	if v.asJSON {
		return writeJSON(v.out, map[string]any{"name": name, "version": to.Number, "changed": changed})
	}
	if !changed {
		_, err = fmt.Fprintf(v.out, "%s is the same as version %d already\n", name, to.Number)
		return err
	}
	_, err = fmt.Fprintf(v.out, "%s restored to version %d, saved %s\n", name, to.Number, stamp(to.Definition.Metadata.Modified))
	return err
}
