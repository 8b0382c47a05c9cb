// Package readme is the code of the project's README, which shows whole files of this folder
// and of its subfolders. The test runs them, and compares them with the README.
package readme
