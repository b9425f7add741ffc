// Command verify checks the folder with a release build: checksums.txt names every package with its
// digest, each system has an archive with the program in the system's format and all companion
// files, and each SBOM names every module in the program. scripts/release runs the command.
//
// verify DIST
//
// Every fault is printed. With any fault, the exit code is 1.
package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: verify DIST")
		os.Exit(2)
	}
	if err := verify(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// verify checks the release in a folder. The error has a line for each fault.
func verify(dist string) error {
	problems := []error{checksums(dist)}
	for _, s := range systems {
		problems = append(problems, s.verify(dist))
	}
	return errors.Join(problems...)
}

// packagePatterns match the published files.
var packagePatterns = []string{"*.tar.gz", "*.zip", "*.deb", "*.rpm", "*.cdx.json"}

// checksums compares checksums.txt with the files of the folder.
func checksums(dist string) error {
	text, err := os.ReadFile(filepath.Join(dist, "checksums.txt"))
	if err != nil {
		return err
	}
	listed := map[string]bool{}
	var problems []error
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		want, name, ok := strings.Cut(lines.Text(), "  ")
		if !ok || name != filepath.Base(name) {
			problems = append(problems, fmt.Errorf("checksums.txt: %q is not a digest and a file", lines.Text()))
			continue
		}
		listed[name] = true
		data, err := os.ReadFile(filepath.Join(dist, name))
		if err != nil {
			problems = append(problems, err)
			continue
		}
		if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != want {
			problems = append(problems, fmt.Errorf("%s does not have the digest in checksums.txt", name))
		}
	}
	for _, pattern := range packagePatterns {
		found, err := filepath.Glob(filepath.Join(dist, pattern))
		if err != nil || len(found) == 0 {
			problems = append(problems, fmt.Errorf("%s has no %s", dist, pattern), err)
		}
		for _, path := range found {
			if !listed[filepath.Base(path)] {
				problems = append(problems, fmt.Errorf("checksums.txt does not name %s", filepath.Base(path)))
			}
		}
	}
	if len(problems) == 0 {
		fmt.Printf("checksums.txt: %d files\n", len(listed))
	}
	return errors.Join(problems...)
}
