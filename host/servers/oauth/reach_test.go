package oauth

import (
	"net/netip"
	"strings"
	"testing"
)

func TestReachOf(t *testing.T) {
	for r, addresses := range map[reach]string{
		reachPublic: "8.8.8.8 100.63.255.255 172.32.0.1 2606:4700::1111 64:ff9b::808:808 2002:808:808::1 ::ffff:8.8.8.8",
		reachPrivate: "10.0.0.1 172.16.0.1 172.31.255.255 192.168.1.1 100.64.0.1 192.0.0.1 198.18.0.1 240.0.0.1 fd00:ec2::254 fec0::1 " +
			"2001::1 64:ff9b::a00:1 64:ff9b:1::808:808 2002:c0a8:101::1 ::ffff:10.0.0.1 ::10.0.0.1 100.100.100.200",
		reachLinkLocal: "169.254.169.254 fe80::1 fe80::1%eth0 ::ffff:169.254.169.254 64:ff9b::a9fe:a9fe",
		reachLoopback:  "127.0.0.1 127.255.255.255 0.0.0.0 0.1.2.3 :: ::1 ::ffff:127.0.0.1 64:ff9b::7f00:1 2002:7f00:1:: ::127.0.0.1",
		reachNone:      "224.0.0.1 255.255.255.255 ff02::1",
	} {
		for address := range strings.FieldsSeq(addresses) {
			if got := reachOf(netip.MustParseAddr(address)); got != r {
				t.Errorf("%s is %s, want %s", address, got, r)
			}
		}
	}
	if reachOf(netip.Addr{}) != reachNone {
		t.Error("no address has a reach")
	}
	all := []reach{reachPublic, reachPrivate, reachLinkLocal, reachLoopback, reachNone}
	for r, want := range map[reach]string{reachPublic: "10000", reachPrivate: "11000", reachLinkLocal: "11100", reachLoopback: "11110"} {
		got := ""
		for _, other := range all {
			got += map[bool]string{true: "1", false: "0"}[r.mayName(other)]
		}
		if got != want {
			t.Errorf("%s may name %s, want %s", r, got, want)
		}
	}
}
