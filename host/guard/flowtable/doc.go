// Package flowtable evaluates information flow ([flow] in the configuration): how many attacks are
// stopped, and how many useful scripts are disturbed. All code is in tests, which use the product
// by its configuration only: a whole Host, with fake servers over HTTP.
//
// Each case is a script and two worlds, A and B, which differ only in labelled answers. The calls
// to the sinks must not tell the worlds apart. Begin with table_test.go (a verdict for each case
// and method) and property_test.go (the theorem, checked with random programs and random secrets).
package flowtable
