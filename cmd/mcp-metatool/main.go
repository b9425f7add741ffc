// Command mcp-metatool is an MCP server that offers the tools of many other MCP servers
// as its own, and runs composite tools: Starlark scripts in a WebAssembly sandbox that
// call those tools.
//
//	main.go      the root command, errors and exit codes
//	signals.go   signals that end the process
//	consent.go   asking before files of the user are written
//	settings.go  flags that several verbs have: configuration, log, host
//	text.go      text and JSON for people, safe for a terminal
//	screen.go    standard output and standard error: safe if they are a terminal,
//	             colours, width (screen_*.go: Windows)
//	waiting.go   what the command does at the moment
//	help.go      help and errors of usage
//	completion.go  completion of words in a shell
//	result.go    a CallToolResult for people
//	progress.go  progress as a bar or as lines
//
// Each verb has a file of its own, and more where it is large:
//
//	serve.go     serve; servehttp.go: over HTTP, reloader.go: following changes of
//	             the configuration, watch.go: watching its file, control.go: the
//	             socket that other commands connect to, controldir.go: the
//	             folder of such sockets (owner_*.go: who owns it), telemetry.go:
//	             telemetry and the pages about it
//	check.go     check
//	doctor.go    doctor
//	cache.go     cache and cache clean
//	servers.go   servers; names.go: --names, checks.go: --check, protocols.go:
//	             --protocol
//	sandbox.go   sandbox try; sandboxlearn.go: sandbox learn
//	pins.go      pins; pinsaccept.go: accept
//	add.go       add; addtarget.go: programs, addresses and their secrets,
//	             addregistry.go: server.json and the registry, addtry.go: the
//	             first start, addkeyring.go: its secrets
//	remove.go    remove, enable, disable
//	reload.go    reload
//	auth.go      auth
//	secret.go    secret set, list and remove
//	token.go     token new and remove, tokenlist.go: token list
//	store.go     store copy
//	fleet.go     fleet; fleetstatus.go: status, fleetdrain.go: drain,
//	             fleetkeys.go: keys, fleetinit.go: init
//	tools.go     tools list, show and delete; toolshistory.go: history and revert,
//	             toolsexport.go: export, toolsimport.go: import,
//	             toolspermissions.go: what imported tools may call
//	run.go       run; approver.go: asking for approvals at the terminal
//	plan.go      plan and plan show; apply.go: apply
//	repl.go      repl; replstate.go: what it keeps between inputs, replcoda.star:
//	             the code appended to each input, replterm.go: the terminal,
//	             replhistory.go: earlier inputs, replcomplete.go: completion
//	lint.go      lint
//	runs.go      runs; runslist.go: list, runsshow.go: show and tail,
//	             runsstats.go: stats, runsdiff.go: diff, runsopen.go: --open,
//	             resume and cancel
//	approvals.go  approvals list; approvalsdecide.go: show, allow, deny and forget
//	flow.go      flow labels, clear and trust
//	replay.go    replay
//	verify.go    verify; runsexport.go: runs export
//	policy.go    policy and policy check; policyexplain.go: explain, policytest.go:
//	             test
//	smoke.go     smoke; smokeout.go: its reports, smokelist.go: --list,
//	             smokewatch.go: --watch
//	smokeinit.go  smoke init; smokeinittry.go: asking the servers, and --call
//	ui.go        ui; launch.go: the user's browser
//	demo.go      demo; demotool.go: its composite tool, demoserver.go and
//	             demodata.go: its two upstream servers
//	import.go    import; importcompare.go: what is there already, importshow.go: what
//	             it shows, importreplace.go: --replace, importsecrets.go: secrets in
//	             plain text, importunset.go: variables without values, and what
//	             servers fetch
//	connect.go   connect; connectverify.go: starting as the host will,
//	             connectlist.go: --list, connectbinary.go: the path of this program
//	disconnect.go  disconnect
//	man.go       man
//	version.go   version
//
// Standard output carries protocol messages (serve) or the answer (all other
// verbs) and nothing else. Everything else goes to standard error.
//
// Exit codes: 0 success, 1 a check or a tool failed, 2 wrong usage or
// configuration, 128+n ended by signal n (serve shuts down orderly, with 0).
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcp-metatool/mcp-metatool/host/startup"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

