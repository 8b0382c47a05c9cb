// Package readme is the code of the project's README, which shows callee.go,
// caller.go, saga.go, serve.go, setup.go and inventoryapi as they stand here. Its test runs them
// and holds the README against them.
package readme
