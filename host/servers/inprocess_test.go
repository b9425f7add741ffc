package servers

import "io"

// inProcess is the command of a server that runs in the process of the tests.
const inProcess = "in the process of the tests"

// here returns the Spec of such a server, for tests that are not about processes: starting one
// takes longer than most of them. It can be in a bubble of testing/synctest.
func here(mode string) Spec {
	return Spec{Name: "x", Command: inProcess, Args: []string{mode}, Restart: RestartNever}
}

// streams is Options.Streams for such servers. They end with their input, and the test waits for
// that.
func (f *fixture) streams(s Spec) (io.ReadCloser, io.WriteCloser, bool) {
	if s.Command != inProcess {
		return nil, nil, false
	}
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	f.here.Go(func() {
		defer in.Close()
		defer out.Close()
		serve(s.Args[0], in, out, 0)
	})
	return fromServer, toServer, true
}
