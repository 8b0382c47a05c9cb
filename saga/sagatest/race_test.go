//go:build race

package sagatest

const raced = true
