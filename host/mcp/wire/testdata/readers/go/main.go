// Command go reads a list of paths and then messages, one per line, like reader.js and
// reader.py. For each message it writes what each way of reading finds at the paths: a
// string, null for anything else, or true if that way of reading has no such member or
// refuses the object that the member is in.
//
// It needs GOEXPERIMENT=jsonv2.
package main

import (
	"bufio"
	"encoding/json/v2"
	"io"
	"log"
	"os"
	"strings"
)

// way returns what it finds at a path of a message.
type way func(message []byte, path []string) any

var ways = []way{strict, anyCase, version1, sdk}

func main() {
	in := bufio.NewReader(os.Stdin)
	var paths [][]string
	if line, err := in.ReadBytes('\n'); err != nil {
		log.Fatal(err)
	} else if err := json.Unmarshal(line, &paths); err != nil {
		log.Fatal(err)
	}
	for {
		line, err := in.ReadBytes('\n')
		if err == io.EOF {
			return
		}
		if err != nil {
			log.Fatal(err)
		}
		var out [][]any
		for _, find := range ways {
			var found []any
			for _, path := range paths {
				found = append(found, find([]byte(strings.TrimSpace(string(line))), path))
			}
			out = append(out, found)
		}
		answer, err := json.Marshal(out)
		if err != nil {
			log.Fatal(err)
		}
		if _, err := os.Stdout.Write(append(answer, '\n')); err != nil {
			log.Fatal(err)
		}
	}
}
