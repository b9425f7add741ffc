package tools

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// childVar makes the test binary run as one of the processes of a test that needs several;
// see process_test.go.
const childVar = "TOOLS_TEST_CHILD"

func TestMain(m *testing.M) {
	if role := os.Getenv(childVar); role != "" {
		if err := runChild(role); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	_ = flag.Set("test.parallel", "4") // parallel tests wait most of the time
	goleak.VerifyTestMain(m)
}
