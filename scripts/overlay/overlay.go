// Package overlay writes overlays for the go command (go help build, -overlay): edited copies of
// files of the standard library, and other contents for files of this repository.
package overlay

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Edit replaces a place in a file of the standard library.
type Edit struct {
	File string // below GOROOT/src, with slashes
	Old  string // occurs once
	New  string
}

// Write writes the overlay NAME.json into dir, with the files named in the overlay, and returns the
// path. replaced has the contents of other files by their absolute paths. Write fails if a place to
// edit does not occur exactly once.
func Write(dir, name string, edits []Edit, replaced map[string][]byte) (string, error) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return "", err
	}
	contents := map[string][]byte{}
	for path, content := range replaced {
		contents[path] = content
	}
	for _, e := range edits {
		original := filepath.Join(strings.TrimSpace(string(root)), "src", filepath.FromSlash(e.File))
		source, changed := contents[original]
		if !changed {
			if source, err = os.ReadFile(original); err != nil {
				return "", err
			}
		}
		if n := strings.Count(string(source), e.Old); n != 1 {
			return "", fmt.Errorf("%s has %q %d times, not once: this release of Go needs another edit", original, e.Old, n)
		}
		contents[original] = []byte(strings.Replace(string(source), e.Old, e.New, 1))
	}
	files := map[string]string{}
	for original, content := range contents {
		files[original] = filepath.Join(dir, fmt.Sprintf("%s-%d-%s", name, len(files), filepath.Base(original)))
		if err := os.WriteFile(files[original], content, 0o600); err != nil {
			return "", err
		}
	}
	data, err := json.Marshal(map[string]any{"Replace": files})
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, name+".json")
	return path, os.WriteFile(path, data, 0o600)
}
