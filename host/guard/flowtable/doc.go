// Package flowtable evaluates information flow ([flow] in the configuration): how many attacks
// it stops, and how many useful scripts it disturbs. It has nothing but tests. They use the
// product by its configuration only: a whole Host, with fake servers behind it over HTTP.
//
// Each case is a script and two worlds, A and B, which differ in nothing but labelled answers.
// What the sinks get in one world must not tell which of the two it is.
//
//	corpus_test.go    a case, and how testdata/attacks-*.toml and useful-*.toml are read
//	answers_test.go   what the servers of a case answer
//	fakes_test.go     the fake servers, and what they have seen
//	rig_test.go       a Host with fake servers; one run of a case
//	methods_test.go   session labels and substring taint, to compare with
//	table_test.go     the table: a verdict for each case and method
//	program_test.go   random programs, and how one that fails is made smaller
//	worlds_test.go    random answers
//	property_test.go  the theorem, checked with random programs and random secrets
package flowtable
