// Package readme has the code of the project's README in its subfolders. Its tests run
// the code as a new user does, and compare it with the README.
package readme
