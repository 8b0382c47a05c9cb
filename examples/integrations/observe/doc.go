// Package observe shows fanonce to operators: a Grafana dashboard and Prometheus alerts. Its tests check both against the
// names that a real run exports.
package observe
