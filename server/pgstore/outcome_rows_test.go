package pgstore_test

import "github.com/fanonce/fanonce/server"

// The rules are those of [server.Effect]. A row of an Opaque handler shows what its own
// answer makes of the failure: the guard sees nothing else of it.
var outcomeRows = []outcomeRow{
	{
		effect: server.Transactional, failure: refusedAnswered409,
		first: "409", headers: "replayed=false retry=false", log: "",
		state: "completed", rows: 0, runs: 1, retry: "409 replayed", allRows: 0,
	},
	{
		effect: server.Transactional, failure: refusedAnswered500,
		first: "500", headers: "replayed=false retry=true", log: "",
		state: "released", rows: 0, runs: 1, retry: "201", allRows: 1,
	},
	{
		effect: server.Transactional, failure: refusedUnnoticed,
		first: "500 transaction-failed", headers: "replayed=false retry=false", log: "ERROR",
		state: "released", rows: 0, runs: 1, retry: "201", allRows: 1,
	},
	{
		effect: server.Transactional, failure: diskFull,
		first: "503 store-unavailable", headers: "retry=true after=1", log: "WARN",
		state: "released", rows: 0, runs: 1, retry: "201", allRows: 1,
	},
	{
		effect: server.Transactional, failure: connectionOnce,
		first: "201", headers: "replayed=false", log: "",
		state: "completed", rows: 1, runs: 2, retry: "201 replayed", allRows: 1,
	},
	{
		effect: server.Transactional, failure: connectionEachTime,
		first: "503 store-unavailable", headers: "retry=true after=1", log: "WARN",
		state: "dead", rows: 0, runs: 2, retry: "201", allRows: 1,
	},
	{
		effect: server.Transactional, failure: commitLost,
		first: "503 store-unavailable", headers: "retry=true after=1", log: "WARN",
		state: "completed", rows: 1, runs: 1, retry: "201 replayed", allRows: 1,
	},
	{
		effect: server.Transactional, failure: deferredConstraint,
		first: "500 transaction-failed", headers: "replayed=false retry=false", log: "ERROR",
		state: "released", rows: 0, runs: 1, retry: "201", allRows: 1,
	},
	{
		effect: server.Transactional, failure: deferredAnswered409,
		first: "409", headers: "replayed=false retry=false", log: "",
		state: "completed", rows: 0, runs: 1, retry: "409 replayed", allRows: 0,
	},
	{
		effect: server.Transactional, failure: flushes,
		first: "201", headers: "replayed=false", log: "",
		state: "completed", rows: 1, runs: 1, retry: "201 replayed", allRows: 1,
	},
	{
		effect: server.Transactional, failure: flushesRefused,
		first: "500 not-storable", headers: "replayed=false retry=false", log: "WARN",
		state: "released", rows: 0, runs: 1, retry: "201", allRows: 1,
	},
	{effect: server.Transactional, failure: flushesThrough, rejected: true},
	{
		effect: server.Transactional, failure: hijacks,
		first: "500 not-storable", headers: "replayed=false retry=false", log: "WARN",
		state: "released", rows: 0, runs: 1, retry: "201", allRows: 1,
	},
	{
		effect: server.Transactional, failure: oversize,
		first: "201", headers: "replayed=false", log: "",
		state: "completed", rows: 1, runs: 1, retry: "410 response-gone", allRows: 1,
	},
	{
		effect: server.Transactional, failure: oversizeRefused,
		first: "500 not-storable", headers: "replayed=false retry=false", log: "WARN",
		state: "released", rows: 0, runs: 1, retry: "201", allRows: 1,
	},
	{
		effect: server.Transactional, failure: oversizeUnserved,
		first: "500 not-storable", headers: "replayed=false retry=false", log: "WARN",
		state: "released", rows: 0, runs: 1, retry: "201", allRows: 1,
	},
	{
		effect: server.Transactional, failure: panics,
		first: "panic", headers: "", log: "",
		state: "released", rows: 0, runs: 1, retry: "201", allRows: 1,
	},
	{
		effect: server.Keyed, failure: refusedAnswered409,
		first: "500 transaction-failed", headers: "replayed=false retry=false", log: "ERROR",
		state: "released, may have run", rows: 0, runs: 1, retry: "201", allRows: 1,
	},
	{
		effect: server.Keyed, failure: refusedAnswered500,
		first: "500 transaction-failed", headers: "replayed=false retry=false", log: "ERROR",
		state: "released, may have run", rows: 0, runs: 1, retry: "201", allRows: 1,
	},
	{
		effect: server.Keyed, failure: refusedUnnoticed,
		first: "500 transaction-failed", headers: "replayed=false retry=false", log: "ERROR",
		state: "released, may have run", rows: 0, runs: 1, retry: "201", allRows: 1,
	},
	{
		effect: server.Keyed, failure: diskFull,
		first: "503 store-unavailable", headers: "retry=true after=1", log: "WARN",
		state: "in progress", rows: 0, runs: 1, retry: "201", allRows: 1,
	},
	{
		effect: server.Keyed, failure: connectionOnce,
		first: "201", headers: "replayed=false", log: "",
		state: "completed", rows: 1, runs: 1, retry: "201 replayed", allRows: 1,
	},
	{
		effect: server.Keyed, failure: connectionEachTime,
		first: "503 store-unavailable", headers: "retry=true after=1", log: "WARN",
		state: "in progress", rows: 0, runs: 1, retry: "201", allRows: 1,
	},
	{
		effect: server.Keyed, failure: commitLost,
		first: "503 store-unavailable", headers: "retry=true after=1", log: "WARN",
		state: "completed", rows: 1, runs: 1, retry: "201 replayed", allRows: 1,
	},
	{
		effect: server.Keyed, failure: deferredConstraint,
		first: "500 transaction-failed", headers: "replayed=false retry=false", log: "ERROR",
		state: "released, may have run", rows: 0, runs: 1, retry: "201", allRows: 1,
	},
	{effect: server.Keyed, failure: deferredAnswered409, rejected: true},
	{
		effect: server.Keyed, failure: flushes,
		first: "201", headers: "replayed=false", log: "",
		state: "completed", rows: 1, runs: 1, retry: "201 replayed", allRows: 1,
	},
	{
		effect: server.Keyed, failure: flushesRefused,
		first: "500 not-storable", headers: "replayed=false retry=false", log: "WARN",
		state: "released, may have run", rows: 0, runs: 1, retry: "201", allRows: 1,
	},
	{
		effect: server.Keyed, failure: flushesThrough,
		first: "201", headers: "replayed=false", log: "",
		state: "completed", rows: 1, runs: 1, retry: "410 response-gone", allRows: 1,
	},
	{
		effect: server.Keyed, failure: hijacks,
		first: "500 not-storable", headers: "replayed=false retry=false", log: "WARN",
		state: "released, may have run", rows: 0, runs: 1, retry: "201", allRows: 1,
	},
	{
		effect: server.Keyed, failure: oversize,
		first: "201", headers: "replayed=false", log: "",
		state: "completed", rows: 1, runs: 1, retry: "410 response-gone", allRows: 1,
	},
	{
		effect: server.Keyed, failure: oversizeRefused,
		first: "500 not-storable", headers: "replayed=false retry=false", log: "WARN",
		state: "released, may have run", rows: 0, runs: 1, retry: "201", allRows: 1,
	},
	{
		effect: server.Keyed, failure: oversizeUnserved,
		first: "410 response-gone", headers: "replayed=false retry=false", log: "",
		state: "completed", rows: 1, runs: 1, retry: "410 response-gone", allRows: 1,
	},
	{
		effect: server.Keyed, failure: panics,
		first: "panic", headers: "", log: "",
		state: "released, may have run", rows: 0, runs: 1, retry: "201", allRows: 1,
	},
	{
		effect: server.Opaque, failure: refusedAnswered409,
		first: "409", headers: "replayed=false retry=false", log: "",
		state: "completed", rows: 0, runs: 1, retry: "409 replayed", allRows: 0,
	},
	{
		effect: server.Opaque, failure: refusedAnswered500,
		first: "500", headers: "replayed=false retry=false", log: "WARN",
		state: "unknown, may have run", rows: 0, runs: 1, retry: "423 outcome-unknown", allRows: 0,
	},
	{
		effect: server.Opaque, failure: refusedUnnoticed,
		first: "201", headers: "replayed=false", log: "",
		state: "completed", rows: 0, runs: 1, retry: "201 replayed", allRows: 0,
	},
	{
		effect: server.Opaque, failure: diskFull,
		first: "409", headers: "replayed=false retry=false", log: "",
		state: "completed", rows: 0, runs: 1, retry: "409 replayed", allRows: 0,
	},
	{
		effect: server.Opaque, failure: connectionOnce,
		first: "500", headers: "replayed=false retry=false", log: "WARN",
		state: "unknown, may have run", rows: 0, runs: 1, retry: "423 outcome-unknown", allRows: 0,
	},
	{
		effect: server.Opaque, failure: connectionEachTime,
		first: "500", headers: "replayed=false retry=false", log: "WARN",
		state: "unknown, may have run", rows: 0, runs: 1, retry: "423 outcome-unknown", allRows: 0,
	},
	{
		effect: server.Opaque, failure: commitLost,
		first: "500", headers: "replayed=false retry=false", log: "WARN",
		state: "unknown, may have run", rows: 1, runs: 1, retry: "423 outcome-unknown", allRows: 1,
	},
	{
		effect: server.Opaque, failure: deferredConstraint,
		first: "409", headers: "replayed=false retry=false", log: "",
		state: "completed", rows: 0, runs: 1, retry: "409 replayed", allRows: 0,
	},
	{effect: server.Opaque, failure: deferredAnswered409, rejected: true},
	{
		effect: server.Opaque, failure: flushes,
		first: "201", headers: "replayed=false", log: "",
		state: "completed", rows: 1, runs: 1, retry: "201 replayed", allRows: 1,
	},
	{
		effect: server.Opaque, failure: flushesRefused,
		first: "500 not-storable", headers: "replayed=false retry=false", log: "WARN",
		state: "unknown, may have run", rows: 1, runs: 1, retry: "423 outcome-unknown", allRows: 1,
	},
	{
		effect: server.Opaque, failure: flushesThrough,
		first: "201", headers: "replayed=false", log: "",
		state: "completed", rows: 1, runs: 1, retry: "410 response-gone", allRows: 1,
	},
	{
		effect: server.Opaque, failure: hijacks,
		first: "500 not-storable", headers: "replayed=false retry=false", log: "WARN",
		state: "unknown, may have run", rows: 0, runs: 1, retry: "423 outcome-unknown", allRows: 0,
	},
	{
		effect: server.Opaque, failure: oversize,
		first: "201", headers: "replayed=false", log: "",
		state: "completed", rows: 1, runs: 1, retry: "410 response-gone", allRows: 1,
	},
	{
		effect: server.Opaque, failure: oversizeRefused,
		first: "500 not-storable", headers: "replayed=false retry=false", log: "WARN",
		state: "unknown, may have run", rows: 1, runs: 1, retry: "423 outcome-unknown", allRows: 1,
	},
	{
		effect: server.Opaque, failure: oversizeUnserved,
		first: "410 response-gone", headers: "replayed=false retry=false", log: "",
		state: "completed", rows: 1, runs: 1, retry: "410 response-gone", allRows: 1,
	},
	{
		effect: server.Opaque, failure: panics,
		first: "panic", headers: "", log: "WARN",
		state: "unknown, may have run", rows: 1, runs: 1, retry: "423 outcome-unknown", allRows: 1,
	},
}
