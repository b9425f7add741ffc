package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	reports "github.com/mcp-metatool/mcp-metatool/host/smoke/report"
)

// writer returns the Writer of the results: to standard output, or to a file and, as text
// for people, to standard output.
func (v *smokeView) writer(stdout io.Writer) (reports.Writer, error) {
	opts := reports.Options{Verbose: v.verbose, Color: hasColor(stdout)}
	if v.output == "" {
		if v.format == reports.Formats[0] {
			stdout = raw(stdout)
		}
		return reports.New(v.format, stdout, opts)
	}
	file, err := os.Create(v.output)
	if err != nil {
		return nil, &exitError{exitUsage, fmt.Errorf("--output: %w", err)}
	}
	toFile, err := reports.New(v.format, file, opts)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	people, err := reports.New(reports.Formats[0], raw(stdout), opts)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &twoReports{toFile, people, file}, nil
}

// twoReports writes a report to a file, and one for people.
type twoReports struct {
	inFile, people reports.Writer
	file           *os.File
}

// Result implements reports.Writer.
func (t *twoReports) Result(r reports.Result) error {
	return errors.Join(t.inFile.Result(r), t.people.Result(r))
}

// File implements reports.Writer.
func (t *twoReports) File(f reports.File) error {
	return errors.Join(t.inFile.File(f), t.people.File(f))
}

// Close implements reports.Writer.
func (t *twoReports) Close(s reports.Summary) error {
	return errors.Join(t.inFile.Close(s), t.people.Close(s), t.file.Close())
}
