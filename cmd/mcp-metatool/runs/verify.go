package runs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcp-metatool/mcp-metatool/cmd/mcp-metatool/cli"
	"github.com/mcp-metatool/mcp-metatool/host"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/journal/replay"
	"github.com/mcp-metatool/mcp-metatool/host/journal/seal"
	"github.com/mcp-metatool/mcp-metatool/host/journal/verify"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox"
	"github.com/mcp-metatool/mcp-metatool/tools"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// verifyView verifies runs, or the order of the ended runs in a folder.
type verifyView struct {
	runsView
	keys     []string // files, or keys in base64
	day      string
	receipt  string // file
	all      bool
	printKey bool
	timeout  time.Duration
}

// verifyCommand verifies the journal. verify starts no upstream and calls nothing.
func verifyCommand() *cobra.Command {
	v := &verifyView{}
	cmd := &cobra.Command{
		Use:   "verify FILE|RUN",
		Short: "Prove that a run did what its record says, or find what is missing in the journal",
		Long: `Prove that a run did what its record says. Three things are checked: that nothing in the record
was changed, dropped, added or moved since it was written (each event has the digest of the one
before), that its end is signed with a key that is trusted, and that the recorded script, executed
again with the recorded answers in the same guest, makes the same calls and has the same log,
result and fuel. What servers answered stays their word.

RUN is an id or the beginning of one, or "last" for the newest run. FILE has the lines of a run, as
runs export writes them, or is a file of the journal, of which all runs are verified; - is standard
input.

Trusted is the key of this configuration, or, with --key, only what that names. An auditor who has
the file of a run needs nothing else than the public key, which verify --print-key prints.

With --receipt, FILE has what a client was given: a result of the tool, as run --raw prints it, or the
receipt in its _meta. The record must then be the one that the receipt is about, with the same result:
so a record shows that somebody who has the key wrote anew. Without RUN, only the signature of the receipt
is checked.

With --day or --all, the order of all runs and calls that have ended is checked instead: a run, a
call or a day that is missing in the journal shows. Nothing is executed then.

The exit code is 0 if everything is verified, 1 if something is not, and 2 if there is nothing to
verify or the command is wrong.`,
		Example: `  mcp-metatool verify last
  mcp-metatool verify --print-key > audit.pem
  mcp-metatool runs export 019aa0b0 > run.jsonl; mcp-metatool verify run.jsonl --key audit.pem
  mcp-metatool verify --receipt result.json 019aa0b0
  mcp-metatool verify --day 2026-11-24
  mcp-metatool verify --all --json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			defer v.release()
			err := v.run(cmd, args)
			var exit *cli.ExitError
			if err != nil && !errors.As(err, &exit) && cmd.Context().Err() == nil {
				err = cli.Usage(err)
			}
			return err
		},
	}
	v.addFlags(cmd)
	cmd.ValidArgsFunction = cli.Choices(v.runs).OrFile
	f := cmd.Flags()
	f.StringArrayVar(&v.keys, "key", nil, "trust only this public `KEY`: a file in PEM, or the key in base64; can be repeated")
	f.StringVar(&v.receipt, "receipt", "", "compare the run with the result or receipt in that `FILE`, which a client has kept; - is standard input")
	f.StringVar(&v.day, "day", "", "check the order of what has ended on that `DAY` in UTC: 2026-11-24")
	f.BoolVar(&v.all, "all", false, "check the order of all that has ended in the journal")
	f.BoolVar(&v.printKey, "print-key", false, "print the public key that checks the signatures of this configuration, and nothing else")
	f.DurationVar(&v.timeout, "timeout", 5*time.Minute, "give up after that `TIME`")
	cmd.MarkFlagsMutuallyExclusive("day", "all", "print-key", "receipt")
	return cmd
}

func (v *verifyView) run(cmd *cobra.Command, args []string) error {
	switch folder := v.day != "" || v.all; {
	case v.printKey && (len(args) > 0 || len(v.keys) > 0 || v.asJSON):
		return errors.New("verify: --print-key takes nothing else")
	case v.printKey:
		return v.showKey(cmd)
	case folder && len(args) > 0:
		return errors.New("verify: either a run, or --day or --all")
	case !folder && len(args) == 0 && v.receipt == "":
		return errors.New("verify: name a run or a file, or use --receipt, --day or --all")
	case v.receipt == "-" && len(args) > 0 && args[0] == "-":
		return errors.New("verify: standard input is either the receipt or the record")
	case folder:
		return v.folder(cmd)
	}
	receipt, err := v.kept(cmd)
	if err != nil {
		return err
	}
	if len(args) == 0 {
		return v.receiptAlone(cmd, receipt)
	}
	return v.runOrFile(cmd, args[0], receipt)
}

func (v *verifyView) showKey(cmd *cobra.Command) error {
	cfg, err := v.Load()
	if err != nil {
		return err
	}
	keys, err := host.VerifyKeys(cmd.Context(), cfg, v.Logger(cfg), true)
	if err != nil {
		return err
	}
	_, err = cmd.OutOrStdout().Write(keys[0].PEM())
	return err
}

// maxKey bounds a file with a public key, in bytes.
const maxKey = 64 << 10

// trusted returns the trusted keys. Without a configuration, no key is trusted.
func (v *verifyView) trusted(cmd *cobra.Command) (keys []seal.PublicKey, err error) {
	for _, name := range v.keys {
		key, err := seal.ParsePublic([]byte(name))
		if err != nil {
			text, failed := regular.Read(cmd.Context(), name, maxKey)
			if failed != nil {
				return nil, fmt.Errorf("--key: neither a key in base64 nor a file that can be read: %w", failed)
			}
			if key, err = seal.ParsePublic(text); err != nil {
				return nil, fmt.Errorf("--key %s: it %w", name, err)
			}
		}
		keys = append(keys, key)
	}
	if len(keys) > 0 {
		return keys, nil
	}
	cfg, err := v.Load()
	if err != nil { // a file can be read without a configuration, and the report names the missing key
		return nil, nil
	}
	keys, err = host.VerifyKeys(cmd.Context(), cfg, v.Logger(cfg), false)
	if errors.Is(err, host.ErrNoKey) {
		return nil, nil
	}
	return keys, err
}

// maxReceipt bounds a file with a result, in bytes: twice the largest value of a script, which a
// result has as text and as JSON.
const maxReceipt = 64 << 20

// kept returns the result that a client has kept; nil for none.
func (v *verifyView) kept(cmd *cobra.Command) (*verify.Receipt, error) {
	var text []byte
	var err error
	switch v.receipt {
	case "":
		return nil, nil
	case "-":
		text, err = regular.ReadAll(cmd.Context(), cmd.InOrStdin(), maxReceipt)
	default:
		text, err = regular.Read(cmd.Context(), v.receipt, maxReceipt)
	}
	if err != nil {
		return nil, fmt.Errorf("--receipt: %w", err)
	}
	r, err := verify.ParseReceipt(text)
	if err != nil {
		return nil, fmt.Errorf("--receipt %s: %w", v.receipt, err)
	}
	return r, nil
}

// receiptAlone checks the signature of a receipt.
func (v *verifyView) receiptAlone(cmd *cobra.Command, receipt *verify.Receipt) error {
	keys, err := v.trusted(cmd)
	if err != nil {
		return err
	}
	report := receipt.Check(keys)
	return v.report(cmd, report, report.Verified, report.Text())
}

func (v *verifyView) runOrFile(cmd *cobra.Command, name string, receipt *verify.Receipt) error {
	ctx, cancel := context.WithTimeoutCause(cmd.Context(), v.timeout, fmt.Errorf("not done within %v (--timeout)", v.timeout))
	defer cancel()
	keys, err := v.trusted(cmd)
	if err != nil {
		return err
	}
	done := cli.Busy(cmd, "verifying "+name)
	defer done()
	lines, only, err := v.lines(cmd, name)
	if err != nil && receipt != nil && errors.Is(err, journal.ErrNotFound) {
		err = fmt.Errorf("%w: if it is the run of the receipt (%s), its record was removed", err, receipt.Run)
	}
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: v.Level}))
	opts := verify.Options{Keys: keys, Receipt: receipt, Log: log, Limits: replay.AtMost(sandbox.Limits{})}
	if cfg, err := v.Load(); err == nil { // without a configuration, the defaults
		opts.Limits = replay.AtMost(host.RunLimits(cfg.Execution))
	}
	if v.close != nil { // a journal exists
		opts.Head = func(ctx context.Context, run string) string {
			rec, err := v.journal.Find(ctx, run)
			if err != nil || rec.ID != run {
				return ""
			}
			return rec.Head
		}
	}
	box := sandbox.New(sandbox.Options{CacheDir: cli.CacheDir(log), Log: log})
	opts.Sandbox = box
	result, err := verify.File(ctx, lines, only, opts)
	done()
	if err = errors.Join(err, box.Close()); err != nil {
		return err
	}
	return v.report(cmd, result, result.Verified(), result.Text())
}

// lines returns the lines of a file, or of a run and its nested runs, and the id of the run.
func (v *verifyView) lines(cmd *cobra.Command, name string) (lines [][]byte, run string, err error) {
	var in io.Reader
	if name == "-" {
		in = cmd.InOrStdin()
	} else if info, err := os.Stat(name); err == nil && !info.IsDir() {
		f, err := regular.Open(name)
		if err != nil {
			return nil, "", err
		}
		defer f.Close()
		in = f
	}
	if in != nil {
		if lines, err = verify.Lines(in); err != nil {
			return nil, "", fmt.Errorf("%s: %w", name, err)
		}
		return lines, "", nil
	}
	runs, err := v.exported(cmd, name)
	if err != nil {
		return nil, "", err
	}
	for _, r := range runs {
		lines = append(lines, r.Lines...)
	}
	return lines, runs[len(runs)-1].Run, nil
}

// report prints the findings.
func (v *verifyView) report(cmd *cobra.Command, found any, verified bool, text string) (err error) {
	if v.asJSON {
		err = cli.WriteJSON(cmd.OutOrStdout(), found)
	} else {
		_, err = io.WriteString(cli.Raw(cmd.OutOrStdout()), display.Text(text))
	}
	if err == nil && !verified {
		err = cli.Failed(nil)
	}
	return err
}

// exported returns the lines of the run that the command line names, after the lines of its nested
// runs.
func (v *runsView) exported(cmd *cobra.Command, name string) ([]journal.RunLines, error) {
	if err := v.open(cmd); err != nil {
		return nil, err
	}
	rec, err := v.find(cmd, name)
	if err != nil {
		return nil, err
	}
	return v.journal.Lines(cmd.Context(), rec.ID)
}

// folder checks the order of the ended runs.
func (v *verifyView) folder(cmd *cobra.Command) error {
	ctx, cancel := context.WithTimeoutCause(cmd.Context(), v.timeout, fmt.Errorf("not done within %v (--timeout)", v.timeout))
	defer cancel()
	keys, err := v.trusted(cmd)
	if err != nil {
		return err
	}
	if err := v.open(cmd); err != nil {
		return err
	}
	since, until := time.Time{}, time.Time{}
	if v.day != "" {
		if since, err = time.Parse(time.DateOnly, v.day); err != nil {
			return fmt.Errorf("--day %s: not a day (write 2026-11-24)", v.day)
		}
		until = since.Add(24 * time.Hour)
	}
	done := cli.Busy(cmd, "verifying the journal")
	defer done()
	if err := v.journal.Fetch(ctx, since, until); err != nil {
		cli.Complain(v.stderr, err)
		v.shownErrors++
	}
	report, err := verify.Folder(ctx, v.dir, verify.FolderOptions{Keys: keys, Day: v.day})
	done()
	if err != nil {
		return err
	}
	if err := v.report(cmd, report, report.Verified, report.Text()); err != nil {
		return err
	}
	return v.end()
}

// replayView is a replay.
type replayView struct {
	runsView
	with    string
	timeout time.Duration
}

// replayCommand replays recorded runs. replay starts no upstream and calls nothing.
func replayCommand() *cobra.Command {
	v := &replayView{}
	cmd := &cobra.Command{
		Use:   "replay RUN",
		Short: "Run a recorded run again, offline, and compare it with its record",
		Long: `Run a recorded run again, offline: the recorded script, in the sandbox, with the
recorded answers. The order of calls, undo actions, the log, the result or error, fuel
and peak memory are compared, also those of saved tools that the script called. The
first difference is shown in full.

RUN is an id or the beginning of one, "last" for the newest run, a file that
runs show --json has written, or - to read such a file from standard input. With a
file, neither configuration nor journal is needed.

With --with FILE.star, that script runs instead of the recorded one: would the fix have
worked? A call gets the answer that the same call got in the record, or else the next
answer of the same tool. The replay ends at a call for which there is no answer.

A value that was redacted in the record matches any value. If there are such values, fuel
and memory are not compared, and the verdict is "identical but for redaction".

The exit code is 0 if the replay is identical, or identical but for redaction (with
--with: if the script succeeds), 1 if it is not, and 2 if the run cannot be found or read.`,
		Example: `  mcp-metatool replay last
  mcp-metatool runs show 019aa0b0 --json > run.jsonl; mcp-metatool replay run.jsonl
  mcp-metatool replay run.jsonl --with fixed.star`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return v.replay(cmd, args[0]) },
	}
	v.addFlags(cmd)
	cmd.ValidArgsFunction = cli.Choices(v.runs).OrFile
	cmd.Flags().StringVar(&v.with, "with", "", "run the script in `FILE` in place of the recorded one")
	cmd.Flags().DurationVar(&v.timeout, "timeout", 5*time.Minute, "end the replay after that `TIME`; the recorded script's own limit on time does not count")
	return cmd
}

func (v *replayView) replay(cmd *cobra.Command, name string) error {
	if name == "-" && v.with == "-" {
		return cli.Usage(errors.New("replay: the run and --with cannot both be standard input"))
	}
	defer v.release()
	rec, err := v.record(cmd, name)
	if err != nil {
		return cli.Usage(err)
	}
	opts := replay.Options{Log: slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: v.Level}))}
	if v.with != "" {
		script, err := cli.ReadScript(cmd.Context(), v.with, cmd.InOrStdin())
		if err != nil {
			return cli.Usage(fmt.Errorf("--with: %w", err))
		}
		opts.Code = &script.Code
	}
	if v.dir != "" && !cmd.Flags().Changed("dir") { // the run was in the configured journal
		opts.Saved = v.savedNow(rec.Definition.Name, opts.Log)
	}
	opts.Limits = replay.AtMost(sandbox.Limits{})
	if cfg, err := v.Load(); err == nil { // without a configuration, the defaults
		opts.Limits = replay.AtMost(host.RunLimits(cfg.Execution))
	}
	box := sandbox.New(sandbox.Options{CacheDir: cli.CacheDir(opts.Log), Log: opts.Log})
	ctx, cancel := context.WithTimeoutCause(cmd.Context(), v.timeout, fmt.Errorf("not done within %v (--timeout)", v.timeout))
	defer cancel()
	done := cli.Busy(cmd, fmt.Sprintf("the replay of run %s (%s)", rec.ID, rec.Definition.Name))
	defer done()
	report, err := replay.Run(ctx, box, rec, opts)
	done()
	if err = errors.Join(err, box.Close()); err != nil {
		return err
	}
	if v.asJSON {
		err = cli.WriteJSON(cmd.OutOrStdout(), report)
	} else {
		_, err = io.WriteString(cli.Raw(cmd.OutOrStdout()), cli.ColorDiff(cmd.OutOrStdout(), display.Text(report.Text())))
	}
	if err == nil && !report.Verdict.OK() {
		err = cli.Failed(nil)
	}
	return err
}

// savedNow returns the current version of the saved tool with the name, nil for a missing or
// unreadable tool. The version is only used for a note.
func (v *replayView) savedNow(name string, log *slog.Logger) *tools.Definition {
	cfg, err := v.Load()
	if err != nil {
		return nil
	}
	list, err := host.ReadTools(cfg, log)
	if err != nil {
		return nil
	}
	for i := range list {
		if list[i].Name == name {
			return &list[i]
		}
	}
	return nil
}

// record returns the record of the run that the command line names.
func (v *replayView) record(cmd *cobra.Command, name string) (journal.Record, error) {
	if name != "-" {
		return v.find(cmd, name)
	}
	rec, err := journal.Decode(cmd.InOrStdin())
	if err != nil {
		return rec, fmt.Errorf("standard input: %w", err)
	}
	return rec, nil
}
