// Package migrators runs the migration files of examples/migrations with the tools that they are made for: tern, goose
// and golang-migrate. Each function is what a service with that tool does when it is deployed.
package migrators
