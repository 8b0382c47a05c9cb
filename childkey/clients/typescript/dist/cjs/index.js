"use strict";
Object.defineProperty(exports, "__esModule", { value: true });
exports.parseProblem = exports.quoted = exports.parse = exports.NoRandomError = exports.newKey = exports.legacy = exports.Keyed = exports.hop = exports.fromParts = exports.digest = exports.deriveAs = exports.derive = exports.InputError = exports.retryAfter = exports.HEADER_X_SHOULD_RETRY = exports.HEADER_SHOULD_RETRY = exports.HEADER_RETRY_AFTER_MS = exports.HEADER_RETRY_AFTER = exports.HEADER_REPLAYED = exports.HEADER_PREFER = exports.HEADER_KEY = exports.HEADER_FORWARD = exports.HEADER_FIRST_SENT = exports.HEADER_CODE = exports.HEADER_CANCELS = exports.createFetch = exports.UnsentError = exports.RetryError = exports.ENCODINGS = exports.InvalidCallError = exports.ConfigError = exports.Budget = void 0;
/**
 * Idempotency keys, and calls that retry under one key and know their outcome.
 *
 * Start with {@link derive} for the key of a call, and with {@link createFetch} for the call. The keys are those of
 * childkey/SPEC.md, and a call ends as with the Go package retry. Keys are strings in their bare form.
 *
 * @packageDocumentation
 */
var budget_js_1 = require("./budget.js");
Object.defineProperty(exports, "Budget", { enumerable: true, get: function () { return budget_js_1.Budget; } });
var check_js_1 = require("./check.js");
Object.defineProperty(exports, "ConfigError", { enumerable: true, get: function () { return check_js_1.ConfigError; } });
Object.defineProperty(exports, "InvalidCallError", { enumerable: true, get: function () { return check_js_1.InvalidCallError; } });
var encoding_js_1 = require("./encoding.js");
Object.defineProperty(exports, "ENCODINGS", { enumerable: true, get: function () { return encoding_js_1.ENCODINGS; } });
var error_js_1 = require("./error.js");
Object.defineProperty(exports, "RetryError", { enumerable: true, get: function () { return error_js_1.RetryError; } });
var failure_js_1 = require("./failure.js");
Object.defineProperty(exports, "UnsentError", { enumerable: true, get: function () { return failure_js_1.UnsentError; } });
var fetch_js_1 = require("./fetch.js");
Object.defineProperty(exports, "createFetch", { enumerable: true, get: function () { return fetch_js_1.createFetch; } });
var headers_js_1 = require("./headers.js");
Object.defineProperty(exports, "HEADER_CANCELS", { enumerable: true, get: function () { return headers_js_1.HEADER_CANCELS; } });
Object.defineProperty(exports, "HEADER_CODE", { enumerable: true, get: function () { return headers_js_1.HEADER_CODE; } });
Object.defineProperty(exports, "HEADER_FIRST_SENT", { enumerable: true, get: function () { return headers_js_1.HEADER_FIRST_SENT; } });
Object.defineProperty(exports, "HEADER_FORWARD", { enumerable: true, get: function () { return headers_js_1.HEADER_FORWARD; } });
Object.defineProperty(exports, "HEADER_KEY", { enumerable: true, get: function () { return headers_js_1.HEADER_KEY; } });
Object.defineProperty(exports, "HEADER_PREFER", { enumerable: true, get: function () { return headers_js_1.HEADER_PREFER; } });
Object.defineProperty(exports, "HEADER_REPLAYED", { enumerable: true, get: function () { return headers_js_1.HEADER_REPLAYED; } });
Object.defineProperty(exports, "HEADER_RETRY_AFTER", { enumerable: true, get: function () { return headers_js_1.HEADER_RETRY_AFTER; } });
Object.defineProperty(exports, "HEADER_RETRY_AFTER_MS", { enumerable: true, get: function () { return headers_js_1.HEADER_RETRY_AFTER_MS; } });
Object.defineProperty(exports, "HEADER_SHOULD_RETRY", { enumerable: true, get: function () { return headers_js_1.HEADER_SHOULD_RETRY; } });
Object.defineProperty(exports, "HEADER_X_SHOULD_RETRY", { enumerable: true, get: function () { return headers_js_1.HEADER_X_SHOULD_RETRY; } });
Object.defineProperty(exports, "retryAfter", { enumerable: true, get: function () { return headers_js_1.retryAfter; } });
var input_js_1 = require("./input.js");
Object.defineProperty(exports, "InputError", { enumerable: true, get: function () { return input_js_1.InputError; } });
var keys_js_1 = require("./keys.js");
Object.defineProperty(exports, "derive", { enumerable: true, get: function () { return keys_js_1.derive; } });
Object.defineProperty(exports, "deriveAs", { enumerable: true, get: function () { return keys_js_1.deriveAs; } });
Object.defineProperty(exports, "digest", { enumerable: true, get: function () { return keys_js_1.digest; } });
Object.defineProperty(exports, "fromParts", { enumerable: true, get: function () { return keys_js_1.fromParts; } });
Object.defineProperty(exports, "hop", { enumerable: true, get: function () { return keys_js_1.hop; } });
Object.defineProperty(exports, "Keyed", { enumerable: true, get: function () { return keys_js_1.Keyed; } });
Object.defineProperty(exports, "legacy", { enumerable: true, get: function () { return keys_js_1.legacy; } });
Object.defineProperty(exports, "newKey", { enumerable: true, get: function () { return keys_js_1.newKey; } });
Object.defineProperty(exports, "NoRandomError", { enumerable: true, get: function () { return keys_js_1.NoRandomError; } });
Object.defineProperty(exports, "parse", { enumerable: true, get: function () { return keys_js_1.parse; } });
Object.defineProperty(exports, "quoted", { enumerable: true, get: function () { return keys_js_1.quoted; } });
var problem_js_1 = require("./problem.js");
Object.defineProperty(exports, "parseProblem", { enumerable: true, get: function () { return problem_js_1.parseProblem; } });
