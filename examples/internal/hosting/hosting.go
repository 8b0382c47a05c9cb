// Package hosting has the parts of the example services that do not concern keys: their
// environment, their start and stop, and their tenants.
package hosting
