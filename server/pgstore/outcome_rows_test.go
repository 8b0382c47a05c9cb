package pgstore_test

import (
	"github.com/fanonce/fanonce/server/store"
)

// The rules are those of [server.Effect]. A row of an Opaque handler shows the result of the handler's own answer: the
// guard sees no more of the failure.
var outcomeRows = []outcomeRow{
	{
		effect: store.Transactional, failure: refusedAnswered409,
		first: "409", headers: "replayed=false retry=false", log: "",
		state: "completed", rows: 0, runs: 1, retry: "409 replayed", allRows: 0,
	},
	{
		effect: store.Transactional, failure: refusedAnswered500,
		first: "500", headers: "replayed=false retry=true", log: "",
		state: "released", rows: 0, runs: 1, retry: "201", allRows: 1,
	},
	{
		effect: store.Transactional, failure: refusedUnnoticed,
		first: "500 transaction-failed", headers: "replayed=false retry=false", log: "ERROR",
		state: "released", rows: 0, runs: 1, retry: "201", allRows: 1,
	},
	{
		effect: store.Transactional, failure: diskFull,
		first: "503 store-unavailable", headers: "retry=true after=1", log: "WARN",
		state: "released", rows: 0, runs: 1, retry: "201", allRows: 1,
	},
	{
		effect: store.Transactional, failure: connectionOnce,
		first: "201", headers: "replayed=false", log: "",
		state: "completed", rows: 1, runs: 2, retry: "201 replayed", allRows: 1,
	},
	{
		effect: store.Transactional, failure: connectionEachTime,
		first: "503 store-unavailable", headers: "retry=true after=1", log: "WARN",
		state: "dead", rows: 0, runs: 2, retry: "201", allRows: 1,
	},
	{
		effect: store.Transactional, failure: commitLost,
		first: "503 store-unavailable", headers: "retry=true after=1", log: "WARN",
		state: "completed", rows: 1, runs: 1, retry: "201 replayed", allRows: 1,
	},
	{
		effect: store.Transactional, failure: deferredConstraint,
		first: "500 transaction-failed", headers: "replayed=false retry=false", log: "ERROR",
		state: "released", rows: 0, runs: 1, retry: "201", allRows: 1,
	},
	{
		effect: store.Transactional, failure: deferredAnswered409,
		first: "409", headers: "replayed=false retry=false", log: "",
		state: "completed", rows: 0, runs: 1, retry: "409 replayed", allRows: 0,
	},
	{
		effect: store.Transactional, failure: flushes,
		first: "201", headers: "replayed=false", log: "",
		state: "completed", rows: 1, runs: 1, retry: "201 replayed", allRows: 1,
	},
	{
		effect: store.Transactional, failure: flushesRefused,
		first: "500 not-storable", headers: "replayed=false retry=false", log: "WARN",
		state: "released", rows: 0, runs: 1, retry: "201", allRows: 1,
	},
	{effect: store.Transactional, failure: flushesThrough, rejected: true},
	{
		effect: store.Transactional, failure: hijacks,
		first: "500 not-storable", headers: "replayed=false retry=false", log: "WARN",
		state: "released", rows: 0, runs: 1, retry: "201", allRows: 1,
	},
	{
		effect: store.Transactional, failure: oversize,
		first: "201", headers: "replayed=false", log: "",
		state: "completed", rows: 1, runs: 1, retry: "410 response-gone", allRows: 1,
	},
	{
		effect: store.Transactional, failure: oversizeRefused,
		first: "500 not-storable", headers: "replayed=false retry=false", log: "WARN",
		state: "released", rows: 0, runs: 1, retry: "201", allRows: 1,
	},
	{
		effect: store.Transactional, failure: oversizeUnserved,
		first: "500 not-storable", headers: "replayed=false retry=false", log: "WARN",
		state: "released", rows: 0, runs: 1, retry: "201", allRows: 1,
	},
	{
		effect: store.Transactional, failure: panics,
		first: "panic", headers: "", log: "",
		state: "released", rows: 0, runs: 1, retry: "201", allRows: 1,
	},
	{
		effect: store.Keyed, failure: refusedAnswered409,
		first: "500 transaction-failed", headers: "replayed=false retry=false", log: "ERROR",
		state: "released, may have run", rows: 0, runs: 1, retry: "201", allRows: 1,
	},
	{
		effect: store.Keyed, failure: refusedAnswered500,
		first: "500 transaction-failed", headers: "replayed=false retry=false", log: "ERROR",
		state: "released, may have run", rows: 0, runs: 1, retry: "201", allRows: 1,
	},
	{
		effect: store.Keyed, failure: refusedUnnoticed,
		first: "500 transaction-failed", headers: "replayed=false retry=false", log: "ERROR",
		state: "released, may have run", rows: 0, runs: 1, retry: "201", allRows: 1,
	},
	{
		effect: store.Keyed, failure: diskFull,
		first: "503 store-unavailable", headers: "retry=true after=1", log: "WARN",
		state: "in progress", rows: 0, runs: 1, retry: "201", allRows: 1,
	},
	{
		effect: store.Keyed, failure: connectionOnce,
		first: "201", headers: "replayed=false", log: "",
		state: "completed", rows: 1, runs: 1, retry: "201 replayed", allRows: 1,
	},
	{
		effect: store.Keyed, failure: connectionEachTime,
		first: "503 store-unavailable", headers: "retry=true after=1", log: "WARN",
		state: "in progress", rows: 0, runs: 1, retry: "201", allRows: 1,
	},
	{
		effect: store.Keyed, failure: commitLost,
		first: "503 store-unavailable", headers: "retry=true after=1", log: "WARN",
		state: "completed", rows: 1, runs: 1, retry: "201 replayed", allRows: 1,
	},
	{
		effect: store.Keyed, failure: deferredConstraint,
		first: "500 transaction-failed", headers: "replayed=false retry=false", log: "ERROR",
		state: "released, may have run", rows: 0, runs: 1, retry: "201", allRows: 1,
	},
	{effect: store.Keyed, failure: deferredAnswered409, rejected: true},
	{
		effect: store.Keyed, failure: flushes,
		first: "201", headers: "replayed=false", log: "",
		state: "completed", rows: 1, runs: 1, retry: "201 replayed", allRows: 1,
	},
	{
		effect: store.Keyed, failure: flushesRefused,
		first: "500 not-storable", headers: "replayed=false retry=false", log: "WARN",
		state: "released, may have run", rows: 0, runs: 1, retry: "201", allRows: 1,
	},
	{
		effect: store.Keyed, failure: flushesThrough,
		first: "201", headers: "replayed=false", log: "",
		state: "completed", rows: 1, runs: 1, retry: "410 response-gone", allRows: 1,
	},
	{
		effect: store.Keyed, failure: hijacks,
		first: "500 not-storable", headers: "replayed=false retry=false", log: "WARN",
		state: "released, may have run", rows: 0, runs: 1, retry: "201", allRows: 1,
	},
	{
		effect: store.Keyed, failure: oversize,
		first: "201", headers: "replayed=false", log: "",
		state: "completed", rows: 1, runs: 1, retry: "410 response-gone", allRows: 1,
	},
	{
		effect: store.Keyed, failure: oversizeRefused,
		first: "500 not-storable", headers: "replayed=false retry=false", log: "WARN",
		state: "released, may have run", rows: 0, runs: 1, retry: "201", allRows: 1,
	},
	{
		effect: store.Keyed, failure: oversizeUnserved,
		first: "410 response-gone", headers: "replayed=false retry=false", log: "",
		state: "completed", rows: 1, runs: 1, retry: "410 response-gone", allRows: 1,
	},
	{
		effect: store.Keyed, failure: panics,
		first: "panic", headers: "", log: "",
		state: "released, may have run", rows: 0, runs: 1, retry: "201", allRows: 1,
	},
	{
		effect: store.Opaque, failure: refusedAnswered409,
		first: "409", headers: "replayed=false retry=false", log: "",
		state: "completed", rows: 0, runs: 1, retry: "409 replayed", allRows: 0,
	},
	{
		effect: store.Opaque, failure: refusedAnswered500,
		first: "500", headers: "replayed=false retry=false", log: "WARN",
		state: "unknown, may have run", rows: 0, runs: 1, retry: "423 outcome-unknown", allRows: 0,
	},
	{
		effect: store.Opaque, failure: refusedUnnoticed,
		first: "201", headers: "replayed=false", log: "",
		state: "completed", rows: 0, runs: 1, retry: "201 replayed", allRows: 0,
	},
	{
		effect: store.Opaque, failure: diskFull,
		first: "409", headers: "replayed=false retry=false", log: "",
		state: "completed", rows: 0, runs: 1, retry: "409 replayed", allRows: 0,
	},
	{
		effect: store.Opaque, failure: connectionOnce,
		first: "500", headers: "replayed=false retry=false", log: "WARN",
		state: "unknown, may have run", rows: 0, runs: 1, retry: "423 outcome-unknown", allRows: 0,
	},
	{
		effect: store.Opaque, failure: connectionEachTime,
		first: "500", headers: "replayed=false retry=false", log: "WARN",
		state: "unknown, may have run", rows: 0, runs: 1, retry: "423 outcome-unknown", allRows: 0,
	},
	{
		effect: store.Opaque, failure: commitLost,
		first: "500", headers: "replayed=false retry=false", log: "WARN",
		state: "unknown, may have run", rows: 1, runs: 1, retry: "423 outcome-unknown", allRows: 1,
	},
	{
		effect: store.Opaque, failure: deferredConstraint,
		first: "409", headers: "replayed=false retry=false", log: "",
		state: "completed", rows: 0, runs: 1, retry: "409 replayed", allRows: 0,
	},
	{effect: store.Opaque, failure: deferredAnswered409, rejected: true},
	{
		effect: store.Opaque, failure: flushes,
		first: "201", headers: "replayed=false", log: "",
		state: "completed", rows: 1, runs: 1, retry: "201 replayed", allRows: 1,
	},
	{
		effect: store.Opaque, failure: flushesRefused,
		first: "500 not-storable", headers: "replayed=false retry=false", log: "WARN",
		state: "unknown, may have run", rows: 1, runs: 1, retry: "423 outcome-unknown", allRows: 1,
	},
	{
		effect: store.Opaque, failure: flushesThrough,
		first: "201", headers: "replayed=false", log: "",
		state: "completed", rows: 1, runs: 1, retry: "410 response-gone", allRows: 1,
	},
	{
		effect: store.Opaque, failure: hijacks,
		first: "500 not-storable", headers: "replayed=false retry=false", log: "WARN",
		state: "unknown, may have run", rows: 0, runs: 1, retry: "423 outcome-unknown", allRows: 0,
	},
	{
		effect: store.Opaque, failure: oversize,
		first: "201", headers: "replayed=false", log: "",
		state: "completed", rows: 1, runs: 1, retry: "410 response-gone", allRows: 1,
	},
	{
		effect: store.Opaque, failure: oversizeRefused,
		first: "500 not-storable", headers: "replayed=false retry=false", log: "WARN",
		state: "unknown, may have run", rows: 1, runs: 1, retry: "423 outcome-unknown", allRows: 1,
	},
	{
		effect: store.Opaque, failure: oversizeUnserved,
		first: "410 response-gone", headers: "replayed=false retry=false", log: "",
		state: "completed", rows: 1, runs: 1, retry: "410 response-gone", allRows: 1,
	},
	{
		effect: store.Opaque, failure: panics,
		first: "panic", headers: "", log: "WARN",
		state: "unknown, may have run", rows: 1, runs: 1, retry: "423 outcome-unknown", allRows: 1,
	},
}
