package datetime

import (
	_ "embed" // for zoneinfo.zip
	"encoding/binary"
	"strings"
	"time"
)

// zones is lib/time/zoneinfo.zip of the Go distribution: the IANA time zone database,
// which is in the public domain. time.LoadLocation would look for files first, and with
// it the guest would need more of WASI than the host has. The parts of the archive are
// not compressed, so nothing is read but the directory and the zone that is asked for.
//
//go:embed zoneinfo.zip
var zones string

// The fixed parts of an archive's records, in bytes.
const (
	zipEnd       = 22
	zipDirectory = 46
	zipFile      = 30
)

// location returns the zone of the name, nil for an unknown name.
func location(name string) *time.Location {
	if name == "UTC" {
		return time.UTC
	}
	number := func(at, size int) int {
		if size == 2 {
			return int(binary.LittleEndian.Uint16([]byte(zones[at : at+2])))
		}
		return int(binary.LittleEndian.Uint32([]byte(zones[at : at+4])))
	}
	end := len(zones) - zipEnd
	at := number(end+16, 4)
	for range number(end+10, 2) {
		nameLength, extra, comment := number(at+28, 2), number(at+30, 2), number(at+32, 2)
		found := zones[at+zipDirectory : at+zipDirectory+nameLength]
		if found != name || strings.HasSuffix(name, "/") {
			at += zipDirectory + nameLength + extra + comment
			continue
		}
		size, file := number(at+24, 4), number(at+42, 4)
		file += zipFile + number(file+26, 2) + number(file+28, 2)
		zone, err := time.LoadLocationFromTZData(name, []byte(zones[file:file+size]))
		if err != nil {
			return nil
		}
		return zone
	}
	return nil
}
