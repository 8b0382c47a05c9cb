// Package browsertest has the tests of package console that need a real browser.
//
// They play the pages in a headless Chromium: with and without JavaScript, in light and dark, and on a narrow
// screen. The tool axe-core looks for barriers for people with a disability. Without a program named chromium on PATH the tests
// are skipped; CHROMIUM may name its file. The tests that need axe-core are skipped without npm.
//
// The sites of the tests have their data in a Postgres of package pgtest, and one has it in memory. Another test builds
// and runs examples/checkout with -serve. In the browser it finds and settles the key and the saga that need a person.
//
//	go test -update-pictures    takes the pictures in ../testdata anew
package browsertest
