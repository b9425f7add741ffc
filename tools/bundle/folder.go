package bundle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/tools"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// folder is the folder of a bundle, with the number of bytes that may still be read.
type folder struct {
	root *os.Root
	left int64
}

func openFolder(dir string) (*folder, error) {
	root, err := regular.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &folder{root, MaxBytes}, nil
}

// Read reads a bundle: a file, or every *.toml in a folder. A file with the extension .json is a
// tool in the format of the store. The path itself may be a symbolic link; links below it are not
// followed. An [*Error] means that the bundle is wrong.
func Read(ctx context.Context, path string) ([]Tool, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return readFolder(path)
	}
	if filepath.Ext(path) == ".star" {
		return nil, &Error{File: path, Text: "is a script, which has neither a description nor an input schema " +
			"(write a TOML file that has them, and names the script in code_file)"}
	}
	data, err := regular.Read(ctx, path, MaxBytes)
	if errors.Is(err, regular.ErrNotRegular) {
		return nil, &Error{File: path, Text: "is neither a regular file nor a folder", Err: err}
	}
	if sized := new(regular.SizeError); errors.As(err, &sized) {
		return nil, &Error{File: path, Text: sized.Error(), Err: err}
	}
	if err != nil {
		return nil, err
	}
	if filepath.Ext(path) == ".json" {
		return readStored(data, path)
	}
	f, err := openFolder(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer f.root.Close()
	return parse(data, path, f)
}

func readStored(data []byte, path string) ([]Tool, error) {
	d, err := tools.ParseFile(data)
	if err != nil {
		return nil, &Error{File: path, Text: err.Error(), Err: err}
	}
	d.Metadata = tools.Metadata{} // the metadata is from another machine
	return []Tool{{Definition: d}}, nil
}

func readFolder(dir string) ([]Tool, error) {
	f, err := openFolder(dir)
	if err != nil {
		return nil, err
	}
	defer f.root.Close()
	names, err := namesIn(f.root, ".")
	if err != nil {
		return nil, &Error{File: dir, Text: err.Error(), Err: err}
	}
	var out []Tool
	for _, name := range names {
		if filepath.Ext(name) != tomlSuffix || strings.HasPrefix(name, ".") {
			continue
		}
		data, err := readText(f.root, name, &f.left)
		if err != nil {
			return nil, inFolder(dir, err)
		}
		list, err := parse([]byte(data), name, f)
		if err != nil {
			return nil, inFolder(dir, err)
		}
		out = append(out, list...)
	}
	if err := checkClashes(out, dir); err != nil {
		return nil, err
	}
	slices.SortFunc(out, func(a, b Tool) int { return cmp.Compare(a.Name, b.Name) })
	return out, checkOrphans(dir, names, out)
}

// checkOrphans requires a tool for each script; otherwise a script would be silently left out.
func checkOrphans(dir string, names []string, list []Tool) error {
	for _, name := range names {
		tool, ok := strings.CutSuffix(name, scriptSuffix)
		if ok && !slices.ContainsFunc(list, func(t Tool) bool { return t.Name == tool }) {
			return &Error{File: filepath.Join(dir, name), Text: fmt.Sprintf("belongs to no tool (write %s%s for it)", tool, tomlSuffix)}
		}
	}
	return nil
}

// inFolder prepends the folder to the file name in an error.
func inFolder(dir string, err error) error {
	var e *Error
	if errors.As(err, &e) {
		e.File = filepath.Join(dir, e.File)
	}
	return err
}
