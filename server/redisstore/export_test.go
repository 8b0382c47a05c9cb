package redisstore

// For tests in package redisstore_test.
var (
	Code        = code
	ScriptFiles = scriptFiles
)
