// Package hosting is what the example services share that has nothing to do
// with keys: their environment, the way from a listening process to a ready
// one and back, and who calls.
package hosting
