//go:build !race

package sagatest

const raced = false
