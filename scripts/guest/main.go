// Command guest builds the sandbox's wasm guest, or checks the committed guest. scripts/build-guest
// and scripts/verify-guest run the command.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"

	"github.com/mcp-metatool/mcp-metatool/guest/guestbuild"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	code := run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string) int {
	verbs := map[string]func(context.Context, string) (guestbuild.Sum, error){
		"build":  guestbuild.Update,
		"verify": guestbuild.Verify,
	}
	if len(args) != 1 || verbs[args[0]] == nil {
		fmt.Fprintln(os.Stderr, "usage: guest build|verify")
		return 2
	}
	root, err := guestbuild.Root(".")
	if err != nil {
		fmt.Fprintln(os.Stderr, "guest:", err)
		return 2
	}
	sum, err := verbs[args[0]](ctx, root)
	switch {
	case errors.Is(err, guestbuild.ErrDiffers):
		fmt.Fprintln(os.Stderr, "guest:", err)
		return 1
	case err != nil:
		fmt.Fprintln(os.Stderr, "guest:", err)
		return 2
	}
	fmt.Printf("guest.wasm: %d bytes, sha256 %x, %s, %d source files, %d modules: %s\n",
		sum.Size, sum.Wasm, sum.Inputs.Go, len(sum.Inputs.Files), len(sum.Inputs.Modules), done[args[0]])
	return 0
}

var done = map[string]string{
	"build":  "built",
	"verify": "rebuilt, identical",
}
