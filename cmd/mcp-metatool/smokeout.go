package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	reports "github.com/mcp-metatool/mcp-metatool/host/smoke/report"
)

// writer returns the Writer of the results: to standard output, and to the files of --output
// and --report. With --output, standard output gets text for people.
func (v *smokeView) writer(stdout io.Writer) (reports.Writer, error) {
	format, files := v.format, v.reports
	if v.output != "" {
		format, files = reports.Formats[0], append([]string{v.format + "=" + v.output}, files...)
	}
	if format == reports.Formats[0] {
		stdout = raw(stdout)
	}
	first, err := reports.New(format, stdout, reports.Options{Verbose: v.verbose, Color: hasColor(stdout)})
	if err != nil || len(files) == 0 {
		return first, err
	}
	all := &severalReports{writers: []reports.Writer{first}}
	for _, text := range files {
		if err := all.add(text, reports.Options{Verbose: v.verbose}); err != nil {
			return nil, errors.Join(&exitError{exitUsage, err}, all.closeFiles())
		}
	}
	return all, nil
}

// readReport reads FORMAT=FILE.
func readReport(text string) (format, file string, err error) {
	format, file, ok := strings.Cut(text, "=")
	if !ok || file == "" {
		return "", "", fmt.Errorf("--report %q: want FORMAT=FILE", text)
	}
	if _, err := reports.New(format, io.Discard, reports.Options{}); err != nil {
		return "", "", fmt.Errorf("--report %q: %w", text, err)
	}
	return format, file, nil
}

// severalReports writes several reports of the same results.
type severalReports struct {
	writers []reports.Writer
	files   []*os.File
}

// add adds a report to a file.
func (s *severalReports) add(text string, opts reports.Options) error {
	format, name, err := readReport(text)
	if err != nil {
		return err
	}
	file, err := os.Create(name)
	if err != nil {
		return fmt.Errorf("the report cannot be written: %w", err)
	}
	s.files = append(s.files, file)
	w, err := reports.New(format, file, opts)
	s.writers = append(s.writers, w)
	return err
}

// each calls f for all reports, also after an error.
func (s *severalReports) each(f func(reports.Writer) error) (err error) {
	for _, w := range s.writers {
		err = errors.Join(err, f(w))
	}
	return err
}

// Result implements reports.Writer.
func (s *severalReports) Result(r reports.Result) error {
	return s.each(func(w reports.Writer) error { return w.Result(r) })
}

// File implements reports.Writer.
func (s *severalReports) File(f reports.File) error {
	return s.each(func(w reports.Writer) error { return w.File(f) })
}

// Close implements reports.Writer.
func (s *severalReports) Close(sum reports.Summary) error {
	return errors.Join(s.each(func(w reports.Writer) error { return w.Close(sum) }), s.closeFiles())
}

func (s *severalReports) closeFiles() (err error) {
	for _, f := range s.files {
		err = errors.Join(err, f.Close())
	}
	return err
}
