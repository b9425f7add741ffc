package secret

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/servers/process"
	"github.com/mcp-metatool/mcp-metatool/tools/units"
)

const (
	// maxComplaint is how much of standard error is quoted in an error, in bytes.
	maxComplaint = 200
	// endTime is how long the output of a command is read after its end, if a process that
	// it started keeps it open.
	endTime = time.Second
)

// command runs a command and returns what it writes to standard output. It has no standard
// input, all of our environment, and runs in the folder of the configuration. If it has to
// be stopped, all processes that it started are, unless they have left its process group.
func (f fetcher) command(ctx context.Context, r config.Reference) (string, error) {
	words, err := r.Words()
	if err != nil {
		return "", err
	}
	stdout, stderr := &capped{max: maxValue}, &capped{max: 8 * maxComplaint}
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = r.Path, stdout, stderr, endTime
	err = process.Run(ctx, cmd)
	switch {
	case ctx.Err() != nil:
		return "", fmt.Errorf("the command was stopped: %w%s", context.Cause(ctx), complaint(stdout, stderr))
	case err != nil:
		return "", fmt.Errorf("the command failed: %w%s", plain(err), complaint(stdout, stderr))
	case stdout.over:
		return "", fmt.Errorf("the command wrote more than %s", units.FormatSize(maxValue))
	}
	return stdout.String(), nil
}

// plain returns an error of package exec without the path of the program, which is in the
// reference.
func plain(err error) error {
	var failed *exec.Error
	if errors.As(err, &failed) {
		return fmt.Errorf("%w (is it installed, and in PATH?)", failed.Err)
	}
	return err
}

// complaint returns the end of what a command wrote to standard error, for an error. What
// it wrote to standard output is masked in it.
func complaint(stdout, stderr *capped) string {
	text := strings.TrimSpace(strings.ToValidUTF8(stderr.String(), "?"))
	if text == "" {
		return ""
	}
	masker := &config.Masker{}
	for line := range strings.Lines(stdout.String()) {
		masker.Add(strings.TrimSpace(line))
	}
	text = masker.Mask(text)
	if len(text) > maxComplaint {
		text = "..." + strings.ToValidUTF8(text[len(text)-maxComplaint:], "")
	}
	return "; it wrote to stderr: " + text
}

// capped keeps the first max bytes that are written to it.
type capped struct {
	kept bytes.Buffer // not embedded, because io.Copy would use its ReadFrom
	max  int
	over bool
}

func (c *capped) String() string { return c.kept.String() }

// Write never fails, so that the command can finish.
func (c *capped) Write(p []byte) (int, error) {
	keep := min(len(p), c.max-c.kept.Len())
	c.over = c.over || keep < len(p)
	c.kept.Write(p[:keep])
	return len(p), nil
}