const (
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	if !isQuick(os.Args[1:]) {
		startup.Done()
	}
	os.Exit(execute(os.Args[1:]))
}

// isQuick reports whether a command only prints a text, for which no garbage is collected.
func isQuick(args []string) bool {
	return len(args) == 1 && slices.Contains([]string{"help", "--help", "-h"}, args[0])
}

// exitError is an error with an exit code. A nil err means that everything has been
// printed already.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// execute runs the command and returns its exit code.
func execute(args []string) int {
	ctx, stop := withSignals(context.Background())
	defer stop()
	ctx, doing := withDoing(ctx)
	stdout, stderr, flush := screens(os.Stdout, os.Stderr)
	defer flush()
	started := false // if not, an error is about wrong usage
	root := newRoot()
	looks := addLooks(root, stdout, stderr)
	looks.apply() // for errors before the flags are known
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		if err := cmd.ValidateFlagGroups(); err != nil {
			return err
		}
		started = true
		looks.apply()
		return nil
	}
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	said := sayWhatEnds(ctx, stderr, doing)
	cmd, err := root.ExecuteContextC(ctx)
	said()
	if err == nil {
		return 0
	}
	if !started {
		complain(stderr, err)
		fmt.Fprintf(stderr, "Usage: %s\nMore: %s --help\n", cmd.UseLine(), cmd.CommandPath())
		return exitUsage
	}
	var exit *exitError
	var killed *signalError
	switch {
	case errors.As(err, &exit):
		if exit.err != nil {
			complain(stderr, exit.err)
		}
		return exit.code
	case errors.As(err, &killed), errors.As(context.Cause(ctx), &killed): // the signal is the cause of any failure
		if what := doing.now(); what != "" {
			complain(stderr, fmt.Errorf("cancelled: %s", what))
		}
		return killed.exitCode()
	}
	complain(stderr, err)
	return exitFailed
}

// complain writes an error. Each line begins with the program's name.
func complain(w io.Writer, err error) {
	for line := range strings.SplitSeq(display.Text(err.Error()), "\n") {
		fmt.Fprintf(raw(w), "%s %s\n", paint(w, display.Bad, "mcp-metatool:"), line)
	}
}

// sayWhatEnds says what is being cancelled as soon as ctx ends by a signal, since that can
// take some time. stop must be called.
func sayWhatEnds(ctx context.Context, stderr *screen, doing *doing) (stop func()) {
	said := make(chan struct{})
	pending := context.AfterFunc(ctx, func() {
		defer close(said)
		if what := doing.now(); what != "" && stderr.guard != nil {
			fmt.Fprintf(stderr, "cancelling: %s (Ctrl-C again ends at once)\n", display.Text(what))
		}
	})
	return func() {
		if !pending() {
			<-said
		}
	}
}

func newRoot() *cobra.Command {
	root := serveCommand("mcp-metatool")
	root.Short = "Use many MCP servers through one, and combine their tools in sandboxed scripts"
	root.Long = root.Short + `.

Without a verb it serves MCP on standard input and output, or over HTTP (--http).

The configuration is the FILE of --config, else of $MCP_METATOOL_CONFIG, else
config.toml or config.json in $MCP_METATOOL_DIR or ~/.mcp-metatool. Some programs that
start MCP servers take --config for themselves, such as the command line of the MCP
Inspector. There, set MCP_METATOOL_CONFIG in the environment of the server.`
	addVersion(root)
	root.SilenceErrors = true
	root.SilenceUsage = true
	root.AddCommand(
		serveCommand("serve"), addCommand(), removeCommand(), enableCommand(), disableCommand(),
		checkCommand(), doctorCommand(), cacheCommand(), serversCommand(), sandboxCommand(), pinsCommand(), reloadCommand(), authCommand(), secretCommand(), tokenCommand(), toolsCommand(),
		runCommand(), runsCommand(), approvalsCommand(), flowCommand(), replayCommand(), verifyCommand(), policyCommand(), smokeCommand(), lintCommand(), replCommand(), demoCommand(),
		planCommand(), applyCommand(), storageCommand(), fleetCommand(),
		importServersCommand(), connectCommand(), disconnectCommand(),
		uiCommand(), demoServerCommand(), manCommand(), versionCommand(),
	)
	return root
}
