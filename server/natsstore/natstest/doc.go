// Package natstest starts NATS servers with JetStream for tests: one, or a cluster of three, each a process that can be
// killed.
//
// A server is a copy of the test's own process, so nothing needs to be installed. TestMain calls [Main] first:
//
//	func TestMain(m *testing.M) {
//		natstest.Main()
//		os.Exit(m.Run())
//	}
//
//	func TestSomething(t *testing.T) {
//		servers := natstest.Start(t, natstest.Config{Nodes: 3})
//		conn := servers.Connect(t)
//		…
//		servers.Kill(0) // SIGKILL
//		servers.Restart(t, 0)
//	}
//
// The servers keep their files in a folder of the test, and end with it, also if the test's process is killed.
package natstest
