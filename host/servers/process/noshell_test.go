package process

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"
)

// argumentsEnv makes this program write the arguments, and the variables with names that begin with
// this name, to standard output as a JSON array.
const argumentsEnv = "PROCESS_TEST_ARGUMENTS"

func writeArguments() {
	all := os.Args[1:]
	for n := 0; ; n++ {
		text, ok := os.LookupEnv(argumentsEnv + strconv.Itoa(n))
		if !ok {
			break
		}
		all = append(all, text)
	}
	if err := json.NewEncoder(os.Stdout).Encode(all); err != nil {
		panic(err)
	}
}

// TestNoShell starts a server with a command, arguments, variables and a folder with everything
// that shells act on. The server gets them unchanged, and no part of them is run.
func TestNoShell(t *testing.T) {
	const touch = "touch ran"
	texts := []string{
		"$(" + touch + ")", "`" + touch + "`", "; " + touch, "| " + touch, "&& " + touch, "|| " + touch, "& " + touch, "\n" + touch + "\n",
		"> ran", ">> ran", "< ran", "$HOME", "${PATH}", "%PATH%", "!PATH!", "^", "*", "?", "~", "{a,b}", "a b", " ", "", `"`, "'", `\`, `\"`, "#", "$'x'", "$((1+1))",
		"<(" + touch + ")", "-c", "--", "é\u2028",
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "$(touch ran) `touch ran`")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	env := []string{argumentsEnv + "=yes"}
	for n, text := range texts {
		env = append(env, argumentsEnv+strconv.Itoa(n)+"="+text)
	}
	p, err := Start(Command{Name: self, Args: texts, Env: env, Dir: dir}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	out, in := p.Stdout(), p.Stdin()
	raw, readErr := io.ReadAll(out)
	in.Close()
	out.Close()
	p.Stop(time.Minute, nil)
	p.Release()
	var got []string
	if err := json.Unmarshal(raw, &got); err != nil || !slices.Equal(got, slices.Concat(texts, texts)) {
		t.Errorf("it got %q, %v, %v", got, err, readErr)
	}
	for _, text := range texts {
		for _, name := range []string{self + text, text, "echo " + text} {
			if text == "" || text == " " && name != text {
				continue
			}
			if p, err := Start(Command{Name: name, Dir: dir}, Options{}); err == nil {
				p.Stop(0, nil)
				p.Release()
				t.Errorf("%q was started", name)
			}
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("it left %v, %v", left, err)
	}
}
