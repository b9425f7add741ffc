package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"debug/buildinfo"
	"debug/elf"
	"debug/macho"
	"debug/pe"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
)

// system is a system with releases.
type system struct {
	goos, goarch string
	// machine reads a program, and fails if the program is for another system.
	machine func(program io.ReaderAt) error
}

var systems = []system{
	{"linux", "amd64", isELF(elf.EM_X86_64)},
	{"linux", "arm64", isELF(elf.EM_AARCH64)},
	{"darwin", "amd64", isMachO(macho.CpuAmd64)},
	{"darwin", "arm64", isMachO(macho.CpuArm64)},
	{"windows", "amd64", isPE},
}

func isELF(want elf.Machine) func(io.ReaderAt) error {
	return func(r io.ReaderAt) error {
		f, err := elf.NewFile(r)
		if err != nil {
			return err
		}
		if f.Machine != want || f.OSABI != elf.ELFOSABI_NONE {
			return fmt.Errorf("an ELF program for %v, %v", f.Machine, f.OSABI)
		}
		for _, p := range f.Progs {
			if p.Type == elf.PT_INTERP {
				return errors.New("not a static program")
			}
		}
		return nil
	}
}

func isMachO(want macho.Cpu) func(io.ReaderAt) error {
	return func(r io.ReaderAt) error {
		f, err := macho.NewFile(r)
		if err != nil {
			return err
		}
		if f.Cpu != want {
			return fmt.Errorf("a Mach-O program for %v", f.Cpu)
		}
		return nil
	}
}

func isPE(r io.ReaderAt) error {
	f, err := pe.NewFile(r)
	if err != nil {
		return err
	}
	if f.Machine != pe.IMAGE_FILE_MACHINE_AMD64 {
		return fmt.Errorf("a PE program for machine %#x", f.Machine)
	}
	return nil
}

// fewestPages is less than the number of commands, each of which has a manual page.
const fewestPages = 40

// companions are the files of every archive in addition to the program and the manual pages.
var companions = []string{
	"LICENSE", "README.md", "THIRD_PARTY_NOTICES",
	"completions/mcp-metatool.bash", "completions/mcp-metatool.fish", "completions/_mcp-metatool", "completions/mcp-metatool.ps1",
	"man/mcp-metatool.1",
}

// verify checks the archive of a system, and the archive's SBOM.
func (s system) verify(dist string) error {
	found, err := filepath.Glob(filepath.Join(dist, "*_"+s.goos+"_"+s.goarch+".*"))
	if err != nil {
		return err
	}
	path := ""
	for _, f := range found {
		if strings.HasSuffix(f, ".tar.gz") || strings.HasSuffix(f, ".zip") {
			path = f
		}
	}
	if path == "" {
		return fmt.Errorf("%s has no archive for %s/%s", dist, s.goos, s.goarch)
	}
	files, err := unpack(path)
	if err != nil {
		return err
	}
	if err := s.contents(files); err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(path), err)
	}
	info, err := s.program(files)
	if err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(path), err)
	}
	sbom, err := os.ReadFile(path + ".cdx.json")
	if err != nil {
		return err
	}
	if err := namesModules(sbom, info); err != nil {
		return fmt.Errorf("%s.cdx.json: %w", filepath.Base(path), err)
	}
	fmt.Printf("%s: %d files, %s/%s, %d modules in its SBOM\n", filepath.Base(path), len(files), s.goos, s.goarch, len(info.Deps))
	return nil
}

// contents checks which files an archive has.
func (s system) contents(files map[string][]byte) error {
	var problems []error
	for _, name := range companions {
		if len(files[name]) == 0 {
			problems = append(problems, fmt.Errorf("%s is missing or empty", name))
		}
	}
	pages := 0
	for name := range files {
		if strings.HasPrefix(name, "man/") {
			pages++
		}
	}
	if pages < fewestPages {
		problems = append(problems, fmt.Errorf("only %d manual pages", pages))
	}
	return errors.Join(problems...)
}

// program checks the program in an archive, and returns the program's build information.
func (s system) program(files map[string][]byte) (*debug.BuildInfo, error) {
	name := "mcp-metatool"
	if s.goos == "windows" {
		name += ".exe"
	}
	program := bytes.NewReader(files[name])
	if err := s.machine(program); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	info, err := buildinfo.Read(program)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	settings := map[string]string{}
	for _, setting := range info.Settings {
		settings[setting.Key] = setting.Value
	}
	for key, want := range map[string]string{
		"GOOS": s.goos, "GOARCH": s.goarch, "CGO_ENABLED": "0", "-trimpath": "true", "vcs.revision": "",
	} {
		if settings[key] != want {
			return nil, fmt.Errorf("%s was built with %s=%q instead of %q", name, key, settings[key], want)
		}
	}
	return info, nil
}

// unpack returns the files of an archive by their paths.
func unpack(path string) (map[string][]byte, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	if strings.HasSuffix(path, ".zip") {
		archive, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			return nil, err
		}
		for _, f := range archive.File {
			r, err := f.Open()
			if err != nil {
				return nil, err
			}
			if files[f.Name], err = io.ReadAll(r); err != nil {
				return nil, err
			}
			r.Close()
		}
		return files, nil
	}
	plain, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	archive := tar.NewReader(plain)
	for {
		header, err := archive.Next()
		if err == io.EOF {
			return files, nil
		}
		if err != nil {
			return nil, err
		}
		if header.Typeflag == tar.TypeReg {
			if files[header.Name], err = io.ReadAll(archive); err != nil {
				return nil, err
			}
		}
	}
}

// namesModules checks that a CycloneDX document names each module in a program, with the module's
// version.
func namesModules(document []byte, info *debug.BuildInfo) error {
	var sbom struct {
		Format     string `json:"bomFormat"`
		Version    string `json:"specVersion"`
		Components []struct {
			Name    string `json:"name"`
			Version string `json:"version"`
			PURL    string `json:"purl"`
		} `json:"components"`
	}
	if err := json.Unmarshal(document, &sbom); err != nil {
		return err
	}
	if sbom.Format != "CycloneDX" || sbom.Version == "" {
		return fmt.Errorf("not a CycloneDX document, but %q %q", sbom.Format, sbom.Version)
	}
	named := map[string]string{}
	for _, c := range sbom.Components {
		if c.PURL != "" {
			named[c.Name] = c.Version
		}
	}
	if len(info.Deps) == 0 {
		return fmt.Errorf("the program has no modules")
	}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		if got, ok := named[m.Path]; !ok || got != m.Version {
			return fmt.Errorf("does not name %s %s (it has %q)", m.Path, m.Version, got)
		}
	}
	return nil
}
